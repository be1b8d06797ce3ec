"""The values of a row's fields: what counts as content, text that a file can hold, and lists of turns."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracle.prompts.cut import Span
from oracle.records.typed import is_deep

_USER, _SYSTEM = "user", "system"
# Names of the sides of a conversation in published data sets, and the roles that chat templates know.
_ROLES: dict[str, str] = dict.fromkeys(("human", "prompter", "user"), _USER)
_ROLES |= dict.fromkeys(("gpt", "chatgpt", "bing", "bard", "assistant", "bot", "model"), "assistant")
_ROLES |= {"system": _SYSTEM}
_TURN_KEYS = (("role", "content"), ("from", "value"))  # OpenAI's messages; ShareGPT's conversations
_LISTS = ("messages", "conversations", "conversation", "turns")  # columns that hold lists by name
_PYTHONS_TURN = re.compile(r"\[\s*\{\s*'(role|from|content|value)'\s*:")
_SHOWN = 60  # characters of a name that somebody else chose


@dataclass(frozen=True)
class Turn:
    """One turn of a chat: who speaks, as chat templates call them, and what they say."""

    role: str
    content: str


@dataclass(frozen=True)
class Written:
    """A row as a prompt: the text, what only a chat can hold, and what of the row is in neither."""

    text: str
    instruction: str | None = None  # what the user of a chat would type, where that is not the text
    before: tuple[Turn, ...] = ()  # turns that a chat begins with
    chat_only: bool = False  # the turns before are part of the question
    used: tuple[str, ...] = ()  # columns that the prompt is made of
    dropped: tuple[str, ...] = ()  # parts of these columns that are not in it, in words
    span: Span | None = None  # the part of the text that may be shortened, where not all of it may


def has_content(value: object) -> bool:
    """Whether there is anything in a value: null, NaN, blank text and lists of these are what tables hold for nothing.

    An object has content if one of its fields has.
    """
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, float):
        return not np.isnan(value)
    if isinstance(value, Mapping):
        return any(map(has_content, value.values()))
    return any(map(has_content, value)) if isinstance(value, list) else value is not None


def text_of(row: Mapping[str, Any], field: str, place: str) -> str:
    """The text of a field; null, NaN (how tables store a missing text) and an absent field are empty."""
    value = row.get(field)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{place}: {field} must be text, got {type(value).__name__} {value!r:.80}.")
    return encodable(value, field, place)


def encodable(value: str, field: str, place: str) -> str:
    """The same text.  Raises ValueError for half a surrogate pair, which JSON can write and no file can hold."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        at = f"character {error.start + 1} of {field}"
        raise ValueError(f"{place}: {at} is half a surrogate pair, which is no text. Remove that escape.") from error
    return value


def shown(name: object) -> str:
    """A name that somebody else chose, short, and as text that a file can hold."""
    text = str(name).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def question_of(row: Mapping[str, Any], field: str, place: str) -> Written:
    """What a field asks: a text, the first of several turns, or the turns of a chat up to its last question.

    A list of texts is what a user says turn by turn (MT-Bench), and only the first turn can be asked without the
    model's own answers.  Turns with a role are a chat, asked as a server would be: every turn up to the last one of the
    user.  ShareGPT's conversations are a record of somebody else's chat, whose first question is asked.  A list may be
    written as JSON, as it is in tables of texts.  Raises ValueError for a value of another kind.
    """
    value = _unwritten(row.get(field), field, place)
    filled = [each for each in value if has_content(each)] if isinstance(value, list) else []
    if not filled:
        text = "" if isinstance(value, list) else text_of({field: value}, field, place)
        return Written(text, used=(field,))
    if all(isinstance(each, str) for each in filled):
        later = (f"{field} after the first turn",) if len(filled) > 1 else ()
        return Written(encodable(filled[0], field, place), used=(field,), dropped=later)
    return replace(_chat(filled, field, place), used=(field,))


