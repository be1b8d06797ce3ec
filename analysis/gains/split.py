"""The gain of an oracle over the best constant lookahead, beside what shuffled tokens would give, and its split.

An oracle knows each outcome beforehand, so it gains over a constant even where outcomes are coin flips.  Three parts
add up to its gain (``oracle:optimal`` over the constant that is best for all prompts, a ratio of seconds minus one):

- **coin**: the gain where all tokens are shuffled over all texts: agreement is as frequent, and knows no place;
- **between prompts**: the gain where tokens are shuffled within each text only, minus that of the coin;
- **within prompts**: the gain itself minus that of tokens shuffled within texts: what their order adds.

A token takes along what the draft said in its place.  The best constant is chosen anew for each shuffle, as it is for
the trace.  What a constant for each prompt gains is reported twice, with hindsight and *held out*: chosen on one half
of each text and judged on the other, in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.gains.halved import judged_by_halves, of_best
from analysis.gains.influence import around, of_ratio
from analysis.gains.rearranged import coin_orders, halves, movable, rearranged, whole_orders, within_orders
from analysis.intervals import Estimate, ratio
from analysis.replay.drafts import NotRecorded
from analysis.replay.oracles import OPTIMAL, ORACLES
from analysis.replay.simulate import simulate_totals
from analysis.replay.sweep import LENGTHS
from oracle.records.trace import Trace

SHUFFLES = (5, 40)  # fewest and most
REPLAYED = 120_000  # tokens replayed of each kind of shuffle, about
TOKENS = 50_000  # a trace of more is taken in a sample of its prompts
HINDSIGHT, HELD_OUT = "constant per prompt, hindsight", "constant per prompt, held out"
# Prompts that the part between them needs for an interval: it is a variance, and of fewer its interval misses low.
FEWEST = 10
FEWEST_OF_ALL = 5  # and every part: of fewer, a spread that happens to be small makes any of them look certain
_STEP = 0.02  # of the acceptance, to see how the coin's gain changes with it


@dataclass(frozen=True)
class Null:
    """A gain under shuffled tokens: mean and range over the shuffles."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Gain:
    """Gain over the best constant (or over one constant for all), 0.4 = 40 % faster, and under shuffled tokens."""

    what: str
    gain: Estimate  # interval over prompts
    within: Null  # tokens shuffled within each text
    whole: Null  # tokens shuffled over all texts


@dataclass(frozen=True)
class Split:
    """Parts of the gain of ``oracle:optimal``; ``coin``, ``between`` and ``within`` add up to it."""

    coin: Estimate
    between: Estimate
    within: Estimate
    beyond: Estimate  # between + within: what is no coin's


@dataclass(frozen=True)
class Gains:
    """Every gain beside its null, and the split of the oracle's."""

    gains: tuple[Gain, ...]
    split: Split
    persistence: Estimate  # covariance over prompts of the agreement in the halves of a text: 0 where prompts are alike
    shuffles: int
    prompts: int  # so many were replayed,
    of: int  # of so many

    def of_kind(self, what: str) -> Gain:
        """The gain of that name."""
        return next(each for each in self.gains if each.what == what)


