"""What the oracle's lookahead looks like over a trace: its size, its spread, and what the spread is made of.

All intervals come from the bootstrap over prompts (`analysis.intervals`).  SL is named by its convention: `accepted`
counts the tokens accepted (from 0), `detect` the draft passes made, the one that disagrees included (accepted + 1).
Censored iterations (cut short by the end of the text: the last one of every text) count at their observed length, as in
published tables; `censoring` says how much they matter and `acceptance_rate` corrects for them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from analysis.describe.repeats import looping
from analysis.intervals import RESAMPLES, Estimate, bands, estimate, sum_by
from oracle.records.selection import select_prompts
from oracle.records.trace import Trace

CONVENTIONS = ("accepted", "detect")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
TRIM = 0.1  # share of iterations left out at either end by the trimmed mean
LONGEST = 0.01  # share of iterations called the longest


@dataclass(frozen=True)
class Summary:
    """The distribution of the oracle SL over all oracle iterations, in one convention."""

    convention: str
    prompts: int
    iterations: int
    mean: Estimate
    sd: Estimate  # n - 1 in the denominator
    median: Estimate
    trimmed_mean: Estimate  # 10 % of the iterations left out at either end
    dispersion: Estimate  # variance over that of a geometric distribution with the same mean; 1 = i.i.d. acceptance
    quantiles: dict[str, float]  # smallest SL that at least this share of iterations does not exceed
    largest: int


@dataclass(frozen=True)
class Censoring:
    """How much of the trace lies in iterations that the end of the text cut short."""

    iterations: Estimate  # share of iterations
    accepted: Estimate  # share of accepted tokens


@dataclass(frozen=True)
class Averages:
    """Mean accepted tokens, averaged in two ways that answer different questions.

    ``over_iterations`` is what an oracle meets.  ``over_positions`` starts a run at every token: long runs hold many
    positions, so they weigh more there (length bias), and the two agree only when acceptance is i.i.d.
    """

    over_iterations: Estimate
    over_positions: Estimate


@dataclass(frozen=True)
class Heterogeneity:
    """Where the variance of the oracle SL lies.

    ``icc``: share of the variance that lies between prompts (one-way ANOVA estimator for unequal sizes, Donner 1986;
    may come out below 0).  ``design_effect``: factor by which correlation within prompts inflates the mean's variance,
    1 + (m - 1) icc, where m is the mean prompt size weighted by size (Kish).  ``lag1``: correlation of neighbouring
    iterations of a prompt around the prompt's mean, corrected for the bias that estimating that mean brings.
    """

    icc: Estimate
    design_effect: Estimate
    lag1: Estimate


@dataclass(frozen=True)
class Statistics:
    """Everything that `describe` computes on one set of prompts."""

    accepted: Summary
    detect: Summary
    censoring: Censoring
    acceptance_rate: Estimate
    longest_share: Estimate
    averages: Averages
    heterogeneity: Heterogeneity
    iid_dispersion: float  # what i.i.d. acceptance at the same rate would give on texts of these lengths
    excess_dispersion: Estimate  # dispersion over iid_dispersion; 1 where acceptance is i.i.d.


@dataclass(frozen=True)
class Description:
    """Statistics of a trace with and without the texts that end in a loop."""

    everything: Statistics
    without_loops: Statistics | None  # None where no text loops, or all do
    loops: tuple[str, ...]  # ids of the looping texts


def describe(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Description:
    """All statistics of ``trace``, and the same ones without its degenerate texts (`analysis.describe.repeats`)."""
    loops = looping(trace)
    some = loops.any() and not loops.all()
    return Description(
        everything=statistics(trace, resamples, seed),
        without_loops=statistics(select_prompts(trace, ~loops), resamples, seed) if some else None,
        loops=tuple(name for name, loop in zip(trace.ids, loops.tolist(), strict=True) if loop),
    )


def statistics(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Statistics:
    """The statistics of all prompts of ``trace``."""
    accepted = summarise(trace, "accepted", resamples, seed)
    rate = acceptance_rate(trace, resamples, seed)
    expected = iid_dispersion(np.diff(trace.offsets), rate.value)
    return Statistics(
        accepted=accepted,
        detect=_as_detect(accepted),
        censoring=censoring(trace, resamples, seed),
        acceptance_rate=rate,
        longest_share=longest_share(trace, resamples, seed),
        averages=averages(trace, resamples, seed),
        heterogeneity=heterogeneity(trace, resamples, seed),
        iid_dispersion=expected,
        excess_dispersion=Estimate(*(float(end) / expected for end in dataclasses.astuple(accepted.dispersion))),
    )


def summarise(trace: Trace, convention: str = "accepted", resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Location and spread of the oracle SL.  Raises ValueError for an unknown convention."""
    if convention not in CONVENTIONS:
        raise ValueError(f"convention must be one of {', '.join(CONVENTIONS)}, not {convention!r}")
    values, table = _count_table(trace)

    def formula(counts: np.ndarray) -> np.ndarray:
        mean, variance = _moments(values, counts)
        middle = _quantile(values, counts, 0.5)
        ratio = variance / (mean * (mean + 1))  # a geometric distribution on 0, 1, ... has variance mean (mean + 1)
        return np.stack([mean, np.sqrt(variance), middle, _trimmed(values, counts), ratio], axis=-1)

    low, high, value = bands(table, formula, resamples, seed)
    rows = [Estimate(*map(float, row)) for row in zip(value, low, high, strict=True)]
    total = np.asarray(table.sum(axis=0)).reshape(1, -1)
    quantiles = {f"{q:g}": float(_quantile(values, total, q)[0]) for q in QUANTILES}
    summary = Summary("accepted", trace.prompts, int(total.sum()), *rows, quantiles, int(values[-1]))
    return summary if convention == "accepted" else _as_detect(summary)