def _unwritten(value: Any, field: str, place: str) -> Any:
    """The list that a text is the JSON of, in a column of lists; elsewhere a list of turns only, else the text itself.

    Raises ValueError where a text was meant as a list and is no JSON: asked as it stands it would be another prompt.
    """
    text = value.strip() if isinstance(value, str) else ""
    if not (text.startswith("[") and text.endswith("]")):
        return value
    found: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
    turns = isinstance(found, list) and bool(found) and all(map(_is_turn, found))
    if turns or (field in _LISTS and isinstance(found, list) and not is_deep(found)):
        return found
    if found is None and (field in _LISTS or _PYTHONS_TURN.match(text)):
        raise ValueError(
            f"{place}: {field} looks like a list and is no JSON: {text!r:.60}. Write it as JSON, with double quotes."
        )
    return value


def _is_turn(entry: Any) -> bool:
    return isinstance(entry, Mapping) and any({*keys} <= {*entry} for keys in _TURN_KEYS) and not is_deep(entry)


def context_of(row: Mapping[str, Any]) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    """The turns that other columns put before the question, and these columns: a system message, and earlier turns.

    A column of one of these names that holds something else is none of them.
    """
    turns, used = [], []
    for field in ("system", "system_prompt"):
        value = row.get(field)
        if not turns and isinstance(value, str) and has_content(value) and _is_text(value):
            turns.append(Turn(_SYSTEM, value))
            used.append(field)
    pairs = row.get("history")
    if isinstance(pairs, list) and pairs and all(map(_is_exchange, pairs)):
        turns += [Turn(role, text) for pair in pairs for role, text in zip((_USER, "assistant"), pair, strict=True)]
        used.append("history")
    return tuple(turns), tuple(used)


def _is_exchange(pair: Any) -> bool:
    """Whether it is a question and its answer, both of them texts."""
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) and _is_text(text) for text in pair)


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _chat(entries: Sequence[Any], field: str, place: str) -> Written:
    turns, dropped, recorded = [], [], False
    for number, entry in enumerate(entries, start=1):
        turn, left, key = _turn(entry, field, f"{place}, turn {number} of {field}")
        turns.append(turn)
        dropped.append(left)
        recorded = recorded or key == "from"
    asked = [at for at, turn in enumerate(turns) if turn.role == _USER and turn.content.strip()]
    if not asked:
        roles = ", ".join(sorted({shown(turn.role) for turn in turns})[:4])
        return Written("", dropped=(f"{field} in which no user asks (roles: {roles})",))
    at = asked[0] if recorded else asked[-1]
    kept = [n for n, turn in enumerate(turns[:at]) if not recorded or turn.role == _SYSTEM]
    words = [word for n in (*kept, at) for word in dropped[n]]
    if any(turn.content.strip() or dropped[n] for n, turn in enumerate(turns[:at]) if n not in kept):
        words.append(f"{field} before the first question")
    if any(turn.content.strip() or dropped[n] for n, turn in enumerate(turns) if n > at):
        words.append(f"{field} after the {'first' if recorded else 'last'} question")
    before = tuple(turns[n] for n in kept)
    return Written(turns[at].content, before=before, chat_only=not recorded, dropped=tuple(dict.fromkeys(words)))


def _turn(entry: Any, field: str, place: str) -> tuple[Turn, tuple[str, ...], str]:
    """One entry of a list of turns, what of it is left out, and under which key it names who speaks."""
    keys = next(
        (keys for keys in _TURN_KEYS if isinstance(entry, Mapping) and isinstance(entry.get(keys[0]), str)), None
    )
    if keys is None:
        raise ValueError(
            f'{place}: expected {{"role": ..., "content": ...}} or {{"from": ..., "value": ...}}, got {entry!r:.80}. '
            "Write each turn of a chat so, or give plain texts."
        )
    role = encodable(str(entry[keys[0]]), keys[0], place)
    content, dropped = _content(entry, keys[1], field, place)
    extra = tuple(f"{shown(key)} in {field}" for key, value in entry.items() if key not in keys and has_content(value))
    return Turn(_ROLES.get(role.casefold(), role), content), (*dropped, *extra), keys[0]


def _content(entry: Mapping[str, Any], key: str, field: str, place: str) -> tuple[str, tuple[str, ...]]:
    """The text of a turn, whose content may come in parts, and the kinds of parts that are no text."""
    value = entry.get(key)
    if not isinstance(value, list):
        return text_of(entry, key, place), ()
    texts, others = [], []
    for part in value:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            texts.append(encodable(text, key, place))
        elif has_content(part):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            others.append(f"{shown(kind or 'a part without text')} in {field}")
    return "\n".join(texts), tuple(others)
