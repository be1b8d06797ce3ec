"""The order of simplicity: of policies that the data do not tell apart, the first of them is the one to use."""

from __future__ import annotations

from collections.abc import Iterable

# By what has to be run and to be known: nothing, a number, past outcomes, a threshold on what the draft says anyway,
# prices too, a rule that moves its own threshold or plays among several, something that was fitted to other texts.
ORDER = (
    "none", "constant",
    "heuristic_transient", "heuristic", "heuristic-4.46", "heuristic_transient-4.46",
    "staircase", "ema",
    "dynamic", "max-confidence", "kangaroo", "p-min", "svip", "survival", "specdec++",
    "expected-gain", "roc", "roc-4.49", "roc-4.57", "adaedl", "margin", "ucb", "exp3", "tapout", "random", "disco",
)  # fmt: skip


def rank(policy: str) -> tuple[bool, int]:
    """Where a policy stands in `ORDER`: a trained one after all that are not, one of a user's own after those."""
    family = policy.partition(":")[0]
    known = ORDER.index(family) if family in ORDER else len(ORDER)
    return "file=" in policy, known


def simplest(policies: Iterable[str]) -> str:
    """The first in the order of simplicity; of equals the first given."""
    return min(policies, key=rank)
