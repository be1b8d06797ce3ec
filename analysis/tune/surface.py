"""The speedup of `dynamic` over threshold and cap, and which of its settings may be the best."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence

from analysis.replay.result import Totals
from analysis.tune.result import Surface
from oracle.policies import parse
from oracle.policies.thresholds import Dynamic

FAMILY = "dynamic"


def surface(found: Sequence[Totals], group: Collection[str], policy: str) -> Surface | None:
    """Of totals that are fastest first; a threshold of 0 is a constant.  None where `dynamic` was not tried."""
    cells = {place: each for each in reversed(found) if (place := _place(each.policy)) is not None}
    if not any(threshold > 0 for threshold, _ in cells):
        return None
    thresholds = tuple(sorted({threshold for threshold, _ in cells}))
    caps = tuple(sorted({cap for _, cap in cells}))
    # One token is one token, whatever its confidence: that row of constants stands for every threshold.
    rows = [[cells.get((threshold if cap > 1 else 0.0, cap)) for cap in caps] for threshold in thresholds]
    usual = Dynamic()
    return Surface(
        family=FAMILY,
        thresholds=thresholds,
        caps=caps,
        speedup=tuple(tuple(math.nan if each is None else each.speedup for each in row) for row in rows),
        in_group=tuple(tuple(each is not None and each.policy in group for each in row) for row in rows),
        best=max(cells, key=lambda place: cells[place].speedup),
        chosen=_place(policy),
        default=(usual.threshold, usual.tokens),
    )


@functools.lru_cache(maxsize=4096)
def _place(policy: str) -> tuple[float, int] | None:
    """(threshold, cap) of a constant or of `dynamic`; None of any other."""
    if policy.partition(":")[0] not in ("constant", FAMILY):
        return None
    rule = parse(policy)
    return float(rule.threshold), int(rule.tokens)  # type: ignore[attr-defined]
