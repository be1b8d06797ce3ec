"""Prompts to token ids that both models can read, and the reasons for those that cannot be."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracle.models.configs import known_rows, positions, whole
from oracle.models.lengths import room
from oracle.models.pair import Pair
from oracle.prompts.chat import HISTORY, QUESTION, SYSTEM, Chat, as_chat, render_chat
from oracle.prompts.cut import shortened
from oracle.prompts.fields import Turn

# Remarks on a prompt.
DATED = "dated"  # its template wrote the date into it
CUT = "cut"  # its text was longer than the most tokens that it may have
NO_SYSTEM, NO_HISTORY = "no system message", "no earlier turns"  # it has some, and the tokens do not hold them
# Kinds of reasons for leaving a prompt out.
EMPTY, UNREAD, UNKNOWN, LONG = "empty", "not in the chat template's text", "an unknown token id", "too long"
OTHER = "another token to the draft"


@dataclass(frozen=True)
class Encoded:
    """One prompt that the models will see."""

    id: str
    index: int  # its place among the prompts given, skipped ones counted
    tokens: np.ndarray  # int32 [P], P >= 1
    max_new_tokens: int  # the limit in force for this prompt
    remarks: frozenset[str] = frozenset()  # DATED, CUT, NO_SYSTEM, NO_HISTORY


def encode(
    pair: Pair, prompts: Iterable, max_new_tokens: int, chat: bool | Chat = False
) -> tuple[list[Encoded], list[dict]]:
    """The prompts as both models will see them, and those left out, as ``{"id", "index", "reason", "kind"}``.

    ``prompts`` are strings, sequences of token ids or ``Prompt``s.  Left out is a prompt that has no token of its own
    (what a tokenizer adds to every text is no prompt), an id that a model does not know or that means another token to
    the draft, and what does not fit into the shorter of both models' contexts; where only the answer does not fit, or
    would step over a length from which on a model reads in another way, the limit of that prompt is lowered.  Raises
    ValueError for values that are no prompts, for two of the same id, and for a chat that no template writes.
    """
    if isinstance(prompts, (str, bytes)):
        raise ValueError("prompts is one string; give a list of prompts")
    context = context_limit(pair)
    known = known_rows(pair)
    answer = 0 if pair.target.config.is_encoder_decoder else 1  # positions beside a prompt that an answer needs
    found, skipped = [], []
    place: dict[str, int] = {}
    for index, name, one in _token_ids(pair, prompts, as_chat(chat)):
        if place.setdefault(name, index) != index:  # what is recorded is found again by its id
            raise ValueError(f"prompts {place[name]} and {index} have the same id {name[:100]!r}; give each its own")
        problem = (
            one.problem or _problem(one.ids, known, context, answer) or _contradiction(one.ids, pair.contradicting)
        )
        if problem:
            skipped.append({"id": name, "index": index, "reason": problem[1], "kind": problem[0]})
        else:
            before = columns_before(pair, len(one.ids))
            rooms = (max_new_tokens, context and context - before, room(pair, before))
            limit = min(each for each in rooms if each is not None)
            found.append(Encoded(name, index, np.array(one.ids, np.int32), limit, one.remarks))
    return found, skipped


def context_limit(pair: Pair) -> int | None:
    """Most positions that both models can read, or None where neither has a limit."""
    limits = [positions(model) for model in (pair.target, pair.draft)]
    return min((limit for limit in limits if limit is not None), default=None)


def columns_before(pair: Pair, prompt_tokens: int) -> int:
    """Positions before a text: its prompt's, or a decoder's start token where an encoder reads the prompt."""
    return 1 if pair.target.config.is_encoder_decoder else prompt_tokens


def longest_text(pair: Pair, encoded: Sequence[Encoded]) -> int:
    """Most positions that any text may have, what comes before it included."""
    return max(columns_before(pair, len(item.tokens)) + item.max_new_tokens for item in encoded)


def digest(encoded: Sequence[Encoded]) -> str:
    """Hash of everything about the prompts that a trace depends on."""
    state = hashlib.sha256()
    for item in encoded:
        state.update(repr((item.id, item.index, item.max_new_tokens, len(item.tokens))).encode())
        state.update(item.tokens.tobytes())
    return state.hexdigest()


@dataclass(frozen=True)
class _Ids:
    """The token ids of one prompt, remarks on it, and why it cannot be used: a kind, and a sentence."""

    ids: list[int]
    remarks: frozenset[str] = frozenset()
    problem: tuple[str, str] | None = None


def _token_ids(pair: Pair, prompts: Iterable, chat: Chat | None) -> Iterator[tuple[int, str, _Ids]]:
    for index, prompt in enumerate(prompts):
        name = str(getattr(prompt, "id", index))
        text: Any = getattr(prompt, "text", prompt)
        if not isinstance(text, str):
            if chat is not None:
                raise ValueError(f"prompt {name} is token ids, but only text fits a chat template; leave chat out")
            yield index, name, _Ids(_whole_numbers(text, name))
        elif pair.tokenizer is None:
            raise ValueError(
                f"prompt {name} is text, but the pair has no tokenizer; give token ids, or a Pair with one"
            )
        else:
            before: tuple[Turn, ...] = getattr(prompt, "before", ())
            asked = text if chat is None else getattr(prompt, "user_turn", text)
            text = _cut(pair, prompt, asked, name)
            more = frozenset({CUT} if text != asked else ())
            if chat is not None:
                one = _in_template(pair, before, text, name, chat)
                yield index, name, replace(one, remarks=one.remarks | more)
                continue
            if getattr(prompt, "chat_only", False):
                raise ValueError(
                    f"prompt {name} is a chat, whose turns a chat template puts together: give --chat (chat=True) and "
                    "a pair that has a template, or another column of text (--prompt-field)"
                )
            yield index, name, _Ids(_plainly(pair, text), _not_there(before, (SYSTEM, HISTORY)) | more)


def _cut(pair: Pair, prompt: Any, text: str, name: str) -> str:
    """The text of a prompt, or of its user's turn, as short as the prompt says; a template's tokens come on top."""
    most = getattr(prompt, "most_tokens", None)
    if most is None:
        return text
    span = prompt.span if text == prompt.text else None
    try:
        return shortened(text, span, lambda shorter: len(_plainly(pair, shorter)) <= most)
    except ValueError as error:
        raise ValueError(
            f"prompt {name} cannot be cut to {most} tokens: {error}; give more (--prompt-tokens)"
        ) from None


def _in_template(pair: Pair, before: Sequence[Turn], text: str, name: str, chat: Chat) -> _Ids:
    """A prompt in the chat template; without ids where it has nothing to ask, or the template leaves that out."""
    assert pair.tokenizer is not None
    if not text.strip():
        return _Ids([])
    own = bool(before) and before[0].role == "system"
    turns = [*before, Turn("user", text)]
    if chat.system is not None and not own:
        turns.insert(0, Turn("system", chat.system))
    rendered = render_chat(pair.tokenizer, turns, chat)
    if rendered.tokens and QUESTION in rendered.lost:
        return _Ids([], problem=(UNREAD, "the chat template's text is the same whatever the prompt says"))
    if SYSTEM in rendered.lost and not own:
        raise ValueError(
            f"the chat template leaves the system message out (prompt {name}); leave --system out, or take a model "
            "whose template has a place for it"
        )
    dated = frozenset({DATED} if rendered.dated else ())
    return _Ids(list(rendered.tokens), dated | _not_there(before, rendered.lost))


def _not_there(before: Sequence[Turn], lost: Iterable[str]) -> frozenset[str]:
    """Remarks on the turns before the question that its tokens do not hold."""
    there = {SYSTEM if turn.role == "system" else HISTORY for turn in before}
    return frozenset({SYSTEM: NO_SYSTEM, HISTORY: NO_HISTORY}[part] for part in there & set(lost))


def _plainly(pair: Pair, text: str) -> list[int]:
    """The ids of a text; none where it has no token of its own."""
    assert pair.tokenizer is not None
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


def _problem(ids: list[int], known: int, context: int | None, answer: int) -> tuple[str, str] | None:
    """The kind of reason for leaving a prompt out, and the reason; None for one that can be used."""
    if not ids:
        return EMPTY, "empty prompt"
    at = next((at for at, token in enumerate(ids) if not 0 <= token < known), None)
    if at is not None:
        return UNKNOWN, f"token id {ids[at]}, but the models share ids 0 to {known - 1} (at index {at} of the prompt)"
    if context is not None and len(ids) > context - answer:
        kept = ", one of them for the answer" if answer else ""
        return LONG, f"{len(ids)} tokens, but the models read at most {context} positions{kept}"
    return None


def _contradiction(ids: list[int], contradicting: frozenset[int]) -> tuple[str, str] | None:
    at = next((at for at, token in enumerate(ids) if token in contradicting), None)
    if at is None:
        return None
    return OTHER, f"token id {ids[at]} means another token to the draft (at index {at} of the prompt)"
