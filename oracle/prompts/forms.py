"""From rows to prompts: the published form of each schema, recognised by the fields of a row.

The forms are those of the published analysis of dynamic lookahead (arXiv 2405.04304): MBPP is the task and its first
test between triple quotes, Alpaca the instruction template of its authors, CNN-DM an article between "Summarize:" and
"Summary:", HumanEval its own prompt field. A field exists where it has content: null, NaN, blank text and an empty list
are what tables hold where there is nothing. A row with nothing in it to ask becomes an empty text, not an empty form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracle.words import did_you_mean

ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Response:"
)
ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


@dataclass(frozen=True)
class Prompt:
    """One prompt. `id` is the same whatever else is selected; `instruction` is what the user of a chat would type."""

    id: str
    text: str
    instruction: str | None = None  # None where the text itself is what the user would type

    @property
    def user_turn(self) -> str:
        """The text for the user's turn of a chat template."""
        return self.text if self.instruction is None else self.instruction


@dataclass(frozen=True)
class Form:
    """How rows of one schema become prompts. A row is of the form if it names one field of each of the `groups`."""

    groups: tuple[tuple[str, ...], ...]
    write: Callable[[dict, str], tuple[str, str | None]]  # (row, place for messages) -> (text, instruction)

    def names(self, row: dict) -> bool:
        """Whether the row has these fields, filled or not."""
        return all(any(field in row for field in group) for group in self.groups)

    def touches(self, row: dict) -> bool:
        """Whether the row has one of the fields: it may leave out what it has no content for."""
        return any(field in row for group in self.groups for field in group)

    def fills(self, row: dict) -> bool:
        """Whether the row has content in a field of each group."""
        return all(any(_has_content(row.get(field)) for field in group) for group in self.groups)

    def __str__(self) -> str:
        return " + ".join("/".join(group) for group in self.groups)


def _mbpp(row: dict, place: str) -> tuple[str, None]:
    full, sanitized = (_text(row, field, place) for field in ("text", "prompt"))  # one for each published configuration
    task = full if full.strip() else sanitized
    tests = row.get("test_list") if _has_content(row.get("test_list")) else []
    if not isinstance(tests, list) or not all(isinstance(test, str) for test in tests[:1]):
        raise ValueError(f"{place}: test_list must be a list of assert lines, got {tests!r:.80}.")
    lines = [task, *(_encodable(test, "test_list", place) for test in tests[:1])]
    return ("\n".join(['"""', *lines, '"""', ""]) if task.strip() else ""), None


def _alpaca(row: dict, place: str) -> tuple[str, str]:
    instruction, context = _text(row, "instruction", place), _text(row, "input", place)
    if context.strip():
        filled = ALPACA_WITH_INPUT.format(instruction=instruction, input=context)
        return filled, f"{instruction}\n\n{context}"
    return (ALPACA.format(instruction=instruction) if instruction.strip() else ""), instruction


def _cnn_dailymail(row: dict, place: str) -> tuple[str, None]:
    article = _text(row, "article", place)
    return (f"Summarize:\n{article}\nSummary:\n" if article.strip() else ""), None


def _plain(row: dict, place: str) -> tuple[str, None]:
    return _text(row, "prompt", place), None


FORMS = {  # the first form that some row fills is that of all rows
    "mbpp": Form((("test_list",), ("text", "prompt")), _mbpp),
    "alpaca": Form((("instruction",),), _alpaca),
    "cnn_dailymail": Form((("article",),), _cnn_dailymail),
    "plain": Form((("prompt",),), _plain),
}


def write_prompts(rows: list[dict], ids: list, places: list[str]) -> tuple[str, tuple[Prompt, ...]]:
    """Return the name of the form of these rows, and every row written in it.

    `places` says for messages where each row stands. Raises ValueError for a row of no form or of another one.
    """
    form = _form_of(rows)
    if form is None:
        raise ValueError(f"{places[0]}: {_unrecognised(rows[0])}")
    prompts = []
    for row, identity, place in zip(rows, ids, places, strict=True):
        if not FORMS[form].touches(row):
            raise ValueError(f"{place}: expected the fields {FORMS[form]} as in {places[0]}, got {', '.join(row)}.")
        prompts.append(Prompt(_encodable(str(identity), "the id", place), *FORMS[form].write(row, place)))
    return form, tuple(prompts)


def _form_of(rows: list[dict]) -> str | None:
    """The first form that a row fills; where no row fills any, the first one whose fields the first row names."""
    filled = (name for name, form in FORMS.items() if any(form.fills(row) for row in rows))
    named = (name for name, form in FORMS.items() if form.names(rows[0]))
    return next(filled, next(named, None))


def _has_content(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    if isinstance(value, float):
        return not np.isnan(value)
    return any(map(_has_content, value)) if isinstance(value, list) else value is not None


def _unrecognised(row: dict) -> str:
    known = dict.fromkeys(field for form in FORMS.values() for group in form.groups for field in group)
    hint = next((hint for field in row if field not in known and (hint := did_you_mean(field, known))), "")
    legal = "; ".join(f"{form} ({name})" for name, form in FORMS.items())
    return f"no form of prompts has the fields {', '.join(row) or '(none)'}. Legal fields: {legal}.{hint}"


def _text(row: dict, field: str, place: str) -> str:
    """The text of a field; null, NaN (how tables store a missing text) and an absent field are empty."""
    value = row.get(field)
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{place}: {field} must be text, got {type(value).__name__} {value!r:.80}.")
    return _encodable(value, field, place)


def _encodable(value: str, field: str, place: str) -> str:
    """The same text.  Raises ValueError for half a surrogate pair, which JSON can write and no file can hold."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        at = f"character {error.start + 1} of {field}"
        raise ValueError(f"{place}: {at} is half a surrogate pair, which is no text. Remove that escape.") from error
    return value