def _as_detect(summary: Summary) -> Summary:
    """The same iterations with the pass that disagrees counted: locations move by one, spreads stay."""
    moved = {
        name: Estimate(*(end + 1 for end in dataclasses.astuple(getattr(summary, name))))
        for name in ("mean", "median", "trimmed_mean")
    }
    quantiles = {name: value + 1 for name, value in summary.quantiles.items()}
    largest = summary.largest + 1
    return dataclasses.replace(summary, convention="detect", quantiles=quantiles, largest=largest, **moved)


def iid_dispersion(lengths: np.ndarray, rate: float) -> float:
    """Dispersion of the oracle SL expected when every token is accepted with probability ``rate``, texts being finite.

    ``lengths`` int [P] are the texts' lengths in tokens.  Below 1 because the end of a text cuts its last run short.
    An iteration starts at a text's first token, and after every disagreement (probability 1 - rate); it either meets
    a disagreement before the last token or is cut short there.  NaN where ``rate`` is 0 or 1.
    """
    if not 0 < rate < 1:
        return float("nan")
    moments = np.zeros(3)  # expected number of iterations, sum and sum of squares of their accepted tokens
    for size, texts in zip(*np.unique(lengths, return_counts=True), strict=True):
        k = np.arange(size)
        ended = rate**k * (1 - rate) * np.maximum(1 + (size - 2 - k) * (1 - rate), 0) * (k < size - 1)
        cut = np.where(k == size - 1, rate**k, (1 - rate) * rate**k)
        moments += texts * np.stack([np.ones(size), k, k.astype(float) ** 2]) @ (ended + cut)
    mean = moments[1] / moments[0]
    return float((moments[2] / moments[0] - mean**2) / (mean * (mean + 1)))


