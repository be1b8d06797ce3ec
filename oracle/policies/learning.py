"""Policies that move their threshold with the outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, share
from oracle.policies.thresholds import check_tokens


class RocState(NamedTuple):
    threshold: np.ndarray  # float64 [lanes]
    outcomes: np.ndarray  # uint32 [lanes, width], sorted: see `_outcomes`; 0 where there is none
    count: np.ndarray  # int64 [lanes], outcomes there


@dataclass(frozen=True)
class Roc(Policy):
    """`dynamic` whose threshold is refitted after each iteration of a call (transformers with scikit-learn installed).

    With more than five outcomes of both kinds, threshold = argmin(false positive rate + 3 * false negative rate).
    The refit itself takes a millisecond or two of a processor: measured runs hold it, no price does.
    """

    source: ClassVar[str] = "Transformers, where scikit-learn is installed"
    found_in: ClassVar[tuple[str, ...]] = ("transformers",)

    tokens: int = 20
    threshold: float = 0.4

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        share("threshold", self.threshold, off=" (off)")

    def start(self, lanes: int, cost: Prices | None = None) -> RocState:
        return RocState(
            np.full(lanes, float(self.threshold)), np.zeros((lanes, 0), np.uint32), np.zeros(lanes, np.int64)
        )

    def budget(self, state: RocState) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: RocState) -> np.ndarray | None:
        # A threshold of 0 means that the criterion is off, and nothing is refitted.
        return signals.confidence < state.threshold if self.threshold > 0 else None

    def update(self, state: RocState, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> RocState:
        if self.threshold == 0:
            return state
        known = np.minimum(accepted + 1, drafted)  # tokens after the first rejection tell nothing
        outcomes = np.concatenate([state.outcomes, _outcomes(signals.confidence, accepted, known)], axis=1)
        outcomes.sort(axis=1)
        count = state.count + known
        outcomes = outcomes[:, outcomes.shape[1] - int(count.max(initial=0)) :]  # empty ones come first
        return RocState(roc_thresholds(outcomes, count, state.threshold), outcomes, count)


class RocCalls(NamedTuple):
    threshold: np.ndarray  # float64 [lanes], which stops the drafts now
    outcomes: np.ndarray  # of this call, as in `RocState`
    count: np.ndarray
    refitted: np.ndarray  # float64 [lanes], with which the next call begins
    at_once: np.ndarray  # bool [lanes], whether what is refitted acts in this call too


@dataclass(frozen=True)
class RocNextCall(Roc):
    """`roc` whose refitted threshold acts in the next call only: the order of prompts matters (transformers 4.47)."""

    source: ClassVar[str] = "Transformers 4.47 to 4.49, where scikit-learn is installed"
    found_in: ClassVar[tuple[str, ...]] = ("transformers 4.47 to 4.49",)

    def start(self, lanes: int, cost: Prices | None = None) -> RocCalls:
        return self._call(np.full(lanes, float(self.threshold)))

    def update(self, state: RocCalls, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> RocCalls:
        before = RocState(state.refitted, state.outcomes, state.count)  # too few outcomes leave the last one
        refitted, outcomes, count = super().update(before, drafted, accepted, signals)
        threshold = np.where(state.at_once, refitted, state.threshold)
        return RocCalls(threshold, outcomes, count, refitted, state.at_once)

    def next_prompt(self, state: RocCalls) -> RocCalls:
        return self._call(state.refitted)

    def _call(self, threshold: np.ndarray) -> RocCalls:
        lanes = len(threshold)
        nothing = np.zeros((lanes, 0), np.uint32), np.zeros(lanes, np.int64)
        return RocCalls(threshold, *nothing, threshold, self._acts_at_once(threshold))

    def _acts_at_once(self, threshold: np.ndarray) -> np.ndarray:
        """Whether what is refitted acts in a call that begins with this threshold (float [lanes]), bool [lanes]."""
        return np.zeros(len(threshold), bool)


@dataclass(frozen=True)
class RocFallback(RocNextCall):
    """`roc` that acts at once in a call that begins with 0.4, else in the next call (transformers 4.50 to 4.57).

    There a draft's settings that equal the library's default give way to those that its config holds meanwhile.
    """

    source: ClassVar[str] = "Transformers 4.50 to 4.57, where scikit-learn is installed"
    found_in: ClassVar[tuple[str, ...]] = ("transformers 4.50 to 4.57",)

    def _acts_at_once(self, threshold: np.ndarray) -> np.ndarray:
        return threshold == 0.4


def _outcomes(confidence: np.ndarray, accepted: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Outcomes as numbers that sort by confidence, uint32 [lanes, width]: its bits, then one bit for "it matched".

    A confidence that is not negative orders like its bits; the sign bit that makes room for the outcome is always 0.
    """
    size = int(known.max(initial=0))
    k = np.arange(size)
    bits = np.ascontiguousarray(confidence[:, :size], np.float32).view(np.uint32) << np.uint32(1)
    return np.where(k < known[:, None], bits | (k < accepted[:, None]), 0).astype(np.uint32)


