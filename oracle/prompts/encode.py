"""Prompts to token ids that both models can read, and the reasons for those that cannot be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle.models.checks import shared_rows
from oracle.models.configs import positions, whole
from oracle.models.lengths import room
from oracle.models.pair import Pair

_EMPTY = "empty prompt"


@dataclass(frozen=True)
class Encoded:
    """One prompt that the models will see."""

    id: str
    index: int  # its place among the prompts given, skipped ones counted
    tokens: np.ndarray  # int32 [P], P >= 1
    max_new_tokens: int  # the limit in force for this prompt


def encode(pair: Pair, prompts: Iterable, max_new_tokens: int, chat: bool = False) -> tuple[list[Encoded], list[dict]]:
    """The prompts as both models will see them, and those left out, as ``{"id", "index", "reason"}``.

    ``prompts`` are strings, sequences of token ids or ``Prompt``s.  Left out is a prompt that has no token of its own
    (what a tokenizer adds to every text is no prompt), an id that a model does not know or that means another token to
    the draft, and what does not fit into the shorter of both models' contexts; where only the answer does not fit, or
    would step over a length from which on a model reads in another way, the limit of that prompt is lowered.  Raises
    ValueError for values that are no prompts, and for two of the same id.
    """
    if isinstance(prompts, (str, bytes)):
        raise ValueError("prompts is one string; give a list of prompts")
    context = context_limit(pair)
    known = shared_rows(pair)
    found, skipped = [], []
    place: dict[str, int] = {}
    for index, name, ids in _token_ids(pair, prompts, chat):
        if place.setdefault(name, index) != index:  # what is recorded is found again by its id
            raise ValueError(f"prompts {place[name]} and {index} have the same id {name[:100]!r}; give each its own")
        reason = _problem(ids, known, context) or _contradiction(ids, pair.contradicting)
        if reason:
            skipped.append({"id": name, "index": index, "reason": reason})
        else:
            rooms = (max_new_tokens, context and context - len(ids), room(pair, len(ids)))
            limit = min(one for one in rooms if one is not None)
            found.append(Encoded(name, index, np.array(ids, np.int32), limit))
    return found, skipped


def context_limit(pair: Pair) -> int | None:
    """Most positions that both models can read, or None where neither has a limit."""
    limits = [positions(model) for model in (pair.target, pair.draft)]
    return min((limit for limit in limits if limit is not None), default=None)


def digest(encoded: Sequence[Encoded]) -> str:
    """Hash of everything about the prompts that a trace depends on."""
    state = hashlib.sha256()
    for item in encoded:
        state.update(repr((item.id, item.index, item.max_new_tokens, len(item.tokens))).encode())
        state.update(item.tokens.tobytes())
    return state.hexdigest()


def _token_ids(pair: Pair, prompts: Iterable, chat: bool) -> Iterator[tuple[int, str, list[int]]]:
    for index, prompt in enumerate(prompts):
        name = str(getattr(prompt, "id", index))
        text: Any = getattr(prompt, "text", prompt)
        if isinstance(text, str):
            yield index, name, _tokenize(pair, getattr(prompt, "user_turn", text) if chat else text, name, chat)
        elif chat:
            raise ValueError(f"prompt {name} is token ids, but only text fits a chat template; leave chat out")
        else:
            yield index, name, _whole_numbers(text, name)


def _tokenize(pair: Pair, text: str, name: str, chat: bool) -> list[int]:
    """The ids of a text; none where it has no token of its own."""
    if pair.tokenizer is None:
        raise ValueError(f"prompt {name} is text, but the pair has no tokenizer; give token ids, or a Pair with one")
    if chat:
        from oracle.prompts.chat import render_chat

        return list(render_chat(pair.tokenizer, text)) if text.strip() else []
    # A tokenizer may have been saved with padding and truncation switched on.
    plain: dict[str, Any] = {"padding": False, "truncation": False, "verbose": False}
    ids = list(pair.tokenizer(text, **plain)["input_ids"])
    added = len(ids) <= pair.tokenizer.num_special_tokens_to_add()
    return ids if not added or pair.tokenizer(text, add_special_tokens=False, **plain)["input_ids"] else []


def _whole_numbers(tokens: Any, name: str) -> list[int]:
    """A prompt's ids, read by value: whole numbers of any type in a list, an array or a tensor of one dimension."""
    if not isinstance(tokens, (list, tuple)) and getattr(tokens, "ndim", None) != 1:
        shape = f" of shape {tuple(tokens.shape)}" if hasattr(tokens, "shape") else ""
        raise ValueError(
            f"prompt {name} is neither text nor a sequence of token ids: {str(tokens)[:60]!r}{shape}; "
            "give a string or a flat list of ids"
        )
    values = tokens if isinstance(tokens, (list, tuple)) else tokens.tolist()
    ids = [whole(value) for value in values]
    known = [number for number in ids if number is not None]
    if len(known) < len(ids):
        at = ids.index(None)
        raise ValueError(
            f"prompt {name} is neither text nor a sequence of token ids: it has {str(values[at])[:60]!r} "
            f"({type(values[at]).__name__}) at index {at}; give whole numbers"
        )
    return known


def _problem(ids: list[int], known: int, context: int | None) -> str | None:
    if not ids:
        return _EMPTY
    at = next((at for at, token in enumerate(ids) if not 0 <= token < known), None)
    if at is not None:
        return f"token id {ids[at]}, but the models share ids 0 to {known - 1} (at index {at} of the prompt)"
    if context is not None and len(ids) >= context:
        return f"{len(ids)} tokens, but the models read at most {context} positions, one of them for the answer"
    return None


def _contradiction(ids: list[int], contradicting: frozenset[int]) -> str | None:
    at = next((at for at, token in enumerate(ids) if token in contradicting), None)
    return None if at is None else f"token id {ids[at]} means another token to the draft (at index {at} of the prompt)"
