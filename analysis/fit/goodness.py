"""Does a fitted family describe the data? Parametric bootstrap of Pearson's chi-square with pooled cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.fit.counts import Counts
from analysis.fit.estimation import reestimate
from analysis.fit.families import FAMILIES, Family, Theta
from analysis.fit.kaplan_meier import censoring_hazard
from analysis.intervals import p_words

if TYPE_CHECKING:
    from analysis.fit.distributions import Fit

LONGEST_CELL = 4_096  # runs are cut here for the test, so that its cost does not depend on one outlier
POOLED = 5.0  # smallest expected count of a cell of Pearson's statistic


@dataclass(frozen=True)
class GoodnessOfFit:
    """Pearson's chi-square over pooled ``cells`` and its bootstrap ``p``.

    Where ``status`` is not 'ok' the fit could not be tested: p is nan and the status says why.
    """

    statistic: float
    cells: int
    p: float
    status: str = "ok"
    draws: int = 0

    @property
    def p_words(self) -> str:
        """p as it is written: never as less than the draws can show."""
        return p_words(self.p, self.draws)


def goodness_of_fit(counts: Counts, fit: Fit, draws: int = 200, seed: int = 0) -> GoodnessOfFit:
    """Parametric bootstrap: is the data's distance from the fitted family larger than that of samples of the family?

    The samples are independent draws. Runs of one prompt that are alike make the distance larger, so a small p says
    "not independent draws of this family", not which of the two fails; `analysis.independence` is the test of i.i.d.
    acceptance.

    Each draw has as many runs, from the fitted family, cut short by the censoring positions of the data (Kaplan-Meier
    of the censoring distribution, independent of the lengths). The family is refitted to each draw and the chi-square
    is taken over cells of neighbouring lengths with an expected count of at least 5, ended and cut runs apart.
    p = (1 + number of draws at least as far) / (draws + 1).
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, not {draws}; 200 resolves a p-value of 0.05 well enough")
    if (
        fit.status == "no data"
        or fit.status.startswith("degenerate")
        or not 0 < counts.accepted
        or not counts.events.any()
    ):
        return GoodnessOfFit(0.0, 0, math.nan, f"not tested: {fit.status}")
    model = FAMILIES[fit.family]
    limit = _longest_cell(counts, fit)
    seen = counts.cut_at(limit)
    theta = fit.theta if seen is counts else reestimate(seen, model, fit.theta)
    statistic, cells = _chi_square(seen, model, theta, limit)
    if cells <= len(theta) + 1:
        return GoodnessOfFit(
            statistic, cells, math.nan, f"not tested: {cells} cells are too few for {len(theta)} parameters"
        )
    chances = _cell_chances(model, theta, censoring_hazard(seen), limit)
    rng = np.random.default_rng(seed)
    further = sum(_redraw(chances, counts.n, model, theta, rng) >= statistic for _ in range(draws))
    return GoodnessOfFit(statistic, cells, (1 + further) / (draws + 1), draws=draws)


def _longest_cell(counts: Counts, fit: Fit) -> int:
    """Length by which practically every run of the fitted family has ended or been cut, at most LONGEST_CELL."""
    limit = max(counts.events.size, 16)
    open_ended = np.prod(1 - censoring_hazard(counts))
    while limit < LONGEST_CELL and counts.n * open_ended * math.exp(fit.log_sf(limit)) > 1:
        limit *= 2
    return min(limit, LONGEST_CELL)


def _cell_chances(model: Family, theta: Theta, hazard: NDArray[np.float64], limit: int) -> NDArray[np.float64]:
    """[2, limit + 1]: chance that a run ends at k, and that it is cut at k. What is left at ``limit`` is cut there."""
    k = np.arange(limit + 1, dtype=float)
    cut_here = np.zeros(limit + 1)
    cut_here[: hazard.size] = hazard[: limit + 1]
    cut_here[limit] = 1.0
    uncut = np.cumprod(1 - cut_here)  # P(C > k)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        ended, reached = np.exp(model.log_pmf(theta, k)), np.exp(model.log_survival(theta, k))
    before = np.concatenate(([1.0], uncut[:-1]))  # P(C >= k)
    return np.stack([ended * uncut, reached * cut_here * before]).astype(np.float64, copy=False)


def _redraw(chances: NDArray[np.float64], n: int, model: Family, theta: Theta, rng: np.random.Generator) -> float:
    """The statistic of one sample of the fitted family, refitted."""
    table = rng.multinomial(n, chances.ravel() / chances.sum()).reshape(chances.shape)
    drawn = Counts(table[0], table[1])
    return _chi_square(drawn, model, reestimate(drawn, model, theta), len(table[0]) - 1)[0]


def _chi_square(counts: Counts, model: Family, theta: Theta, limit: int) -> tuple[float, int]:
    """Pearson's statistic and its number of cells.

    Data and draws must use the same ``limit``, or what a family expects beyond the longest run counts in one only.
    """
    expected = _cell_chances(model, theta, censoring_hazard(counts), limit) * counts.n
    observed = np.zeros(expected.shape)
    observed[:, : counts.events.size] = counts.events, counts.censored
    starts = [_pool(row) for row in expected]
    wanted, seen = (
        [np.add.reduceat(row, start) for row, start in zip(table, starts, strict=True)]
        for table in (expected, observed)
    )
    for here, there in ((1, 0), (0, 1)):  # a row of runs that is too small to test joins the end of the other
        if wanted[here].sum() < POOLED and wanted[there].size:
            for rows in (wanted, seen):
                rows[there][-1] += rows[here].sum()
                rows[here] = rows[here][:0]
    wanted, seen = np.concatenate(wanted), np.concatenate(seen)
    return float(np.sum((seen - wanted) ** 2 / np.maximum(wanted, 1e-300))), wanted.size


def _pool(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """Where each pooled cell starts: neighbours join until a cell expects POOLED; what remains joins the last one."""
    total = np.cumsum(expected)
    starts, base = [0], 0.0
    while total[-1] - base >= 2 * POOLED:
        end = int(np.searchsorted(total, base + POOLED)) + 1
        if end >= expected.size or total[-1] - total[end - 1] < POOLED:
            break
        base = total[end - 1]
        starts.append(end)
    return np.array(starts)
