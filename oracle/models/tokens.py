"""What two tokenizers say about the same ids, sorted by what it means for a draft that is given the target's ids.

A draft never reads text: it is handed the target's token ids.  So what matters is whether an id stands for the same
token in both.  How text is split into tokens matters only in that the draft learned from texts that were split its way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Almost any two tokenizers split it differently: indentation, digits, accents, tabs, other scripts, a special token.
_PROBE = "def add(a, b):\n    return a + b  # naïve – 1, 22, 333\tÜber 你好 </s>"
_PLACEHOLDER = re.compile(r"[<\[]\|?[^<>\[\]\s]*(unused|reserved|placeholder|dummy|extra)[^<>\[\]\s]*\|?[>\]]", re.I)
_SHOWN = 3  # differences that a sentence names


@dataclass(frozen=True)
class Difference:
    """An id that stands for different tokens; None where one of the tokenizers has nothing there."""

    id: int
    target: str | None
    draft: str | None

    def __str__(self) -> str:
        return f"id {self.id} is {_shown(self.target)} in the target's and {_shown(self.draft)} in the draft's"


@dataclass(frozen=True)
class Differences:
    """All that two tokenizers differ in, each by id, ascending."""

    used: tuple[Difference, ...] = ()  # ordinary text on one side at least: the ids do not mean the same
    special: tuple[Difference, ...] = ()  # special tokens on both sides, not the same one
    unused: tuple[Difference, ...] = ()  # the same, but one side only keeps the id free (``<unused7>``)
    lone: tuple[Difference, ...] = ()  # ids that only one of them has, of tokens that the other has nowhere
    split: str | None = None  # where the same text is split differently
    tokens: int = 0  # ids that either of them has

    @property
    def contradicting(self) -> frozenset[int]:
        """Ids that mean something else to the draft: a prompt that holds one is left out."""
        return frozenset(each.id for each in (*self.used, *self.special, *self.unused))

    def facts(self) -> dict[str, Any]:
        """For a trace's meta.json: what differs, empty where nothing does."""
        kinds: dict[str, Sequence[Difference]] = {"special": self.special, "unused": self.unused, "lone": self.lone}
        found: dict[str, Any] = {
            name: [[each.id, each.target, each.draft] for each in some[:100]] for name, some in kinds.items() if some
        }
        found |= {f"{name}_count": len(some) for name, some in kinds.items() if len(some) > 100}
        return found | ({"split": self.split} if self.split else {})

    def notes(self) -> tuple[str, ...]:
        """One sentence for each kind of difference that is allowed."""
        left_out = "prompts that hold one are left out"
        said = (
            (self.special, f"special tokens differ, which was allowed, and {left_out}"),
            (self.unused, f"the tokenizers differ in ids that one of them does not use, and {left_out}"),
            (self.lone, "one tokenizer has tokens that the other lacks"),
        )
        found = [f"{what}: {some_of(which)}" for which, what in said if which]
        if self.split:
            found.append(f"the tokenizers split text differently ({self.split}): the draft learned from other tokens")
        return tuple(found)


def compare(target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase) -> Differences:
    """What the ids of two tokenizers mean, compared id by id; and whether they split a hard text alike.

    Several strings for one id are one token.  Two strings are the same token, too, where one is the text that the other
    decodes to: the readers of one vocabulary file write its tokens differently (`` the`` and ``Ġthe``).
    """
    ours, theirs = Vocabulary(target), Vocabulary(draft)
    found: dict[str, list[Difference]] = {"used": [], "special": [], "unused": [], "lone": []}
    for number in sorted({*ours.names, *theirs.names}):
        left, right = ours.at(number), theirs.at(number)
        if left & right or (left and right and (_decoded(target, number) in right or _decoded(draft, number) in left)):
            continue
        moved = not left.isdisjoint(theirs.strings) or not right.isdisjoint(ours.strings)
        plain = ours.plain(number) or theirs.plain(number)
        found[_kind(left, right, moved, plain)].append(
            Difference(number, min(left, default=None), min(right, default=None))
        )
    used, special, unused, lone = (tuple(found[kind]) for kind in ("used", "special", "unused", "lone"))
    known = Differences(used, special, unused, lone)
    ids = len({*ours.names, *theirs.names})
    return replace(known, tokens=ids, split=None if known.used else _split(target, draft, known.contradicting))


def some_of(differences: Sequence[object]) -> str:
    """The first ones, and how many there are."""
    more = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    return ", ".join(map(str, differences[:_SHOWN])) + more


class Vocabulary:
    """Every string of every id of a tokenizer, and which of the ids stand for pieces of text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        found: dict[int, set[str]] = {}
        for token, number in tokenizer.get_vocab().items():
            found.setdefault(number, set()).add(token)
        for number in set(range(len(tokenizer))) - set(found):  # bytes of a character have no string of their own
            if text := _decoded(tokenizer, number):
                found[number] = {text}
        self.names = {number: frozenset(names) for number, names in found.items()}
        self.strings = frozenset(name for names in found.values() for name in names)
        self._marked = frozenset(getattr(tokenizer, "added_tokens_decoder", ())) | frozenset(tokenizer.all_special_ids)

    def at(self, number: int) -> frozenset[str]:
        """The strings of an id; none where there is no such id."""
        return self.names.get(number, frozenset())

    def plain(self, number: int) -> bool:
        """Whether an id stands for a piece of text: neither added nor special nor kept free."""
        names = self.at(number)
        return bool(names) and number not in self._marked and not _keeps_free(names)

    def text(self) -> bool:
        """Whether any id stands for a piece of text, as in a tokenizer that was made up from nothing none does."""
        return any(map(self.plain, self.names))

    def beyond(self, rows: int) -> tuple[list[int], list[int]]:
        """Ids that a model of so many rows lacks, ascending: those of pieces of text, and the others."""
        outside = sorted(number for number in self.names if number >= rows)
        return [n for n in outside if self.plain(n)], [n for n in outside if not self.plain(n)]


def _kind(left: frozenset[str], right: frozenset[str], moved: bool, plain: bool) -> str:
    if not (left and right) and not moved:
        return "lone"
    if plain:
        return "used"
    return "unused" if _keeps_free(left) or _keeps_free(right) else "special"


def _keeps_free(names: frozenset[str]) -> bool:
    return any(_PLACEHOLDER.fullmatch(name) for name in names)


def _decoded(tokenizer: PreTrainedTokenizerBase, number: int) -> str:
    return str(tokenizer.decode([number]))


def _split(target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, leave: frozenset[int]) -> str | None:
    """Where a hard text gets other ids, those of ``leave`` aside; None where it does not."""
    left, right = (
        [token for token in one(_PROBE, add_special_tokens=False)["input_ids"] if token not in leave]
        for one in (target, draft)
    )
    if left == right:
        return None
    at = next(n for n in range(len(left) + 1) if left[: n + 1] != right[: n + 1])
    return (
        f"{target.decode(left[at : at + 3])!r} is {left[at : at + 3]} in the target's and {right[at : at + 3]} in the "
        "draft's"
    )


def _shown(token: str | None) -> str:
    return "nothing" if token is None else repr(token)
