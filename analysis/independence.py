"""Is acceptance independent and alike everywhere?  A Monte-Carlo test that holds its level at any number of prompts.

``iid_test(trace) -> IidTest`` takes a trace or the ``Sample`` of one; ``IidTest.rejected`` is True, False or None (the
data cannot say), ``IidTest.sentence`` says it in words.

I.i.d. acceptance means that every order of the agreements and rejections of all texts is as likely as every other one.
So they are dealt anew over the same texts many times, and two statistics of the data are compared with those of the
deals: the *shape* of the distribution of the oracle SL (Pearson's chi-square over classes of lengths), and the *spread*
of the acceptance between prompts (Pearson's chi-square of homogeneity).  The smaller of their two p-values is itself
compared with what it is in the deals, so that the level of both together is exact.  Sources: Davison and Hinkley,
Bootstrap Methods and their Application (1997), section 4.3, on permutation tests; Westfall and Young, Resampling-Based
Multiple Testing (1993), on the minimum of p-values.

Not to reject says nothing for closed forms; ``hidden_between`` and ``hidden_within`` say how much the data could hide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.describe.statistics import Sample
from analysis.intervals import p_words
from oracle.records.trace import Trace

LEVEL = 0.05
POWER = 0.8  # with which a deviation is found that is called too large to be hidden
DRAWS = (999, 499, 199, 99)  # each plus one is a multiple of 20, so that a level of 5 % is met exactly
_DEALT = 250_000_000  # tokens dealt in all at most, or the fewest draws: a million tokens take some seconds
_FINE = 64  # classes of lengths that are counted in each deal
_COARSE = 12  # most classes that the shape is judged by
_EXPECTED = 5.0  # runs that such a class is expected to hold


@dataclass(frozen=True)
class IidTest:
    """Whether acceptance may be i.i.d., from ``draws`` deals; NaN where there is nothing to test or to say.

    ``hidden_between``: SD of the acceptance between prompts that the data could still hide: its upper 95 % bound, or
    what the test finds in 80 % of such data where that is more.  ``hidden_within``: correlation of
    the agreements of neighbouring tokens that the test finds in 80 % of such data.
    """

    acceptance: float  # agreements over all tokens that can tell
    p: float  # of both statistics together
    p_shape: float  # of the distribution of the oracle SL, by itself
    p_spread: float  # of the differences between prompts, by itself; NaN for one prompt
    level_each: float  # p-value up to which one statistic by itself rejects, for 5 % in all
    draws: int
    hidden_between: float
    hidden_within: float

    @property
    def rejected(self) -> bool | None:
        """At 5 % in all; None where the data cannot say."""
        return None if math.isnan(self.p) else self.p <= LEVEL

    @property
    def by(self) -> tuple[str, ...]:
        """Which of "shape" and "spread" reject."""
        each = {"shape": self.p_shape, "spread": self.p_spread}
        return tuple(name for name, p in each.items() if self.rejected and p <= self.level_each)

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.rejected is None:
            return "Whether acceptance is i.i.d. cannot be told: too few tokens or rejections; collect more prompts."
        each = {"shape of the oracle SL": self.p_shape, "differences between prompts": self.p_spread}
        parts = "; ".join(f"{name}: {p_words(p, self.draws)}" for name, p in each.items() if not math.isnan(p))
        p = p_words(self.p, self.draws)
        tested = f"permutation test, {self.draws} draws, p {p if p.startswith('<=') else f'= {p}'}; {parts}"
        if self.rejected:
            why = {
                "shape": "the lengths of runs are not those of coin flips",
                "spread": "texts differ by more than coin flips do",
            }
            return f"I.i.d. acceptance is rejected: {' and '.join(why[name] for name in self.by)} ({tested})."
        deviations = {
            "an acceptance that differs between prompts by a standard deviation of": self.hidden_between,
            "a correlation between neighbouring tokens of": self.hidden_within,
        }
        hidden = " or ".join(f"{what} {most:.2g}" for what, most in deviations.items() if not math.isnan(most))
        still = f": these texts could still hide {hidden}" if hidden else ""
        return f"I.i.d. acceptance is not rejected ({tested}), which does not make it true{still}."


def iid_test(data: Trace | Sample, draws: int | None = None, seed: int = 0) -> IidTest:
    """The test on all texts of ``data``; without ``draws`` 999 of them, down to 99 for large traces.

    The runs of a round draft are recorded up to a limit, after which one token is unknown: it is dealt as a coin flip.
    Raises ValueError for fewer than 99 draws.
    """
    if draws is not None and draws < DRAWS[-1]:
        raise ValueError(f"draws must be at least {DRAWS[-1]}, not {draws}; 999 resolves a p-value of 0.05 well")
    rng = np.random.default_rng(seed)
    texts = _Texts.of(Sample.of(data), rng)
    tokens, rejections = len(texts.rejects), int(texts.rejects.sum())
    acceptance = 1 - rejections / tokens if tokens else math.nan
    nothing = math.nan
    if not 0 < rejections < tokens:
        return IidTest(acceptance, nothing, nothing, nothing, nothing, 0, nothing, nothing)
    draws = draws or draws_for(tokens)
    edges = _edges(acceptance)
    table, spread = _deal(texts, edges, draws, rng)
    shape = _Shape.of(table)
    several = (texts.sizes > 0).sum() > 1
    if shape is None and not several:
        return IidTest(acceptance, nothing, nothing, nothing, nothing, 0, nothing, nothing)
    untested = np.full(draws + 1, nothing)
    p_shape = untested if shape is None else _ranks(shape.distance)
    p_spread = _ranks(spread) if several else untested
    least = np.fmin(p_shape, p_spread)
    level_each = max((p for p in np.unique(least) if (least <= p).mean() <= LEVEL), default=0.0)
    opening = len(texts.sizes) / (rejections + len(texts.sizes))
    return IidTest(
        acceptance=acceptance,
        p=float((least <= least[0]).mean()),
        p_shape=float(p_shape[0]),
        p_spread=float(p_spread[0]),
        level_each=float(level_each),
        draws=draws,
        hidden_between=_hidden_between(texts.sizes, acceptance, spread, level_each) if several else nothing,
        hidden_within=nothing if shape is None else _hidden_within(shape, edges, acceptance, opening, level_each),
    )


def draws_for(tokens: int) -> int:
    """How many draws are made where none are asked for: fewer for many tokens, so that the test takes seconds."""
    return next((each for each in DRAWS if each * tokens <= _DEALT), DRAWS[-1])


def _ranks(statistic: np.ndarray) -> np.ndarray:
    """p-value of each of the B + 1 values among all of them: the share that is as large or larger."""
    rounded = np.round(statistic, 9)  # equal tables must tie whatever the order of their sums
    return (len(rounded) - np.searchsorted(np.sort(rounded), rounded, side="left")) / len(rounded)


# --- the texts, and dealing them anew ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Texts:
    """Where the draft is rejected in P texts; a text's last token always comes from the target and can tell nothing."""

    rejects: np.ndarray  # bool [N], of all texts one after the other
    sizes: np.ndarray  # int64 [P], tokens that can tell: the text's less one
    most: int | None  # a run is recorded up to so many tokens and the one after it is skipped; None: to its end

    @staticmethod
    def of(sample: Sample, rng: np.random.Generator) -> _Texts:
        """From the oracle's iterations: each is its accepted tokens and the one after them."""
        ends = np.cumsum(sample.accepted + 1) - 1
        of_text = np.zeros(int(sample.lengths.sum()), bool)
        of_text[np.cumsum(sample.lengths) - 1] = True  # the last token of each
        skipped = ends[sample.censored & ~of_text[ends]]
        rejects = np.zeros(len(of_text), bool)
        rejects[ends] = True
        most = None
        if len(skipped):
            most = int(sample.accepted[sample.censored & ~of_text[ends]].max())
            known = rejects & ~of_text
            known[skipped] = False
            share = known.sum() / max(len(of_text) - of_text.sum() - len(skipped), 1)
            rejects[skipped] = rng.random(len(skipped)) < share
        return _Texts(rejects[~of_text], sample.lengths - 1, most)


