"""The distribution of the accepted length without any family: Kaplan-Meier for whole numbers, with bands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.fit.counts import Clusters, Counts
from analysis.intervals import NORMAL_975, t_975

Array = NDArray[np.float64]
Counted = NDArray[np.int64]

_BLOCK = 2_000_000  # cells of a table by prompt and length that are held at a time


@dataclass(frozen=True)
class KaplanMeier:
    """One entry for each k from 0 to the largest value seen; every array has the same length [K + 1].

    ``survival`` is P(SL >= k) with a pointwise 95 % band from ``low`` to ``high``, which are NaN beyond k = 0 where all
    runs are from one prompt. ``hazard`` is P(SL = k | SL >= k), the chance that the draft disagrees at run position k,
    and 0 where ``at_risk`` is 0 (only cut runs got there).
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

    A run censored at k says SL >= k and nothing about SL = k, so it leaves before the runs that end at k. The band is
    taken on the log(-log S) scale, so that it stays within [0, 1]. Where the table knows the prompts of its runs it is
    over prompts: the variance of log S(k) is the sum over prompts of the square of what a prompt moves it by, to first
    order, times P / (P - 1) (Williams 1995), and t with P - 1 degrees of freedom. With a prompt a run, and for a table
    that does not know, that sum is Greenwood's (1926).
    """
    events, censored = counts.events, counts.censored
    at_risk = reaching(events + censored) - censored
    hazard = _ratio(events, at_risk)
    survival = np.concatenate(([1.0], np.cumprod(1 - hazard)))[: events.size]
    if counts.clusters is None:
        terms, reach = _ratio(events, at_risk.astype(float) * (at_risk - events)), NORMAL_975
        variance = np.concatenate(([0.0], np.cumsum(terms)))[: events.size]
    else:
        variance, reach = _over_prompts(counts.clusters, events, at_risk), float(t_975(counts.clusters.prompts - 1))
    low, high = _band(survival, variance, reach, counts.independent)
    return KaplanMeier(np.arange(events.size), at_risk, events, censored, hazard, survival, low, high)


def _over_prompts(clusters: Clusters, events: Counted, at_risk: Counted) -> Array:
    """Variance of log S(k), [K + 1], from how far each prompt moves it; NaN for one prompt.

    A prompt with d ends among n runs at risk moves log(1 - h) by (h n - d) / (N - D), with D and N those of all prompts
    and h = D / N. Log S moves by the sum of these over the lengths at which runs end.
    """
    at = np.flatnonzero(events)  # [E], lengths at which S falls
    if clusters.prompts < 2 or not at.size:
        return np.full(events.size, np.nan if clusters.prompts < 2 else 0.0)
    share, left = events[at] / at_risk[at], np.maximum(at_risk[at] - events[at], 1)
    place = np.searchsorted(at, clusters.length) + 1 - clusters.cut  # how many of these lengths a row is at risk at
    squares = np.zeros(at.size)
    block = max(_BLOCK // (at.size + 1), 1)  # prompts that are held at a time
    for first in range(0, clusters.prompts, block):
        rows = slice(*np.searchsorted(clusters.prompt, (first, first + block)))
        shape = (min(block, clusters.prompts - first), at.size + 1)
        cell = (clusters.prompt[rows] - first) * shape[1] + place[rows]
        ended = clusters.count[rows] * ~clusters.cut[rows]
        with_place, ends = (np.bincount(cell, each, shape[0] * shape[1]) for each in (clusters.count[rows], ended))
        risk = np.cumsum(with_place.reshape(shape)[:, :0:-1], axis=1)[:, ::-1]
        moves = np.cumsum((share * risk - ends.reshape(shape)[:, 1:]) / left, axis=1)
        squares += (moves**2).sum(axis=0)
    variance = np.concatenate(([0.0], squares * clusters.prompts / (clusters.prompts - 1)))
    return variance[np.searchsorted(at, np.arange(events.size))]


def censoring_hazard(counts: Counts) -> Array:
    """P(C = c | C >= c), [K + 1], of the censoring position C: the same estimate with the two roles exchanged."""
    return _ratio(counts.censored, reaching(counts.events + counts.censored))


def reaching(table: Counted) -> Counted:
    """How many observations are k or larger, for each k: [K + 1]."""
    return np.cumsum(table[::-1])[::-1]


def _ratio(above: NDArray, below: NDArray) -> Array:
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)


def _band(survival: Array, variance: Array, reach: float, independent: int) -> tuple[Array, Array]:
    low, high = np.zeros_like(survival), np.ones_like(survival)
    inner = (survival > 0) & (survival < 1)
    log_s = np.log(survival[inner])
    with np.errstate(over="ignore"):
        width = reach * np.sqrt(variance[inner]) / np.abs(log_s)
        low[inner], high[inner] = np.exp(log_s * np.exp(width)), np.exp(log_s * np.exp(-width))
    # where all or nobody survives the scale breaks down: all of so many can be seen with a lesser chance too, and the
    # upper end of the last survivor still holds, as S only falls
    low[survival == 1] = np.exp(-(reach**2) / 2 / max(independent, 1))
    low[:1] = 1.0
    if np.isnan(reach):
        low[1:], high[1:] = np.nan, np.nan
    return low, np.minimum.accumulate(np.where(survival > 0, high, 1.0))
