"""What the oracle's lookahead looks like over a trace: its size, its spread, and what the spread is made of.

All intervals are over prompts (`analysis.intervals`).  SL is named by its convention: `accepted`
counts the tokens accepted (from 0), `detect` the draft passes made, the one that disagrees included (accepted + 1).
Censored iterations (cut short by the end of the text: the last one of every text) count at their observed length, as in
published tables; `censoring` says how much they matter and `acceptance_rate` corrects for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from analysis.describe.repeats import repeating
from analysis.describe.variation import NO_SPLIT, Heterogeneity, Split, design_effect, lag1, split
from analysis.intervals import LEAST, RESAMPLES, Estimate, estimate, estimates, ratio, share, smooth, sum_by
from oracle.records.selection import parts
from oracle.records.shown import Shown
from oracle.records.trace import Trace, oracle_positions

if TYPE_CHECKING:
    import pandas as pd

CONVENTIONS = ("accepted", "detect")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
TRIM = 0.1  # share of iterations left out at either end by the trimmed mean
LONGEST = 0.01  # share of iterations called the longest
# Prompts below which a ratio of variances has no interval: 95 % ones held the truth in 80 to 95 % of cases at 10.
LEAST_OF_VARIANCES = 20


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
class Statistics:
    """Everything that `describe` computes on one set of prompts."""

    accepted: Summary
    detect: Summary
    censoring: Censoring
    acceptance_rate: Estimate
    longest_share: Estimate
    averages: Averages
    heterogeneity: Heterogeneity
    iid_dispersion: float  # what the same agreements dealt anew over the whole trace would give on average
    excess_dispersion: Estimate  # dispersion over iid_dispersion: 1 + heterogeneity.between + heterogeneity.within
    note: str  # which numbers have no interval because prompts are too few; empty where all have one


@dataclass(frozen=True, repr=False)
class Description(Shown):
    """Statistics of a trace with and without the texts that repeat themselves to the end.

    The fields are the names in JSON, where a loop is such a repetition.
    """

    everything: Statistics
    without_loops: Statistics | None  # None where no text repeats itself, or all do
    loops: tuple[str, ...]  # ids of the texts that do

    def in_short(self) -> str:
        of = self.everything.accepted
        return (
            f"oracle SL (accepted): mean {of.mean}, SD {of.sd}, {of.iterations:,} iterations of {of.prompts:,} prompts"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a number of all texts, by its path in the fields: value, low, high (NaN where there is none)."""
        import pandas as pd

        return pd.DataFrame(list(_numbers(self.everything)))


def _numbers(found: object, path: str = "") -> Iterator[dict[str, Any]]:
    """The numbers in dataclasses within each other, a row each."""
    for each in dataclasses.fields(found):  # type: ignore[arg-type]
        value, name = getattr(found, each.name), f"{path}.{each.name}" if path else each.name
        if isinstance(value, Estimate):
            yield {"number": name, "value": value.value, "low": value.low, "high": value.high}
        elif dataclasses.is_dataclass(value):
            yield from _numbers(value, name)
        elif isinstance(value, (int, float)):
            yield {"number": name, "value": value, "low": np.nan, "high": np.nan}


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
    accepted, found = summarise(sample, "accepted", resamples, seed), variance(sample)
    return Statistics(
        accepted=accepted,
        detect=_as_detect(accepted),
        censoring=censoring(sample),
        acceptance_rate=acceptance_rate(sample),
        longest_share=longest_share(sample, resamples, seed),
        averages=averages(sample),
        heterogeneity=heterogeneity(sample, found),
        iid_dispersion=found.iid_dispersion,
        excess_dispersion=found.excess,
        note=_note(sample.prompts),
    )


def _note(prompts: int) -> str:
    """What the page and the terminal say once, instead of in every cell."""
    if prompts >= LEAST_OF_VARIANCES:
        return ""
    variances = f"ratios of variances have no interval below {LEAST_OF_VARIANCES} prompts"
    if prompts >= LEAST:
        return f"{variances[0].upper()}{variances[1:]}; here are {prompts}."
    few = "prompt" if prompts == 1 else "prompts"
    return (
        f"SD, median, trimmed mean and the share of the longest have no interval below {LEAST} prompts, {variances}; "
        f"here {'is' if prompts == 1 else 'are'} {prompts} {few}."
    )