def _deal(texts: _Texts, edges: np.ndarray, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Runs that ended by class, int64 [draws + 1, C], and spread of the texts, float [draws + 1]; the data first."""
    places = np.arange(len(texts.rejects)) + np.repeat(np.arange(len(texts.sizes)), texts.sizes)
    last = np.cumsum(texts.sizes + 1) - 1  # a place after each text, where its last run stops
    class_of = np.searchsorted(edges, np.arange(int(edges[-1]) + 1), side="right")
    table = np.empty((draws + 1, len(edges) + 1), np.int64)
    spread = np.empty(draws + 1)
    chosen = np.flatnonzero(texts.rejects)
    for row in range(draws + 1):
        if row:
            chosen = rng.choice(len(places), len(chosen), replace=False, shuffle=False)
        at = np.sort(np.concatenate([places[chosen], last]))
        ends = np.searchsorted(at, last)
        spread[row] = _homogeneity(texts.sizes, np.diff(ends, prepend=-1) - 1)
        runs = np.delete(np.diff(at, prepend=-1) - 1, ends)
        if texts.most is not None:
            runs = runs % (texts.most + 1)
            runs = runs[runs < texts.most]
        table[row] = np.bincount(class_of[np.minimum(runs, len(class_of) - 1)], minlength=table.shape[1])
    return table, spread


# --- the two statistics -----------------------------------------------------------------------------------------------


def _edges(acceptance: float) -> np.ndarray:
    """Where a class of lengths starts, the first but one on, int64 [C - 1]: about equally likely geometric ones."""
    shares = np.arange(1, _FINE) / _FINE
    return np.unique(np.ceil(np.log1p(-shares) / math.log(acceptance)).astype(np.int64))


@dataclass(frozen=True)
class _Shape:
    """Pearson's chi-square of the lengths of runs, over classes joined from the fine ones."""

    starts: np.ndarray  # int64 [D], which fine class each class starts with
    expected: np.ndarray  # float [D], mean over data and deals: what i.i.d. acceptance gives on texts of these lengths
    distance: np.ndarray  # float [draws + 1]

    @staticmethod
    def of(table: np.ndarray) -> _Shape | None:
        """From ``table`` [draws + 1, C]; None where runs are too few for two classes."""
        mean = table.mean(axis=0)
        starts = _joined(mean, max(_EXPECTED, mean.sum() / _COARSE))
        if len(starts) < 2:
            return None
        expected = np.add.reduceat(mean, starts)
        seen = np.add.reduceat(table, starts, axis=1)
        return _Shape(starts, expected, ((seen - expected) ** 2 / expected).sum(axis=1))


def _joined(expected: np.ndarray, enough: float) -> np.ndarray:
    """Where classes start when neighbours join until each expects ``enough``; a rest joins the last one."""
    starts, held, left = [0], 0.0, expected.sum()
    for number, each in enumerate(expected[:-1]):
        held, left = held + each, left - each
        if held >= enough - 1e-9 and left >= enough - 1e-9:
            starts.append(number + 1)
            held = 0.0
    return np.array(starts)


def _homogeneity(sizes: np.ndarray, rejected: np.ndarray) -> float:
    """Pearson's chi-square of homogeneity of texts of ``sizes`` [P] tokens, of which ``rejected`` [P]."""
    share = rejected.sum() / sizes.sum()
    expected = sizes * share
    return float(((rejected - expected) ** 2 / np.maximum(sizes, 1)).sum() / (share * (1 - share)))


# --- what could be hidden ---------------------------------------------------------------------------------------------


def _hidden_between(sizes: np.ndarray, acceptance: float, spread: np.ndarray, level: float) -> float:
    """SD between prompts: the larger of its upper 95 % bound and of what the spread shows with `POWER`.

    An intra-class correlation r of the agreements multiplies the spread by about 1 + (m - 1) r, where m is the mean
    number of tokens that the analysis of variance weighs texts with (Donner 1986).
    """
    tokens = sizes.sum()
    m = (tokens - (sizes**2).sum() / tokens) / max((sizes > 0).sum() - 1, 1)
    if m <= 1:
        return math.nan
    low, few, critical = np.quantile(spread, [LEVEL, 1 - POWER, 1 - level])
    factor = max(spread[0] / low, critical / few) if low > 0 else math.inf
    correlation = min((factor - 1) / (m - 1), 1.0)
    return math.sqrt(correlation * acceptance * (1 - acceptance))


def _hidden_within(shape: _Shape, edges: np.ndarray, acceptance: float, opening: float, level: float) -> float:
    """Correlation of neighbouring tokens (a Markov chain of this acceptance) that the shape shows with `POWER`.

    ``opening``: share of the runs that open a text, and follow no rejection.
    """
    found = np.quantile(shape.distance, 1 - level)
    coins = np.add.reduceat(_chances(edges, acceptance, opening, 0.0), shape.starts)

    def share(correlation: float) -> float:
        chances = np.add.reduceat(_chances(edges, acceptance, opening, correlation), shape.starts)
        away = (shape.expected * (chances / coins - 1) ** 2).sum()
        freedom = max(len(coins) - 2, 1)  # the acceptance is estimated
        return float((np.random.default_rng(1).noncentral_chisquare(freedom, away, 1000) > found).mean())

    return _first(lambda correlation: share(correlation) >= POWER, 1.0)


def _chances(edges: np.ndarray, acceptance: float, opening: float, correlation: float) -> np.ndarray:
    """Chance of each class of lengths of a run, float [C], in a Markov chain of agreements."""
    first = acceptance * (1 - (1 - opening) * correlation)  # agreement at the start of a run
    later = acceptance + correlation * (1 - acceptance)  # agreement after an agreement
    reached = np.concatenate(([1.0], first * later ** (edges - 1.0), [0.0]))
    return -np.diff(reached)


def _first(enough: Callable[[float], bool], most: float) -> float:
    """The smallest of a grid up to ``most`` (by bisection, 2 % apart) that is ``enough``; ``most`` if none is."""
    grid = most * np.geomspace(1e-4, 0.999, 466)
    low, high = 0, len(grid) - 1
    if not enough(grid[high]):
        return most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(grid[middle]) else (middle + 1, high)
    return float(grid[low])
