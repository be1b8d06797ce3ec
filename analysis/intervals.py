"""Intervals for numbers that are computed from many prompts, every one in one place.

Iterations of one prompt resemble each other, so prompts are what is counted, left out and drawn again, never iterations
(Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8).  Three kinds, the first that fits:
`ratio` for ratios of totals, `smooth` for smooth formulas of totals (both a Student's t, so that they hold their level
from 3 prompts on), `estimate` (the bootstrap) for order statistics, which have no interval below `LEAST` prompts; and
`share`, `share_bands` for shares that may be 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Sums = Any  # float [P, K], one row a prompt: a NumPy array, or a sparse matrix of SciPy's, which it does not type

RESAMPLES = 1000
LEVEL = 0.95
NORMAL_975 = 1.959963984540054  # how many standard errors a normal 95 % interval reaches to either side
LEAST = 10  # prompts below which a bootstrap says too little: its 95 % intervals hold the truth in 70 % of cases at 3
MAX_UNITS = 1024  # more prompts than this are dealt at random into so many groups, and groups are drawn: same variance
_BLOCK = 4_000_000  # cells that a block of resamples may hold


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; ``low`` and ``high`` are NaN where one prompt says nothing about others."""

    value: float
    low: float
    high: float

    def map(self, change: Callable[[float], float]) -> Estimate:
        """``change``, a rising function, of the number and of both ends."""
        return Estimate(change(self.value), change(self.low), change(self.high))

    def at_most(self, bound: float) -> Estimate:
        """No end above ``bound``, which the true number cannot exceed; NaN stays."""
        return Estimate(self.value, self.low, float(np.minimum(self.high, bound)))

    def at_least(self, bound: float) -> Estimate:
        """No end below ``bound``, which the true number cannot fall short of; NaN stays."""
        return Estimate(self.value, float(np.maximum(self.low, bound)), self.high)

    def bare(self) -> Estimate:
        """The number without an interval, where too few prompts stand behind one."""
        return Estimate(self.value, np.nan, np.nan)

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.value:.3g}"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


def p_words(p: float, draws: int) -> str:
    """A p-value from ``draws`` samples: "0.0125", or "<= 0.005" where none of them was as far; "-" for NaN."""
    if np.isnan(p):
        return "-"
    least = 1 / (draws + 1)
    return f"<= {least:.2g}" if p <= least else f"{p:.2g}"


def ends(name: str, estimate: Estimate | None) -> dict[str, float]:
    """A number and its interval as columns of a table: ``name``, ``name_low``, ``name_high``; NaN for None."""
    found = Estimate(np.nan, np.nan, np.nan) if estimate is None else estimate
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def units(prompts: int) -> np.ndarray:
    """Resampling unit of every prompt, int64 [P]: itself, or one of ``MAX_UNITS`` groups dealt in a fixed order."""
    if prompts <= MAX_UNITS:
        return np.arange(prompts)
    return np.random.default_rng(0).permutation(prompts) % MAX_UNITS