def longest_share(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Share of all accepted tokens that comes from the longest 1 % of oracle iterations (at least one iteration)."""
    values, table = _count_table(trace)

    def formula(counts: np.ndarray) -> np.ndarray:
        total = counts.sum(axis=-1, keepdims=True)
        below = total - np.ceil(LONGEST * total - 1e-9)  # iterations that are not among the longest
        return _between(counts, below, total) @ values / (counts @ values)

    return estimate(table, formula, resamples, seed)


def censoring(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Censoring:
    """Share of oracle iterations, and of accepted tokens, cut short by the end of the text."""
    runs = trace.iterations()
    accepted, cut = runs.accepted.to_numpy(float), runs.censored.to_numpy(float)
    columns = np.stack([np.ones(len(runs)), cut, accepted, accepted * cut], axis=1)
    sums = sum_by(runs.prompt.to_numpy(), columns, trace.prompts)
    return Censoring(
        iterations=estimate(sums, lambda s: s[..., 1] / s[..., 0], resamples, seed),
        accepted=estimate(sums, lambda s: s[..., 3] / s[..., 2], resamples, seed),
    )


def acceptance_rate(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Accepted tokens over accepted tokens plus rejections, runs that the end of the text cut short not rejected.

    The maximum-likelihood estimate under i.i.d. acceptance.  Accepted over *drafted* would be biased: it falls with the
    lookahead.
    """
    runs = trace.iterations()
    rejected = ~runs.censored.to_numpy()
    columns = np.stack([runs.accepted.to_numpy(float), rejected.astype(float)], axis=1)
    sums = sum_by(runs.prompt.to_numpy(), columns, trace.prompts)
    return estimate(sums, lambda s: s[..., 0] / (s[..., 0] + s[..., 1]), resamples, seed)


def averages(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Averages:
    """Mean accepted tokens over the oracle's iterations, and over runs started at every position."""
    runs = trace.iterations()
    columns = np.stack([runs.accepted.to_numpy(float), np.ones(len(runs))], axis=1)
    iterations = sum_by(runs.prompt.to_numpy(), columns, trace.prompts)
    lengths = np.add.reduceat(trace.accepted_run, trace.offsets[:-1])
    positions = np.stack([lengths, np.diff(trace.offsets)], axis=1).astype(float)
    ratio = lambda s: s[..., 0] / s[..., 1]  # noqa: E731
    return Averages(estimate(iterations, ratio, resamples, seed), estimate(positions, ratio, resamples, seed))


def heterogeneity(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Heterogeneity:
    """Correlation within prompts of the oracle SL: between-prompt share, design effect, lag 1."""
    runs = trace.iterations()
    prompt, x = runs.prompt.to_numpy(), runs.accepted.to_numpy(float)
    x = x - x.mean()  # keeps the sums of squares small; changes nothing
    n = np.bincount(prompt, minlength=trace.prompts).astype(float)
    total = np.bincount(prompt, weights=x, minlength=trace.prompts)
    centred = x - (total / n)[prompt]
    neighbours = prompt[1:] == prompt[:-1]
    products = np.bincount(prompt[1:][neighbours], (centred[1:] * centred[:-1])[neighbours], trace.prompts)
    within = np.bincount(prompt, weights=centred**2, minlength=trace.prompts)
    sums = np.stack([np.ones_like(n), n, n**2, total, total**2 / n, within, products, (n - 1) / n], axis=1)
    formula = lambda s: np.stack([_icc(s), _design_effect(s), _lag1(s)], axis=-1)  # noqa: E731
    low, high, value = bands(sums, formula, resamples, seed)
    return Heterogeneity(*(Estimate(*map(float, row)) for row in zip(value, low, high, strict=True)))


def _icc(s: np.ndarray) -> np.ndarray:
    prompts, n, squares, total, between, within = (s[..., column] for column in range(6))
    mean_between = (between - total**2 / n) / (prompts - 1)
    mean_within = within / (n - prompts)
    size = (n - squares / n) / (prompts - 1)
    return (mean_between - mean_within) / (mean_between + (size - 1) * mean_within)


def _design_effect(s: np.ndarray) -> np.ndarray:
    return 1 + (s[..., 2] / s[..., 1] - 1) * _icc(s)


def _lag1(s: np.ndarray) -> np.ndarray:
    # Under independence E(products) = -variance * (n - 1) / n in each prompt: its own mean was taken off.
    return s[..., 6] / s[..., 5] + s[..., 7] / (s[..., 1] - s[..., 0])


def plain(value: object) -> object:
    """``value`` (a dataclass of this package) as dicts, lists, numbers and text for JSON; None for non-finite ones."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _count_table(trace: Trace) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Distinct accepted lengths, int64 [V] ascending, and how often each prompt has each of them, sparse [P, V]."""
    runs = trace.iterations()
    values, column = np.unique(runs.accepted.to_numpy(), return_inverse=True)
    shape = (trace.prompts, len(values))
    return values, sparse.csr_matrix((np.ones(len(runs)), (runs.prompt.to_numpy(), column)), shape=shape)


# --- formulas on counts [..., V] of ascending values [V] --------------------------------------------------------------


def _moments(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = counts.sum(axis=-1)
    mean = counts @ values / n
    far = values - np.mean(mean)  # a common centre, so that large values lose no digits
    return mean, (counts @ far**2 - n * (mean - np.mean(mean)) ** 2) / (n - 1)


def _quantile(values: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    reached = counts.cumsum(axis=-1) >= share * counts.sum(axis=-1, keepdims=True) - 1e-9
    return values[reached.argmax(axis=-1)].astype(float)


def _trimmed(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    n = counts.sum(axis=-1, keepdims=True)
    cut = np.floor(TRIM * n + 1e-9)
    kept = _between(counts, cut, n - cut)
    return kept @ values / kept.sum(axis=-1)


def _between(counts: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Counts of the items ranked ``first`` to ``last`` (from 0, ``last`` excluded) when all are sorted."""
    upper = counts.cumsum(axis=-1)
    return np.clip(np.minimum(upper, last) - np.maximum(upper - counts, first), 0, None)
