"""Prompts to token ids that both models can read, and the reasons for those that cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oracle.pairs import Pair


@dataclass(frozen=True)
class Encoded:
    """One prompt that the models will see."""

    id: str
    index: int  # row number in the data set
    tokens: np.ndarray  # int32 [P], P >= 1
    max_new_tokens: int  # the limit in force for this prompt


def encode(pair: Pair, prompts: Iterable, max_new_tokens: int, chat: bool = False) -> tuple[list[Encoded], list[dict]]:
    """The prompts as both models will see them, and those left out as ``{"id", "reason"}``."""
    found = []
    for index, prompt in enumerate(prompts):
        tokens = np.asarray(_tokens(pair, prompt, chat), np.int32)
        found.append(Encoded(str(getattr(prompt, "id", index)), index, tokens, max_new_tokens))
    return found, []


def _tokens(pair: Pair, prompt: object, chat: bool) -> Sequence[int]:
    from oracle.prompts import render_chat

    if not isinstance(prompt, str) and not hasattr(prompt, "text"):
        return prompt
    if chat:
        return render_chat(pair.tokenizer, getattr(prompt, "user_turn", prompt))
    return pair.tokenizer(getattr(prompt, "text", prompt))["input_ids"]