def sum_by(group: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums of the columns of ``values`` [R, K] over the rows of each group (int [R], < ``size``), float [size, K]."""
    return np.stack([np.bincount(group, weights=column, minlength=size) for column in values.T], axis=1)


def resampled(sums: Sums, resamples: int = RESAMPLES, seed: int = 0) -> Iterator[np.ndarray]:
    """Blocks of resampled totals, [B, K] each, of ``sums`` [U, K] (dense or scipy.sparse); ``resamples`` rows."""
    size, columns = sums.shape
    rng = np.random.default_rng(seed)
    block = int(np.clip(_BLOCK // max(size, columns), 1, resamples))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size).astype(float)
        yield np.asarray((sums.T @ weights.T).T)


def estimate(
    sums: Sums, formula: Callable[[np.ndarray], np.ndarray], resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """``formula`` of the totals of ``sums`` [P, K], one row a prompt, with its bootstrap interval.

    ``formula`` maps totals [..., K] to numbers [...].  Quantiles as far out as Student's t with P - 1 degrees of
    freedom and the unbiased variance ask for (Hesterberg 2015, the expanded percentile interval); resamples for which
    the formula has no value (0 / 0) are left out.  Fewer than `LEAST` prompts have no interval.
    """
    (found,) = estimates(sums, lambda totals: formula(totals)[..., None], resamples, seed)
    return found


def estimates(
    sums: Sums, formula: Callable[[np.ndarray], np.ndarray], resamples: int = RESAMPLES, seed: int = 0
) -> list[Estimate]:
    """The J numbers of a ``formula`` from totals [..., K] to [..., J] with their intervals; see `estimate`."""
    from scipy import special

    with np.errstate(divide="ignore", invalid="ignore"):
        value = formula(np.asarray(sums.sum(axis=0)).reshape(1, -1))[0]
        if sums.shape[0] < LEAST:
            return [Estimate(float(each), np.nan, np.nan) for each in value]
        grouped = _grouped(sums)
        draws = np.concatenate([formula(totals) for totals in resampled(grouped, resamples, seed)])
    size = grouped.shape[0]
    reach = t_975(size - 1) * np.sqrt(size / (size - 1))
    low, high = quantile_interval(draws, 1 - 2 * special.ndtr(-reach))
    return [Estimate(*map(float, row)) for row in zip(value, low, high, strict=True)]


def ratio(above: np.ndarray, below: np.ndarray, log_variance: float = 0.0, level: float = LEVEL) -> Estimate:
    """Ratio of the totals of two float [P] arrays, one number a prompt each: a speedup, from seconds.

    ``log_variance`` is an independent variance of the log of the ratio, that of prices, known with so many degrees of
    freedom that it counts as normal.  See `ratio_bands`.
    """
    low, high, value = ratio_bands(above[:, None], below[:, None], log_variance, level)
    return Estimate(float(value[0]), float(low[0]), float(high[0]))


def ratio_bands(
    above: np.ndarray, below: np.ndarray, log_variance: np.ndarray | float = 0.0, level: float = LEVEL
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low, high and value, float [J] each, of the J ratios of totals of float [P, J] arrays, one row a prompt.

    A t interval on the log of the linearised ratio (Cochran, Sampling Techniques, 1977, sections 6.3 and 6.4): prompt
    p moves the log by e_p = above_p / sum(above) - below_p / sum(below); its variance and degrees of freedom are those
    of `weighed`, P / (P - 1) sum(e_p^2) and P - 1 where prompts are equally long.  The log keeps the ends above 0 and a
    ratio and its inverse in agreement; t keeps the level from 3 prompts on, where the bootstrap's intervals are too
    narrow.  The part of ``log_variance`` has normal limits, and the squares of the two half widths are added (Zou and
    Donner 2008): with few prompts the degrees of freedom of Welch and Satterthwaite trust a variance that came out
    small by chance.  A prompt with nothing in either total does not count.  Ends are NaN where fewer than two prompts
    count, or a total is 0.
    """
    from scipy import special

    with np.errstate(divide="ignore", invalid="ignore"):
        value = above.sum(axis=0) / below.sum(axis=0)
        shares = above / above.sum(axis=0), below / below.sum(axis=0)
        variance, free = weighed(shares[0] - shares[1], (shares[0] + shares[1]) / 2)
        by_prompts, by_prices = (special.stdtrit(each, (1 + level) / 2) for each in (free, np.inf))
        half = np.sqrt(by_prompts**2 * variance + by_prices**2 * log_variance)
        return value * np.exp(-half), value * np.exp(half), value


def weighed(moves: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variance of what prompts move by ``moves``, and its degrees of freedom, float [J] each, from float [P, J] arrays.

    ``shares``: each prompt's share of the total.  A prompt that is most of the total draws the ratio to itself, so its
    move is small however far it is off: squares are divided by 1 - share, which makes the variance unbiased where that
    of a prompt is as its length, and the degrees of freedom are those of this sum of squares (Bell and McCaffrey 2002),
    1 where one prompt is nearly all.  Equal prompts: P / (P - 1) times the sum of squares, and P - 1.  NaN for one.
    """
    counted = (shares > 0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (moves**2 / (1 - shares)).sum(axis=0)
        weight = shares**2 / (1 - shares)
        crossed = np.maximum(weight.sum(axis=0) ** 2 - (weight**2).sum(axis=0), 0)
        free = 1 / ((shares**2).sum(axis=0) + crossed)
    several = counted > 1
    return np.where(several, variance, np.nan), np.where(several, np.clip(free, 1, np.maximum(counted - 1, 1)), np.nan)


def share(hits: np.ndarray, misses: np.ndarray) -> Estimate:
    """Share of hits in the totals of two float [P] arrays, one number a prompt each: an acceptance.

    The t interval of the odds hits / misses (`ratio`), so that the ends stay within 0 and 1 and a share and its
    complement agree.  Where all are hits, or all are misses, the interval is what a likelihood of one trial a prompt
    allows: how alike prompts are cannot be seen there.  NaN ends where prompts do not differ at all.
    """
    hit, missed = float(hits.sum()), float(misses.sum())
    prompts = int(((hits != 0) | (misses != 0)).sum())
    if hit and missed:
        odds = ratio(hits, misses)
        ends = (odds.low, odds.high) if odds.low < odds.high else (np.nan, np.nan)
        return Estimate(odds.value, *ends).map(lambda each: each / (1 + each))
    if prompts < 2:
        return Estimate(hit / (hit + missed) if prompts else np.nan, np.nan, np.nan)
    away = -np.expm1(-(t_975(prompts - 1) ** 2) / 2 / prompts)
    return Estimate(1.0, float(1 - away), 1.0) if hit else Estimate(0.0, 0.0, float(away))


def t_975(free: np.ndarray | float) -> np.ndarray:
    """How many standard errors a 95 % interval of Student's t with ``free`` degrees of freedom reaches to a side."""
    from scipy import special

    return special.stdtrit(free, (1 + LEVEL) / 2)


def smooth(
    sums: np.ndarray, formula: Callable[[np.ndarray], np.ndarray], log: bool = False, least: int = 2
) -> list[Estimate]:
    """The J numbers of a smooth ``formula`` from totals [..., K] to [..., J], with their intervals; see `jackknife`.

    ``sums`` float [P, K], one row a prompt; one of zeros alone does not count.
    """
    grouped = _grouped(sums[sums.any(axis=1)])
    with np.errstate(divide="ignore", invalid="ignore"):
        total = grouped.sum(axis=0)
        return jackknife(formula(total[None])[0], formula(total - grouped), log, least)


def jackknife(whole: np.ndarray, left_out: np.ndarray, log: bool = False, least: int = 2) -> list[Estimate]:
    """Numbers with intervals, from their values (float [J]) and those without each prompt in turn (float [P, J]).

    A t interval around the number with the jackknife's bias taken off, with the jackknife's standard error (Miller
    1974), both of the number's logarithm where ``log`` says so; the degrees of freedom are those of a variance
    estimated from so uneven contributions (Satterthwaite 1946), at most P - 1: where few prompts bring most of the
    variance it is known as badly as from these few.  Covers far better than a bootstrap's quantiles where prompts are
    few.  Ends are NaN from fewer than ``least`` prompts, or where a number has no value.
    """
    prompts = len(left_out)
    if prompts < max(least, 2):
        return [Estimate(float(each), np.nan, np.nan) for each in whole]
    with np.errstate(divide="ignore", invalid="ignore"):
        at, without = (np.log(whole), np.log(left_out)) if log else (whole, left_out)
        middle = without.mean(axis=0)
        squares = (without - middle) ** 2
        variance = squares.sum(axis=0)
        uneven = (squares**2).sum(axis=0) / variance**2 - 1 / prompts
        free = np.where(uneven * (prompts - 1) > 2, 2 / uneven, prompts - 1)
        half = t_975(free) * np.sqrt((prompts - 1) / prompts * variance)
        centre = prompts * at - (prompts - 1) * middle
        low, high = centre - half, centre + half
        ends = (np.exp(low), np.exp(high)) if log else (low, high)
    return [Estimate(*map(float, row)) for row in zip(whole, *ends, strict=True)]


def quantile_interval(draws: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The central ``level`` of ``draws`` [B, J] by column, NaN ignored; NaN where nothing else is left."""
    usable = np.isfinite(draws).any(axis=0)
    edges = np.full((2, draws.shape[1]), np.nan)
    tail = (1 - level) / 2
    if usable.any():
        finite = np.where(np.isfinite(draws), draws, np.nan)[:, usable]
        edges[:, usable] = np.nanquantile(finite, [tail, 1 - tail], axis=0)
    return edges[0], edges[1]


def _grouped(sums: Sums) -> Sums:
    from scipy import sparse

    prompts = sums.shape[0]
    if prompts <= MAX_UNITS:
        return sums
    member = sparse.csr_matrix((np.ones(prompts), (units(prompts), np.arange(prompts))), shape=(MAX_UNITS, prompts))
    return member @ sums


def wilson(
    successes: np.ndarray, trials: np.ndarray, design: np.ndarray | float = 1.0, reach: np.ndarray | float = NORMAL_975
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval of a share, trials divided by the design effect of clustering; NaN without trials.

    ``reach``: standard errors to a side; Student's where the design effect is estimated from few prompts.

    Source: Wilson (1927); division by the design effect after Kish, Survey Sampling (1965), section 8.2.
    """
    z2 = reach**2
    with np.errstate(divide="ignore", invalid="ignore"):
        n = trials / np.maximum(design, 1.0)
        p = successes / trials
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)


def share_bands(successes: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bands, float [J] each, of the J shares successes / trials given per prompt, [P, J] each.

    Wilson's interval with the clustered variance of a ratio (Cochran, Sampling Techniques, 1977, chapter 9A): unlike
    the others it does not shrink to nothing where every trial seen succeeded.  Student's t with the degrees of freedom
    of `weighed`; NaN where one prompt has a trial.
    """
    hits, n = successes.sum(axis=0), trials.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = hits / n
        spread, free = weighed(successes - found * trials, trials / n)
        design = np.nan_to_num(spread / (n * found * (1 - found)), nan=1.0, posinf=1.0)
    return wilson(hits, n, design, t_975(free))
