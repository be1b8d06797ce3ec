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

from analysis.describe.repeats import repeating
from analysis.intervals import RESAMPLES, Estimate, estimate, estimates, share, sum_by
from oracle.records.selection import parts
from oracle.records.trace import Trace, oracle_positions

CONVENTIONS = ("accepted", "detect")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
TRIM = 0.1  # share of iterations left out at either end by the trimmed mean
LONGEST = 0.01  # share of iterations called the longest


@dataclass(frozen=True)
class Sample:
    """What all statistics rest on: the oracle's iterations, I of them, and the P texts that they are from."""

    prompt: np.ndarray  # int64 [I], ascending
    accepted: np.ndarray  # int64 [I]
    censored: np.ndarray  # bool [I]
    lengths: np.ndarray  # int64 [P], tokens
    over_positions: np.ndarray  # int64 [P], accepted tokens of the runs from every position of the text, summed

    @staticmethod
    def of(data: Trace | Sample) -> Sample:
        """That of a trace, taken in parts, so that no more than its iterations is ever held."""
        if isinstance(data, Sample):
            return data
        found = [_sample(part) for part in parts(data)]
        columns = {
            name: np.concatenate([getattr(one, name) for one in found])
            for name in ("accepted", "censored", "lengths", "over_positions")
        }
        before = np.cumsum([0, *(len(one.lengths) for one in found)])
        prompt = np.concatenate([one.prompt + first for one, first in zip(found, before, strict=False)])
        return Sample(prompt=prompt, **columns)

    @property
    def prompts(self) -> int:
        return len(self.lengths)

    @property
    def iterations(self) -> int:
        return len(self.prompt)

    def of_prompts(self, keep: np.ndarray) -> Sample:
        """The same without the prompts where ``keep`` (bool [P]) does not hold."""
        rows = keep[self.prompt]
        moved = np.cumsum(keep) - 1
        kept = moved[self.prompt[rows]], self.accepted[rows], self.censored[rows]
        return Sample(*kept, self.lengths[keep], self.over_positions[keep])


def _sample(trace: Trace) -> Sample:
    at = oracle_positions(trace)
    everywhere = np.add.reduceat(trace.accepted_run, trace.offsets[:-1])
    return Sample(
        trace.prompt_of[at], trace.accepted_run[at], trace.censored[at], np.diff(trace.offsets), everywhere
    )  # fmt: skip


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
    """Statistics of a trace with and without the texts that repeat themselves to the end.

    The fields are the names in JSON, where a loop is such a repetition.
    """

    everything: Statistics
    without_loops: Statistics | None  # None where no text repeats itself, or all do
    loops: tuple[str, ...]  # ids of the texts that do


def describe(trace: Trace, resamples: int = RESAMPLES, seed: int = 0) -> Description:
    """All statistics of ``trace``, and the same ones without its degenerate texts (`analysis.describe.repeats`)."""
    repeats, sample = repeating(trace), Sample.of(trace)
    some = repeats.any() and not repeats.all()
    return Description(
        everything=statistics(sample, resamples, seed),
        without_loops=statistics(sample.of_prompts(~repeats), resamples, seed) if some else None,
        loops=tuple(name for name, repeated in zip(trace.ids, repeats.tolist(), strict=True) if repeated),
    )


def statistics(data: Trace | Sample, resamples: int = RESAMPLES, seed: int = 0) -> Statistics:
    """The statistics of all prompts of ``data``."""
    sample = Sample.of(data)
    accepted = summarise(sample, "accepted", resamples, seed)
    rate = acceptance_rate(sample)
    expected = iid_dispersion(sample.lengths, rate.value)
    return Statistics(
        accepted=accepted,
        detect=_as_detect(accepted),
        censoring=censoring(sample, resamples, seed),
        acceptance_rate=rate,
        longest_share=longest_share(sample, resamples, seed),
        averages=averages(sample, resamples, seed),
        heterogeneity=heterogeneity(sample, resamples, seed),
        iid_dispersion=expected,
        excess_dispersion=accepted.dispersion.map(lambda end: float(end) / expected),
    )


