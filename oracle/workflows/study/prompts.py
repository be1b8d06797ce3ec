"""Prompts of a task, cut to the length that the task allows, as a pair's tokenizer counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oracle.models.pair import Pair
from oracle.prompts.sets import PromptSet, load_prompts
from oracle.workflows.study.recipe import Task


@dataclass(frozen=True)
class Ids:
    """A prompt as token ids."""

    id: str
    text: list[int]


def task_prompts(task: Task) -> PromptSet:
    """The prompts of a task, uncut.  Raises ValueError or RuntimeError where they are not to be had."""
    return load_prompts(
        task.dataset, split=task.split, limit=task.limit, seed=task.seed, prompt_field=task.prompt_field
    )


def cut(pair: Pair, prompts: PromptSet, tokens: int | None) -> PromptSet:
    """The prompts as at most so many ``tokens`` each: their beginnings, with what the tokenizer adds to every text.

    Raises ValueError for a pair without a tokenizer, where nothing says what a token is.
    """
    if tokens is None:
        return prompts
    tokenizer = pair.tokenizer
    if tokenizer is None:
        raise ValueError("max_prompt_tokens cuts texts, and this pair has no tokenizer; leave it out")

    def ids(text: str) -> list[int]:
        # What a tokenizer adds to every text stays whole; a text with nothing in it is no prompt, and is left out.
        found = tokenizer(text, truncation=True, max_length=tokens, padding=False, verbose=False)
        return list(found["input_ids"]) if text.strip() else []

    found: Any = tuple(Ids(each.id, ids(each.text)) for each in prompts)
    return PromptSet(prompts.name, found, prompts.source | {"max_prompt_tokens": tokens})
