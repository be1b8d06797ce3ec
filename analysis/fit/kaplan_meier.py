"""The distribution of the accepted length without any family: Kaplan-Meier for whole numbers, with Greenwood bands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.fit.counts import Counts
from analysis.intervals import NORMAL_975

Array = NDArray[np.float64]
Counted = NDArray[np.int64]


@dataclass(frozen=True)
class KaplanMeier:
    """One entry for each k from 0 to the largest value seen; every array has the same length [K + 1], none holds nan.

    ``survival`` is P(SL >= k) with a pointwise 95 % band from ``low`` to ``high``. ``hazard`` is P(SL = k | SL >= k),
    the chance that the draft disagrees at run position k, and 0 where ``at_risk`` is 0 (only cut runs got there).
    """

    k: Counted
    at_risk: Counted
    events: Counted
    censored: Counted
    hazard: Array
    survival: Array
    low: Array
    high: Array

    @property
    def restricted_mean(self) -> float:
        """Mean of min(SL, K), K the largest value seen: the sum of P(SL >= k) over 1 <= k <= K."""
        return float(self.survival[1:].sum())


def kaplan_meier(counts: Counts) -> KaplanMeier:
    """Kaplan-Meier estimate of a :class:`~analysis.fit.counts.Counts` table; empty arrays for an empty table.

    A run censored at k says SL >= k and nothing about SL = k, so it leaves before the runs that end at k. Variance of
    log S(k) by Greenwood (1926); the band is taken on the log(-log S) scale, so that it stays within [0, 1].
    """
    events, censored = counts.events, counts.censored
    at_risk = reaching(events + censored) - censored
    hazard = _ratio(events, at_risk)
    survival = np.concatenate(([1.0], np.cumprod(1 - hazard)))[: events.size]
    terms = _ratio(events, at_risk.astype(float) * (at_risk - events))
    variance = np.concatenate(([0.0], np.cumsum(terms)))[: events.size]
    low, high = _band(survival, variance)
    return KaplanMeier(np.arange(events.size), at_risk, events, censored, hazard, survival, low, high)


def censoring_hazard(counts: Counts) -> Array:
    """P(C = c | C >= c), [K + 1], of the censoring position C: the same estimate with the two roles exchanged."""
    return _ratio(counts.censored, reaching(counts.events + counts.censored))


def reaching(table: Counted) -> Counted:
    """How many observations are k or larger, for each k: [K + 1]."""
    return np.cumsum(table[::-1])[::-1]


def _ratio(above: NDArray, below: NDArray) -> Array:
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)


def _band(survival: Array, variance: Array) -> tuple[Array, Array]:
    inner = (survival > 0) & (survival < 1)
    low, high = np.where(survival < 1, 0.0, 1.0), np.ones_like(survival)
    log_s = np.log(survival[inner])
    width = NORMAL_975 * np.sqrt(variance[inner]) / np.abs(log_s)
    low[inner], high[inner] = np.exp(log_s * np.exp(width)), np.exp(log_s * np.exp(-width))
    # where nobody survives the scale breaks down; the band of the last survivor still holds, as S only falls
    return low, np.minimum.accumulate(np.where(survival > 0, high, 1.0))