def roc_thresholds(outcomes: np.ndarray, count: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Refitted threshold of each lane, float [lanes]: ``before`` where there are not yet six outcomes of both kinds.

    ``outcomes`` as in `RocState`.  The points are those of a receiver operating characteristic with collinear ones
    dropped, and ties go to the highest threshold, as scikit-learn's ``roc_curve`` followed by ``argmin`` does it.
    """
    positives = (outcomes & np.uint32(1)).sum(axis=1, dtype=np.int64)
    ready = (count > 5) & (positives > 0) & (positives < count)
    if not ready.any():
        return before
    # In whole numbers the least cost is sure; where several points share it, the rule's own rounding decides.
    cost = _whole_costs(outcomes, count, positives)
    at = cost.argmin(axis=1)
    shared = ready & ((cost == cost[np.arange(len(at)), at][:, None]).sum(axis=1) > 1)
    after = np.where(ready, (outcomes[np.arange(len(at)), at] >> np.uint32(1)).view(np.float32), before)
    if shared.any():
        after[shared] = _first_of_ties(outcomes[shared], count[shared], positives[shared])
    return after


def _points(outcomes: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The lowest place of each distinct confidence, bool like ``outcomes``: a threshold there takes all from it on."""
    empty = outcomes.shape[1] - count  # they come first, and look like a refused confidence of 0
    point = np.zeros(outcomes.shape, bool)
    point[:, 1:] = (outcomes[:, 1:] ^ outcomes[:, :-1]) > 1  # they differ in more than the last bit
    point[np.arange(len(count)), np.minimum(empty, outcomes.shape[1] - 1)] = True
    return point


def _whole_costs(outcomes: np.ndarray, count: np.ndarray, positives: np.ndarray) -> np.ndarray:
    """The cost of a threshold at each place times both class sizes, up to a constant of the lane; int [lanes, width].

    With P positives, N negatives and m positives below a place of w outcomes: w P + m (P + 3 N).  The largest number
    there is stands where no threshold does.
    """
    width = outcomes.shape[1]
    kind = np.int32 if width < 2**14 else np.int64  # no cost is above 4 width^2
    good = (outcomes & np.uint32(1)).astype(kind)
    below = np.cumsum(good, axis=1, dtype=kind)
    below -= good
    each, weight = positives.astype(kind)[:, None], (3 * count - 2 * positives).astype(kind)[:, None]
    below *= weight
    below += np.arange(width, 0, -1, dtype=kind) * each
    below[~_points(outcomes, count)] = np.iinfo(kind).max
    return below


def _first_of_ties(outcomes: np.ndarray, count: np.ndarray, positives: np.ndarray) -> np.ndarray:
    """The refitted threshold of each lane, step by step in the rule's own arithmetic, float32 [lanes]."""
    width = outcomes.shape[1]
    good = (outcomes & np.uint32(1)).astype(np.int64)
    lower = np.cumsum(good, axis=1)
    lane, at = np.nonzero(_points(outcomes, count))
    true_positives = positives[lane] - lower[lane, at] + good[lane, at]
    false_positives = width - at - true_positives
    changes = lane[1:] != lane[:-1]
    kept = np.append(True, changes) | np.append(changes, True)
    kept[1:-1] |= (np.diff(false_positives, 2) != 0) | (np.diff(true_positives, 2) != 0)
    lane, at, true_positives, false_positives = lane[kept], at[kept], true_positives[kept], false_positives[kept]
    false_rate = false_positives / (count - positives)[lane]
    cost = false_rate + 3 * (1 - true_positives / positives[lane])
    begin = np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))
    least = np.repeat(np.minimum.reduceat(cost, begin), np.diff(np.append(begin, len(lane))))
    best = np.flatnonzero(cost == least)
    best = best[np.append(lane[best][1:] != lane[best][:-1], True)]  # the highest of each lane
    return (outcomes[lane[best], at[best]] >> np.uint32(1)).view(np.float32)


class Level(NamedTuple):
    threshold: np.ndarray  # float64 [lanes]
    rate: np.ndarray  # float64 [lanes], smoothed share of drafted tokens that were accepted


@dataclass(frozen=True)
class AdaEDL(Policy):
    """Stop after a token with 1 - sqrt(0.2 * entropy) below a threshold that follows the accepted share (AdaEDL)."""

    source: ClassVar[str] = "Agrawal et al., arXiv 2410.18351"

    tokens: int = 16
    threshold: float = 0.4
    target: float = 0.9
    step: float = 0.01

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        for name in ("threshold", "target", "step"):
            share(name, getattr(self, name))

    def start(self, lanes: int, cost: Prices | None = None) -> Level:
        return Level(np.full(lanes, float(self.threshold)), np.zeros(lanes))

    def budget(self, state: Level) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: Level) -> np.ndarray:
        return 1 - np.sqrt(0.2 * signals.entropy.astype(np.float64)) < state.threshold

    def update(self, state: Level, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Level:
        rate = 0.5 * state.rate + 0.5 * (accepted / np.maximum(drafted, 1))
        shift = np.where(rate < self.target, self.step, np.where(accepted != self.tokens, -self.step, 0.0))
        return Level(0.9 * state.threshold + 0.1 * (state.threshold + shift), rate)
