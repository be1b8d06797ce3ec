"""Prompts to token ids that both models can read, and the reasons for those that cannot be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from oracle.pairs import Pair, most_positions, shared_rows


@dataclass(frozen=True)
class Encoded:
    """One prompt that the models will see."""

    id: str
    index: int  # its place among the prompts given, skipped ones counted
    tokens: np.ndarray  # int32 [P], P >= 1
    max_new_tokens: int  # the limit in force for this prompt


def encode(pair: Pair, prompts: Iterable, max_new_tokens: int, chat: bool = False) -> tuple[list[Encoded], list[dict]]:
    """The prompts as both models will see them, and those left out, as ``{"id", "index", "reason"}``.

    ``prompts`` are strings, sequences of token ids or ``Prompt``s.  A prompt without tokens becomes the token that
    begins a text, if there is one.  What does not fit into the shorter of both models' contexts is left out; where only
    the answer does not fit, the limit of that prompt is lowered.  Raises ValueError for values that are no prompts.
    """
    if isinstance(prompts, (str, bytes)):
        raise ValueError("prompts is one string; give a list of prompts")
    context = context_limit(pair)
    known = shared_rows(pair)
    found, skipped = [], []
    for index, name, tokens in _token_ids(pair, prompts, chat):
        reason = _problem(tokens, known, context)
        if reason:
            skipped.append({"id": name, "index": index, "reason": reason})
        else:
            room = max_new_tokens if context is None else min(max_new_tokens, context - len(tokens))
            found.append(Encoded(name, index, tokens, room))
    return found, skipped


def context_limit(pair: Pair) -> int | None:
    """Most positions that both models can read, or None where neither has a limit."""
    limits = (most_positions(pair.target), most_positions(pair.draft))
    return min((limit for limit in limits if limit is not None), default=None)


def digest(encoded: Sequence[Encoded]) -> str:
    """Hash of everything about the prompts that a trace depends on."""
    state = hashlib.sha256()
    for item in encoded:
        state.update(repr((item.id, item.index, item.max_new_tokens, len(item.tokens))).encode())
        state.update(item.tokens.tobytes())
    return state.hexdigest()


def _token_ids(pair: Pair, prompts: Iterable, chat: bool) -> Iterator[tuple[int, str, np.ndarray]]:
    for index, prompt in enumerate(prompts):
        name = str(getattr(prompt, "id", index))
        text = getattr(prompt, "text", prompt)
        if isinstance(text, str):
            tokens = _tokenize(pair, prompt, name, chat)
        elif chat:
            raise ValueError(f"prompt {name} is token ids, but only text fits a chat template; leave chat out")
        else:
            tokens = text
        yield index, name, _integers(tokens, name) if len(tokens) else _begin(pair)


def _tokenize(pair: Pair, prompt: object, name: str, chat: bool) -> Sequence[int]:
    if pair.tokenizer is None:
        raise ValueError(f"prompt {name} is text, but the pair has no tokenizer; give token ids, or a Pair with one")
    if chat:
        from oracle.prompts import render_chat

        return render_chat(pair.tokenizer, getattr(prompt, "user_turn", prompt))
    # A tokenizer may have been saved with padding and truncation switched on.
    return pair.tokenizer(getattr(prompt, "text", prompt), padding=False, truncation=False, verbose=False)["input_ids"]


def _integers(tokens: object, name: str) -> np.ndarray:
    array = np.asarray(tokens)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"prompt {name} is neither text nor a sequence of token ids: {str(tokens)[:60]!r}")
    return array.astype(np.int32) if array.max() < 2**31 and array.min() >= 0 else array


def _begin(pair: Pair) -> np.ndarray:
    """The token that begins a text, int32 [1], or nothing where the pair has none."""
    begin = pair.target.config.get_text_config().bos_token_id if pair.tokenizer is None else pair.tokenizer.bos_token_id
    return np.array([] if begin is None else [begin], np.int32)


def _problem(tokens: np.ndarray, known: int, context: int | None) -> str | None:
    if not len(tokens):
        return "no tokens, and no token that begins a text"
    if tokens.min() < 0 or tokens.max() >= known:
        wrong = int(tokens[(tokens < 0) | (tokens >= known)][0])
        return f"token id {wrong}, but the models share ids 0 to {known - 1}"
    if context is not None and len(tokens) >= context:
        return f"{len(tokens)} tokens, but the models read at most {context} positions, one of them for the answer"
    return None