def gains(trace: Trace, cost: CostModel, seed: int = 0) -> Gains | None:
    """The gains on ``trace`` at the prices ``cost``.

    None for a draft whose choices depend on where a round began (its tokens cannot be shuffled), and where no text has
    two tokens.  A trace of more than `TOKENS` is taken in a sample of its prompts, evenly spread.
    """
    sizes = np.diff(trace.offsets)
    if trace.rounds is not None or not np.any(sizes > 1):
        return None
    every = max(1, -(-int(sizes.sum()) // TOKENS))
    kept = np.flatnonzero(sizes > 1)[::every]
    sample = trace.select(np.isin(np.arange(trace.prompts), kept))
    shuffles = int(np.clip(REPLAYED // sample.tokens, *SHUFFLES))
    rng = np.random.default_rng(seed)
    as_is = np.arange(sample.tokens)[None]
    found = [
        _Replayed.of(sample, orders, cost)
        for orders in (as_is, within_orders(sample, shuffles, rng), whole_orders(sample, shuffles, rng))
    ]
    actual, within, whole = found
    rows = [_row(what, *(each.oracle(what) for each in found)) for what in (OPTIMAL, *sorted({*ORACLES} - {OPTIMAL}))]
    rows += [_row(HINDSIGHT, *(each.hindsight() for each in found))]
    rows += [_row(HELD_OUT, *(each.held_out() for each in found))]
    slope = _slope(sample, cost, shuffles, rng)
    split = _split(actual.oracle(OPTIMAL), within.oracle(OPTIMAL), whole.oracle(OPTIMAL), slope)
    return Gains(tuple(rows), split, _persistence(sample), shuffles, sample.prompts, trace.prompts)


@dataclass(frozen=True)
class _Ratios:
    """Gains in R arrangements of P texts, and the seconds that they are made of."""

    above: np.ndarray  # float [R, P], seconds of the baseline
    below: np.ndarray  # float [R, P]

    @property
    def gain(self) -> np.ndarray:
        """float [R]"""
        return self.above.sum(axis=1) / self.below.sum(axis=1) - 1

    @property
    def influence(self) -> np.ndarray:
        """Of each prompt on the mean gain, float [P]."""
        return of_ratio(self.above, self.below).mean(axis=0)

    def null(self) -> Null:
        gain = self.gain
        return Null(float(gain.mean()), float(gain.min()), float(gain.max()))


@dataclass(frozen=True)
class _Replayed:
    """Seconds of R arrangements of P texts."""

    constants: np.ndarray  # float [K, R, P]
    oracles: dict[str, np.ndarray]  # float [R, P]
    half_constants: np.ndarray  # float [K, R, P, 2], of each half of the texts

    @staticmethod
    def of(trace: Trace, orders: np.ndarray, cost: CostModel) -> _Replayed:
        shape = (len(orders), trace.prompts)
        whole = rearranged(trace, orders)
        seconds = _seconds(whole, [*_CONSTANTS, *ORACLES], cost)
        cut = _seconds(halves(whole), _CONSTANTS, cost)
        return _Replayed(
            constants=np.stack([seconds[name].reshape(shape) for name in _CONSTANTS]),
            oracles={name: seconds[name].reshape(shape) for name in ORACLES},
            half_constants=np.stack([cut[name].reshape(*shape, 2) for name in _CONSTANTS]),
        )

    def best_constant(self) -> np.ndarray:
        """Seconds under the constant that is best for all texts of the arrangement, float [R, P]."""
        return of_best(self.constants.sum(axis=2), self.constants)

    def oracle(self, name: str) -> _Ratios:
        return _Ratios(self.best_constant(), self.oracles[name])

    def hindsight(self) -> _Ratios:
        return _Ratios(self.best_constant(), self.constants.min(axis=0))

    def held_out(self) -> _Ratios:
        """Both directions together: each half of a text is judged under what the other half chose."""
        for_all, for_each = judged_by_halves(self.half_constants)
        return _Ratios(for_all.sum(axis=2), for_each.sum(axis=2))


_CONSTANTS = tuple(f"constant:tokens={tokens}" for tokens in LENGTHS)


def _seconds(trace: Trace, policies: tuple[str, ...] | list[str], cost: CostModel) -> dict[str, np.ndarray]:
    """Seconds of each text by policy, float [P]."""
    found = {}
    for number, each in simulate_totals(trace, policies, cost):
        if isinstance(each, NotRecorded):  # constants and oracles of a chain draft read nothing that could be lacking
            raise each
        found[policies[number]] = each.prompt_seconds
    return found


def _row(what: str, actual: _Ratios, within: _Ratios, whole: _Ratios) -> Gain:
    gain = ratio(actual.above[0], actual.below[0]).map(lambda end: end - 1)
    if what in (OPTIMAL, HINDSIGHT):  # on the same texts neither can be slower than the constant
        gain = gain.at_least(0)
    return Gain(what, gain, within.null(), whole.null())


def _slope(trace: Trace, cost: CostModel, shuffles: int, rng: np.random.Generator) -> np.ndarray:
    """Each prompt's influence on the coin's gain by way of the common acceptance, float [P]."""
    free = movable(trace)
    hits, count = (np.add.reduceat(values.astype(float), trace.offsets[:-1]) for values in (trace.agrees & free, free))
    rate = hits.sum() / count.sum()
    step = min(_STEP, rate / 2, (1 - rate) / 2)
    if step == 0:
        return np.zeros(trace.prompts)
    orders = coin_orders(trace, np.array([rate - step, rate + step]), shuffles, rng)
    below, above = (_oracle_gain(trace, each, cost).mean() for each in orders)
    return (above - below) / (2 * step) * of_ratio(hits, count)


def _oracle_gain(trace: Trace, orders: np.ndarray, cost: CostModel) -> np.ndarray:
    """Gain of the optimal oracle over the best constant in each arrangement, float [R]."""
    seconds = _seconds(rearranged(trace, orders), [*_CONSTANTS, OPTIMAL], cost)
    shape = (len(orders), trace.prompts)
    constants = np.stack([seconds[name].reshape(shape).sum(axis=1) for name in _CONSTANTS])
    return constants.min(axis=0) / seconds[OPTIMAL].reshape(shape).sum(axis=1) - 1


def _persistence(trace: Trace) -> Estimate:
    """Covariance over prompts of the share of agreement in the first and in the second half of a text.

    Where tokens hang together within texts, texts of prompts that are alike differ too, by more than coins; but then
    one half says little of the other.
    """
    free, first = movable(trace), trace.offsets[:-1]
    middle = first + np.diff(trace.offsets) // 2
    ends = np.stack([first, middle], axis=1).ravel()
    hits, count = (np.add.reduceat(values.astype(float), ends).reshape(-1, 2) for values in (trace.agrees & free, free))
    known = (count > 0).all(axis=1)
    share = hits[known] / count[known]
    products = (share - share.mean(axis=0)).prod(axis=1) if known.any() else np.zeros(1)
    value = products.sum() / max(len(products) - 1, 1)
    even = np.full(len(products), 1 / len(products))
    return around(value, (products - products.mean()) / len(products), even)


def _split(actual: _Ratios, within: _Ratios, whole: _Ratios, slope: np.ndarray) -> Split:
    gain = [float(each.gain.mean()) for each in (actual, within, whole)]
    influence = [actual.influence, within.influence, whole.influence + slope]
    shares = actual.below[0] / actual.below[0].sum()
    between = around(gain[1] - gain[2], influence[1] - influence[2], shares)
    coin = around(gain[2], influence[2], shares)
    order = around(gain[0] - gain[1], influence[0] - influence[1], shares)
    beyond = around(gain[0] - gain[2], influence[0] - influence[2], shares)
    if len(slope) < FEWEST:
        between = between.bare()
    if len(slope) < FEWEST_OF_ALL:
        coin, order, beyond = coin.bare(), order.bare(), beyond.bare()
    return Split(coin=coin, between=between, within=order, beyond=beyond)