def summarise(data: Trace | Sample, convention: str = "accepted", resamples: int = RESAMPLES, seed: int = 0) -> Summary:
    """Location and spread of the oracle SL.  Raises ValueError for an unknown convention."""
    if convention not in CONVENTIONS:
        raise ValueError(f"convention must be one of {', '.join(CONVENTIONS)}, not {convention!r}")
    sample = Sample.of(data)
    values, table = _count_table(sample)
    middle = lambda counts: np.stack([_quantile(values, counts, 0.5), _trimmed(values, counts)], axis=-1)  # noqa: E731
    median, trimmed = estimates(table, middle, resamples, seed)
    totals = sums(sample)
    (sd,) = smooth(totals, lambda each: np.sqrt(_variance(each))[..., None], log=True, least=LEAST)
    (dispersion,) = smooth(totals, lambda each: _dispersion(each)[..., None], log=True, least=LEAST_OF_VARIANCES)
    total = np.asarray(table.sum(axis=0)).reshape(1, -1)
    summary = Summary(
        convention="accepted",
        prompts=sample.prompts,
        iterations=sample.iterations,
        mean=averages(sample).over_iterations,
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


def longest_share(data: Trace | Sample, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Share of all accepted tokens that comes from the longest 1 % of oracle iterations (at least one iteration)."""
    values, table = _count_table(Sample.of(data))

    def formula(counts: np.ndarray) -> np.ndarray:
        total = counts.sum(axis=-1, keepdims=True)
        below = total - np.ceil(LONGEST * total - 1e-9)  # iterations that are not among the longest
        return _between(counts, below, total) @ values / (counts @ values)

    return estimate(table, formula, resamples, seed)


def censoring(data: Trace | Sample) -> Censoring:
    """Share of oracle iterations, and of accepted tokens, cut short by the end of the text."""
    sample = Sample.of(data)
    accepted, cut = sample.accepted.astype(float), sample.censored.astype(float)
    columns = np.stack([np.ones(sample.iterations), cut, accepted, accepted * cut], axis=1)
    iterations, cut_iterations, tokens, cut_tokens = sum_by(sample.prompt, columns, sample.prompts).T
    return Censoring(ratio(cut_iterations, iterations).at_most(1), ratio(cut_tokens, tokens).at_most(1))


def acceptance_rate(data: Trace | Sample) -> Estimate:
    """Accepted tokens over accepted tokens plus rejections, runs that the end of the text cut short not rejected.

    The maximum-likelihood estimate under i.i.d. acceptance.  Accepted over *drafted* would be biased: it falls with the
    lookahead.
    """
    sample = Sample.of(data)
    columns = np.stack([sample.accepted, ~sample.censored], axis=1).astype(float)  # accepted tokens, rejections
    accepted, rejections = sum_by(sample.prompt, columns, sample.prompts).T
    return share(accepted, rejections)


def averages(data: Trace | Sample) -> Averages:
    """Mean accepted tokens over the oracle's iterations, and over runs started at every position."""
    sample = Sample.of(data)
    iterations, accepted, _ = sums(sample).T
    # One less than tokens emitted, which are never 0.
    over_iterations = ratio(accepted + iterations, iterations).map(lambda end: float(np.maximum(end - 1, 0)))
    # A few long runs, squared, bring most of it: an interval that allows for that.
    positions = np.stack([sample.over_positions, sample.lengths], axis=1).astype(float)
    (over_positions,) = smooth(positions, lambda totals: totals[..., :1] / totals[..., 1:], log=True)
    return Averages(over_iterations, over_positions)


def variance(data: Trace | Sample) -> Split:
    """The variance of the oracle SL, split in coin, between and within prompts; see `analysis.describe.variation`.

    NaN where the record cut runs short within a text: what would have come there is not known.
    """
    sample = Sample.of(data)
    if np.bincount(sample.prompt, weights=sample.censored).max() > 1:
        return NO_SPLIT
    return split(*sums(sample).T, least=LEAST_OF_VARIANCES)


def heterogeneity(data: Trace | Sample, found: Split | None = None) -> Heterogeneity:
    """How the oracle SL varies between and within prompts; ``found``: its `variance`, where that is known already."""
    sample = Sample.of(data)
    found = variance(sample) if found is None else found
    return Heterogeneity(
        between=found.between,
        within=found.within,
        design_effect=design_effect(*sums(sample).T),
        lag1=lag1(sample.prompt, sample.accepted, sample.prompts),
    )


def sums(data: Trace | Sample) -> np.ndarray:
    """Iterations, accepted tokens and their squares by prompt, float [P, 3]."""
    sample = Sample.of(data)
    accepted = sample.accepted.astype(float)
    return sum_by(sample.prompt, np.stack([np.ones_like(accepted), accepted, accepted**2], axis=1), sample.prompts)


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


# --- formulas on totals [..., 3] of iterations, accepted tokens and their squares ------------------------------------


def _variance(totals: np.ndarray) -> np.ndarray:
    n, total, squares = np.moveaxis(totals, -1, 0)
    return np.maximum(squares - total**2 / n, 0) / (n - 1)


def _dispersion(totals: np.ndarray) -> np.ndarray:
    mean = totals[..., 1] / totals[..., 0]  # a geometric distribution on 0, 1, ... has variance mean (mean + 1)
    return _variance(totals) / (mean * (mean + 1))


# --- formulas on counts [..., V] of ascending values [V] --------------------------------------------------------------


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