def summarise(data: Trace | Sample, convention: str = "accepted", resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Location and spread of the oracle SL.  Raises ValueError for an unknown convention."""
    if convention not in CONVENTIONS:
        raise ValueError(f"convention must be one of {', '.join(CONVENTIONS)}, not {convention!r}")
    sample = Sample.of(data)
    values, table = _count_table(sample)

    def formula(counts: np.ndarray) -> np.ndarray:
        mean, variance = _moments(values, counts)
        middle = _quantile(values, counts, 0.5)
        ratio = variance / (mean * (mean + 1))  # a geometric distribution on 0, 1, ... has variance mean (mean + 1)
        return np.stack([mean, np.sqrt(variance), middle, _trimmed(values, counts), ratio], axis=-1)

    mean, sd, median, trimmed, dispersion = estimates(table, formula, resamples, seed)
    total = np.asarray(table.sum(axis=0)).reshape(1, -1)
    summary = Summary(
        convention="accepted",
        prompts=sample.prompts,
        iterations=sample.iterations,
        mean=mean,
        sd=sd,
        median=median,
        trimmed_mean=trimmed,
        dispersion=dispersion,
        quantiles={f"{q:g}": float(_quantile(values, total, q)[0]) for q in QUANTILES},
        largest=int(values[-1]),
    )
    return summary if convention == "accepted" else _as_detect(summary)


def _as_detect(summary: Summary) -> Summary:
    """The same iterations with the pass that disagrees counted: locations move by one, spreads stay."""
    moved = {name: getattr(summary, name).map(lambda end: end + 1) for name in ("mean", "median", "trimmed_mean")}
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


def longest_share(data: Trace | Sample, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Share of all accepted tokens that comes from the longest 1 % of oracle iterations (at least one iteration)."""
    values, table = _count_table(Sample.of(data))

    def formula(counts: np.ndarray) -> np.ndarray:
        total = counts.sum(axis=-1, keepdims=True)
        below = total - np.ceil(LONGEST * total - 1e-9)  # iterations that are not among the longest
        return _between(counts, below, total) @ values / (counts @ values)

    return estimate(table, formula, resamples, seed)


def censoring(data: Trace | Sample, resamples: int = RESAMPLES, seed: int = 0) -> Censoring:
    """Share of oracle iterations, and of accepted tokens, cut short by the end of the text."""
    sample = Sample.of(data)
    accepted, cut = sample.accepted.astype(float), sample.censored.astype(float)
    columns = np.stack([np.ones(sample.iterations), cut, accepted, accepted * cut], axis=1)
    sums = sum_by(sample.prompt, columns, sample.prompts)
    return Censoring(
        iterations=estimate(sums, lambda s: s[..., 1] / s[..., 0], resamples, seed),
        accepted=estimate(sums, lambda s: s[..., 3] / s[..., 2], resamples, seed),
    )


def acceptance_rate(data: Trace | Sample) -> Estimate:
    """Accepted tokens over accepted tokens plus rejections, runs that the end of the text cut short not rejected.

    The maximum-likelihood estimate under i.i.d. acceptance.  Accepted over *drafted* would be biased: it falls with the
    lookahead.
    """
    sample = Sample.of(data)
    columns = np.stack([sample.accepted, ~sample.censored], axis=1).astype(float)  # accepted tokens, rejections
    accepted, rejections = sum_by(sample.prompt, columns, sample.prompts).T
    return share(accepted, rejections)


def averages(data: Trace | Sample, resamples: int = RESAMPLES, seed: int = 0) -> Averages:
    """Mean accepted tokens over the oracle's iterations, and over runs started at every position."""
    sample = Sample.of(data)
    columns = np.stack([sample.accepted.astype(float), np.ones(sample.iterations)], axis=1)
    iterations = sum_by(sample.prompt, columns, sample.prompts)
    positions = np.stack([sample.over_positions, sample.lengths], axis=1).astype(float)
    ratio = lambda s: s[..., 0] / s[..., 1]  # noqa: E731
    return Averages(estimate(iterations, ratio, resamples, seed), estimate(positions, ratio, resamples, seed))


def heterogeneity(data: Trace | Sample, resamples: int = RESAMPLES, seed: int = 0) -> Heterogeneity:
    """Correlation within prompts of the oracle SL: between-prompt share, design effect, lag 1."""
    sample = Sample.of(data)
    prompt, x = sample.prompt, sample.accepted.astype(float)
    x = x - x.mean()  # keeps the sums of squares small; changes nothing
    n = np.bincount(prompt, minlength=sample.prompts).astype(float)
    total = np.bincount(prompt, weights=x, minlength=sample.prompts)
    centred = x - (total / n)[prompt]
    neighbours = prompt[1:] == prompt[:-1]
    products = np.bincount(prompt[1:][neighbours], (centred[1:] * centred[:-1])[neighbours], sample.prompts)
    within = np.bincount(prompt, weights=centred**2, minlength=sample.prompts)
    sums = np.stack([np.ones_like(n), n, n**2, total, total**2 / n, within, products, (n - 1) / n], axis=1)
    formula = lambda s: np.stack([_icc(s), _design_effect(s), _lag1(s)], axis=-1)  # noqa: E731
    return Heterogeneity(*estimates(sums, formula, resamples, seed))


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


def _count_table(sample: Sample) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Distinct accepted lengths, int64 [V] ascending, and how often each prompt has each of them, sparse [P, V]."""
    values, column = np.unique(sample.accepted, return_inverse=True)
    shape = (sample.prompts, len(values))
    return values, sparse.csr_matrix((np.ones(sample.iterations), (sample.prompt, column)), shape=shape)


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
