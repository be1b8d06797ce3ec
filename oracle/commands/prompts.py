"""The block that says what the models read."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oracle.commands.notes import say
from oracle.commands.text import bounded, visible

if TYPE_CHECKING:
    from oracle.prompts.facts import PromptFacts

_WIDE, _LABEL = 80, 19  # columns of the terminal, and of them those before the text
_LINES, _ROW = 15, 4  # of the block and of one of its rows, at most
_ENDS = 40  # characters of the first prompt's two ends


def show_prompts(facts: PromptFacts, max_new_tokens: int) -> None:
    """Print the block: a line a fact, ``!`` before what is odd; at most 15 lines of 80 characters."""
    lines = ["Prompts, as the models read them (! = odd)" if facts.odd else "Prompts, as the models read them"]
    found = rows(facts, max_new_tokens)
    for (key, label, _), texts in zip(found, _fitted([text for _, _, text in found]), strict=True):
        mark = "!" if key in facts.odd else " "
        lines += [f"{mark} {label:<{_LABEL - 2}}{texts[0]}", *(" " * _LABEL + more for more in texts[1:])]
    say("\n".join(lines) + "\n", lines=True)


def _fitted(texts: Sequence[str]) -> list[list[str]]:
    """The lines of each text, the longest texts cut until the block has its size: names of others are of any length."""
    found = [_wrapped(text, _ROW) for text in texts]
    while sum(map(len, found)) >= _LINES and max(map(len, found)) > 1:
        longest = max(range(len(found)), key=lambda row: len(found[row]))
        found[longest] = _wrapped(texts[longest], len(found[longest]) - 1)
    return found


def _wrapped(text: str, most: int) -> list[str]:
    """A text in lines, at most so many; "..." stands for the rest."""
    wide = _WIDE - _LABEL
    lines = textwrap.wrap(visible(bounded(text, _ROW * wide)), wide)
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: wide - 4]} ..."]


def rows(facts: PromptFacts, max_new_tokens: int) -> list[tuple[str, str, str]]:
    """Key in ``facts.odd``, label and text of each line; what is odd in its own words."""
    low, middle, high = facts.lengths
    known = {
        "prompts": ("prompts", f"{facts.prompts:,}; {_lengths(low, middle, high)}{_cut(facts)}"),
        "skipped": ("left out", ""),
        "form": ("form", _form(facts)),
        "columns": ("columns left out", _names(facts.left_out)),
        "turns": ("turns left out", ""),
        "first": ("prompt 0 begins", _clipped(facts.first, end=False)),
        "last": ("prompt 0 ends", _clipped(facts.last, end=True)),
        "begins": ("first token", _begins(facts)),
        "ends": ("last token", f"never {_tokens(facts)}" if facts.eos else ""),
        "eos": ("texts end at", _tokens(facts, ids=True)),
        "ended": ("texts ended", _ended(facts, max_new_tokens)),
        "date": ("date in prompts", f"{facts.date}; --date gives it again" if facts.date else ""),
    }
    found = [(key, label, facts.odd.get(key, text)) for key, (label, text) in known.items()]
    return [row for row in found if row[2]]


def _lengths(low: int, middle: float, high: int) -> str:
    return f"{low:,} tokens" if low == high else f"{low:,} to {high:,} tokens, median {middle:,g}"


def _cut(facts: PromptFacts) -> str:
    return f"; {facts.cut:,} cut to that" if facts.cut else ""


def _form(facts: PromptFacts) -> str:
    how = "in the chat template" if facts.chat else "no chat template"
    return how if facts.form is None else f"{facts.form}, {how}"


def _begins(facts: PromptFacts) -> str:
    if facts.bos is None:
        return "the tokenizer has no token that begins a text"
    every = facts.with_bos == facts.prompts
    if not facts.with_bos:
        return f"never {facts.bos!r}"
    return f"{facts.bos!r} once, in {'all' if every else facts.with_bos} prompts"


def _tokens(facts: PromptFacts, ids: bool = False) -> str:
    named = [f"{text!r} ({token})" if ids else repr(text) for token, text in facts.eos[:4]]
    more = f" and {len(facts.eos) - 4} more" if len(facts.eos) > 4 else ""
    return (", " if ids else " or ").join(named) + more


def _ended(facts: PromptFacts, max_new_tokens: int) -> str:
    if facts.ended is None:
        return ""
    return f"{facts.ended} of {facts.prompts} by themselves; the limit is {max_new_tokens} tokens"


def _names(left_out: Mapping[str, int]) -> str:
    """Names of columns, as many as two lines hold."""
    names = list(left_out)
    held = [n for n in range(1, len(names) + 1) if len(", ".join(names[:n])) <= 2 * (_WIDE - _LABEL) - 30]
    shown = max(held, default=1)
    more = f", and {len(names) - shown} more (meta.json)" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _clipped(text: str, *, end: bool) -> str:
    """One end of a text, line breaks and the like as escapes."""
    if len(text) <= _ENDS:
        return repr(text)
    return f"...{text[-_ENDS:]!r}" if end else f"{text[:_ENDS]!r}..."
