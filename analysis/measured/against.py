"""Measured policies compared with each other: whole calls on the same prompts, not each with plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.intervals import LEVEL, Estimate, ratio
from analysis.measured.speedups import Measured
from oracle.policies.library import fixed_length
from oracle.policies.names import recorded
from oracle.records.runs import PLAIN, Call, Runs


@dataclass(frozen=True)
class Clocked:
    """One policy's calls on the prompts that every repeat has finished."""

    ids: tuple[str, ...]  # of the P prompts
    seconds: np.ndarray  # float [P], of the whole call: the median over the repeats
    tokens: np.ndarray  # int [P], that it wrote
    texts: tuple[np.ndarray, ...]  # P times int32 [N], what it wrote

    def only(self, ids: Sequence[str]) -> Clocked:
        """The same of these prompts, in this order."""
        place = {name: number for number, name in enumerate(self.ids)}
        at = [place[name] for name in ids]
        return Clocked(tuple(ids), self.seconds[at], self.tokens[at], tuple(self.texts[number] for number in at))


def clocked(runs: Runs, policy: str) -> Clocked:
    """The calls of ``policy``.  Raises ValueError for one that did not run, or has finished no prompt."""
    calls: dict[str, list[Call]] = {}
    for call in runs.of(policy):
        calls.setdefault(call.id, []).append(call)
    whole = {name: found for name, found in calls.items() if len(found) == runs.repeats}
    if not whole:
        raise ValueError(f"policy {policy!r}: no prompt is finished in every repeat; `oracle measure --resume` goes on")
    return Clocked(
        ids=tuple(whole),
        seconds=np.array([np.median([call.total_seconds for call in found]) for found in whole.values()]),
        tokens=np.array([len(found[0].tokens) for found in whole.values()]),
        texts=tuple(found[0].tokens for found in whole.values()),
    )


def faster(baseline: Clocked, other: Clocked, level: float = LEVEL) -> Estimate:
    """Seconds of ``baseline`` over those of ``other`` on the common prompts: above 1 where ``other`` is faster.

    Where the two wrote texts of different length (in half precision), the baseline's seconds per token count for as
    many tokens as the other wrote.  Raises ValueError where they have no prompt in common.
    """
    common = [name for name in baseline.ids if name in set(other.ids)]
    if not common:
        raise ValueError("no prompt is finished by both; `oracle measure --resume` goes on")
    first, second = baseline.only(common), other.only(common)
    return ratio(first.seconds * (second.tokens / first.tokens), second.seconds, level=level)


def best_constant(found: Sequence[Measured]) -> str:
    """The fastest measured policy of a fixed length; plain decoding where none was measured."""
    constant = [each for each in found if drafts_a_fixed_length(each.policy)]
    return max(constant, key=lambda each: each.total.value).policy if constant else PLAIN


def drafts_a_fixed_length(policy: str) -> bool:
    """Whether a policy of that text does; one of a user's own is not known to."""
    rule = recorded(policy)
    return rule is not None and fixed_length(rule) is not None
