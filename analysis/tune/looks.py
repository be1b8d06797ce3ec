"""Every family judged on its own: its tuned setting against the tuned constant and against no draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.gains.heldout import FEWEST
from analysis.intervals import LEVEL, Estimate, ratio
from analysis.replay.paired import held_out
from analysis.replay.result import Totals
from analysis.tune.grid import CONSTANT
from analysis.tune.result import Looked


def looks(found: Sequence[Totals], family_of: Mapping[str, str], seed: int = 0) -> tuple[Looked, ...]:
    """One look a family, fastest first, of totals that are fastest first; constants are among them.

    Bonferroni's level: 95 % for all intervals of all families at once.  Below `FEWEST` prompts there are none.
    """
    by_family: dict[str, list[Totals]] = {}
    for each in found:
        by_family.setdefault(family_of[each.policy], []).append(each)
    level = 1 - (1 - LEVEL) / (2 * len(by_family) - 1)
    constants = by_family[CONSTANT]
    fixed = _judged(constants, seed)
    return tuple(_look(name, tried, constants[0], fixed, level, seed) for name, tried in by_family.items())


def _look(family: str, tried: Sequence[Totals], constant: Totals, fixed: np.ndarray, level: float, seed: int) -> Looked:
    best = tried[0]
    seconds = _judged(tried, seed)
    speedup = ratio(best.plain_seconds, seconds, best.price_variance(), level)
    over = ratio(fixed, seconds, best.price_variance(constant), level)
    if len(seconds) < FEWEST:
        speedup, over = speedup.bare(), over.bare()
    if family == CONSTANT:
        over = Estimate(1.0, 1.0, 1.0)
    return Looked(family, best.policy, len(tried), best.speedup, speedup, over)


def _judged(tried: Sequence[Totals], seed: int) -> np.ndarray:
    """Seconds of each prompt under the setting that the other half chose, float [P]; of too few under the best."""
    found = held_out(tried, seed=seed)
    return tried[0].prompt_seconds if found is None else found.seconds
