"""How well the recorded signals foretell whether the target will accept the draft's token.

A **score** is a signal turned so that more means "will be accepted" and so that it can be read as a probability:
confidence and margin as they are, entropy H (nats) as exp(-H), the inverse of the perplexity, which equals the
confidence of a draft that hesitates between equally likely tokens.  Scores are judged at positions of the target's
text: at all of them (`EVERY`), or only at those that the drafter of a policy reaches (`reached`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from analysis.describe.calibration import calibration_error
from analysis.intervals import Estimate, ratio, share_bands, sum_by, t_975, units
from oracle.records.selection import parts
from oracle.records.trace import SIGNALS, Trace

EVERY = "every position"
NO_AREA = Estimate(np.nan, np.nan, np.nan)
_BLOCK = 1_000_000  # distinct scores that are shared out to prompts at a time: bounds the memory
BINS = 15  # equal stretches of [0, 1] for the calibration error (Guo et al. 2017)


class Iterations(Protocol):
    """What is read of a simulation's result: int arrays, one row an iteration."""

    @property
    def prompt(self) -> np.ndarray: ...
    @property
    def position(self) -> np.ndarray: ...
    @property
    def drafted(self) -> np.ndarray: ...
    @property
    def accepted(self) -> np.ndarray: ...


@dataclass(frozen=True)
class SignalQuality:
    """One signal as a predictor of acceptance.  AUC and Spearman are NaN where only one outcome occurs."""

    signal: str
    positions: str  # which positions: EVERY, or the policy whose drafter reaches them
    count: int
    accepted: float  # share of these positions where draft and target agree
    auc: Estimate  # chance that an accepted token scores higher than a refused one, ties counted half
    spearman: float  # rank correlation of score and acceptance
    calibration_error: Estimate  # mean distance between score and share accepted, over 15 bins, weighted by count
    brier: Estimate  # mean squared distance between score and outcome (1 accepted, 0 refused)
    calibration_if_perfect: float = float("nan")  # what a perfectly calibrated score would show here


@dataclass(frozen=True)
class Reliability:
    """Share accepted by score: one entry a non-empty bin, J of them."""

    score: np.ndarray  # float [J], mean score in the bin
    accepted: np.ndarray  # float [J]
    low: np.ndarray  # float [J], 95 % band
    high: np.ndarray  # float [J]
    count: np.ndarray  # int64 [J]
    edges: np.ndarray  # float [J, 2], the bin


def score(trace: Trace, signal: str) -> np.ndarray:
    """The score of ``signal`` at every position, float64 [N].

    Raises ValueError for an unknown signal, or for one that the trace lacks.
    """
    if signal not in SIGNALS:
        raise ValueError(f"signal must be one of {', '.join(SIGNALS)}, not {signal!r}")
    return _score(signal, trace.need(signal, for_="judging this signal"))


def _score(signal: str, values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64)
    return np.exp(-values) if signal == "entropy" else values


def recorded(trace: Trace) -> list[str]:
    """The signals that the trace has at each position."""
    return [signal for signal in SIGNALS if getattr(trace, signal) is not None]


def accepted_first(trace: Trace) -> np.ndarray:
    """Whether the first token drafted from each position is the target's, bool [N]; taken in parts, to save memory."""
    return np.concatenate([part.outcomes.run > 0 for part in parts(trace)])


def reached(trace: Trace, result: Iterations) -> np.ndarray:
    """Positions where the drafter of a simulated policy stood on the target's own text, bool [N].

    The drafter sees the tokens
    that were accepted and the first refused one; what it drafts after that continues a text of its own.
    """
    start = trace.offsets[result.prompt] + result.position
    seen = np.minimum(result.drafted, result.accepted + 1)
    step = np.zeros(trace.tokens + 1, dtype=np.int64)
    np.add.at(step, start, 1)
    np.add.at(step, start + seen, -1)
    return np.cumsum(step[:-1]) > 0


def signal_quality(
    trace: Trace,
    at: np.ndarray | None = None,
    positions: str = EVERY,
    names: Sequence[str] | None = None,
) -> list[SignalQuality]:
    """Signals (None: those that the trace has) judged at the positions ``at`` (bool [N], None = all).

    ``positions`` names these in the result.  Raises ValueError for a signal that is unknown or lacking, or when no
    position is left.
    """
    keep = _kept(trace, at)
    names = recorded(trace) if names is None else names
    outcome = accepted_first(trace)[keep]
    prompt = np.repeat(np.arange(trace.prompts), np.diff(trace.offsets))[keep]
    number = np.cumsum(np.diff(prompt, prepend=prompt[0]) > 0)  # prompts without a position kept are left out
    return [
        _quality(
            signal,
            positions,
            score(trace, signal)[keep],
            getattr(trace, signal)[keep],
            outcome,
            number,
        )
        for signal in names
    ]


def reliability(
    trace: Trace, signal: str = "confidence", at: np.ndarray | None = None, bins: int = BINS
) -> Reliability:
    """Share of accepted tokens in ``bins`` equal stretches of the score, bands widened by the clustering in prompts."""
    keep = _kept(trace, at)
    values, outcome = score(trace, signal)[keep], accepted_first(trace)[keep]
    unit = units(trace.prompts)[trace.prompt_of[keep]]
    shape = (int(unit.max()) + 1, bins)
    column = _bin(values, bins)
    columns = np.stack([np.ones(len(values)), values, outcome.astype(float)], axis=1)
    count, total, hits = sum_by(unit * bins + column, columns, shape[0] * bins).T.reshape(3, *shape)
    low, high = share_bands(hits, count)
    n = count.sum(axis=0)
    full = n > 0
    edges = np.stack([np.arange(bins), np.arange(1, bins + 1)], axis=1) / bins
    mean, share = total.sum(axis=0)[full] / n[full], hits.sum(axis=0)[full] / n[full]
    return Reliability(mean, share, low[full], high[full], n[full].astype(np.int64), edges[full])


def roc_curve(
    trace: Trace, signal: str, at: np.ndarray | None = None, points: int = 400
) -> tuple[np.ndarray, np.ndarray]:
    """Share of refused and of accepted tokens whose score reaches a falling threshold, float [J] each, from 0 to 1.

    At most about ``points`` thresholds are kept, spread evenly over the positions.  NaN where one outcome never occurs.
    """
    keep = _kept(trace, at)
    values, outcome = score(trace, signal)[keep], accepted_first(trace)[keep]
    order = np.argsort(-values, kind="stable")
    values, outcome = values[order], outcome[order]
    last = np.append(np.flatnonzero(np.diff(values)), len(values) - 1)  # last of each group of equal scores
    picked = last[np.unique(np.searchsorted(last, np.linspace(0, len(values) - 1, points)))]
    hits = np.append(0, np.cumsum(outcome)[picked])
    seen = np.append(0, picked + 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (seen - hits) / (seen - hits)[-1], hits / hits[-1]


def auc(values: np.ndarray, outcome: np.ndarray, prompt: np.ndarray) -> Estimate:
    """Area under the ROC curve of ``values`` (float [n]) for ``outcome`` (bool [n]), clustered by ``prompt`` (int [n]).

    Rank statistic of Mann and Whitney, ties counted half.  Interval: Student's t, with the variance of the placement
    values summed by prompt (Obuchowski 1997), since resampling would sort the whole trace again a thousand times.
    """
    if np.isnan(values).any():
        return NO_AREA
    distinct, codes = np.unique(values, return_inverse=True)
    return _area(_ranked(codes.astype(np.uint32), distinct.__getitem__, outcome, prompt))


@dataclass(frozen=True)
class _Ranked:
    """Scores in rising order, gathered in groups of equal ones, G of them."""

    accepted: np.ndarray  # bool [n], whether the token at a place in the order was
    prompt: np.ndarray  # uint32 [n], whose it is
    first: np.ndarray  # int64 [G], place in the order at which a group begins
    size: np.ndarray  # int64 [G]
    hits: np.ndarray  # int64 [G], accepted ones among them

    @property
    def spread(self) -> float:
        """Standard deviation of the ranks, ties sharing their mean rank."""
        n = len(self.accepted)
        rank = self.first + (self.size - n) / 2  # from the middle of all ranks
        return float(np.sqrt((rank**2 @ self.size) / n))


def _ranked(
    codes: np.ndarray, score_of: Callable[[np.ndarray], np.ndarray], outcome: np.ndarray, prompt: np.ndarray
) -> _Ranked:
    """The scores of ``codes`` (uint32 [n]), which rise with them; ``outcome`` bool [n], ``prompt`` int64 [n]."""
    # Sorting numbers that hold all there is to know of a token is several times quicker than sorting places, and what
    # comes next need not be looked up all over the memory.  32 bits of code, 1 of outcome, 31 of prompt.
    packed = codes.astype(np.uint64) << np.uint64(32)
    packed |= outcome.astype(np.uint64) << np.uint64(31)
    packed |= prompt.astype(np.uint64)
    packed.sort()
    ordered = score_of((packed >> np.uint64(32)).astype(np.uint32))
    low = packed.astype(np.uint32)
    del packed
    accepted = low >> np.uint32(31) == 1
    first = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    size = np.diff(first, append=len(ordered))
    hits = np.add.reduceat(accepted, first, dtype=np.int64)
    return _Ranked(accepted, low & np.uint32(2**31 - 1), first, size, hits)


def _codes(values: np.ndarray) -> np.ndarray:
    """Numbers that rise with ``values`` (float32 [n], no NaN), uint32 [n]; `_decoded` is the way back."""
    bits = (values + np.float32(0)).view(np.uint32)  # the sum makes 0 of -0
    negative = bits >> np.uint32(31) == 1
    return np.where(negative, ~bits, bits | np.uint32(2**31))


def _decoded(codes: np.ndarray) -> np.ndarray:
    positive = codes >> np.uint32(31) == 1
    return np.where(positive, codes & np.uint32(2**31 - 1), ~codes).view(np.float32)


def _area(ranked: _Ranked) -> Estimate:
    """See `auc`.  A placement is the share of the other class that a score is on the right side of, ties count half."""
    positive = int(ranked.hits.sum())
    negative = len(ranked.accepted) - positive
    if not positive or not negative:
        return NO_AREA
    misses = ranked.size - ranked.hits
    above = (np.cumsum(misses) - misses / 2) / negative  # placement of an accepted token in each group
    below = 1 - (np.cumsum(ranked.hits) - ranked.hits / 2) / positive  # and of a refused one
    area = float(above @ ranked.hits) / positive
    by_prompt = _by_prompt(ranked, (above - area) / positive, (below - area) / negative)
    prompts = int(np.count_nonzero(np.bincount(ranked.prompt)))
    if prompts < 2:
        return Estimate(area, np.nan, np.nan)
    half = float(t_975(prompts - 1)) * float(np.sqrt((by_prompt**2).sum() * prompts / (prompts - 1)))
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0))


def _by_prompt(ranked: _Ranked, accepted: np.ndarray, refused: np.ndarray) -> np.ndarray:
    """Sums by prompt of what each accepted and each refused token of a group brings, float [G] both."""
    total = np.zeros(int(ranked.prompt.max()) + 1)
    for start in range(0, len(ranked.size), _BLOCK):
        groups = slice(start, start + _BLOCK)
        size, begin = ranked.size[groups], int(ranked.first[start])
        at = slice(begin, begin + int(size.sum()))
        brought = np.where(ranked.accepted[at], np.repeat(accepted[groups], size), np.repeat(refused[groups], size))
        total += np.bincount(ranked.prompt[at], weights=brought, minlength=len(total))
    return total


def _quality(
    signal: str,
    positions: str,
    values: np.ndarray,
    recorded: np.ndarray,
    outcome: np.ndarray,
    prompt: np.ndarray,
) -> SignalQuality:
    """``values`` float [n], of what is ``recorded`` float32 [n]; ``outcome`` bool [n], ``prompt`` int64 [n] gapless."""
    ranked = None
    if not np.isnan(values).any():  # which has no rank
        sign = np.float32(-1 if signal == "entropy" else 1)  # so that more is the higher score
        codes = _codes(sign * recorded)
        ranked = _ranked(codes, lambda codes: _score(signal, sign * _decoded(codes)), outcome, prompt)
        del codes
    area, share = NO_AREA if ranked is None else _area(ranked), float(outcome.mean())
    # Spearman against a two-valued variable follows from the area and the spread of the (tied) ranks.
    gap = (area.value - 0.5) * len(values)  # difference of the two classes' mean ranks
    spread = ranked.spread if ranked is not None else 0.0
    del ranked  # as large as everything else together
    spearman = gap * np.sqrt(share * (1 - share)) / spread if spread else float("nan")
    prompts = int(prompt[-1]) + 1
    cell = prompt * BINS + _bin(values, BINS)
    wrong = values - outcome
    distance, square, count = (
        np.bincount(cell, weights=weights, minlength=prompts * BINS).reshape(prompts, BINS)
        for weights in (wrong, wrong**2, None)
    )
    error, if_perfect = calibration_error(distance, count.sum(axis=1))
    brier = ratio(square.sum(axis=1), count.sum(axis=1).astype(float)).at_most(1)
    return SignalQuality(signal, positions, len(values), share, area, float(spearman), error, brier, if_perfect)


def _bin(values: np.ndarray, bins: int) -> np.ndarray:
    return np.clip((values * bins).astype(np.int64), 0, bins - 1)


def _kept(trace: Trace, at: np.ndarray | None) -> np.ndarray | slice:
    """Index of the positions asked for."""
    if at is None:
        return slice(None)
    if at.shape != (trace.tokens,) or at.dtype != bool:
        raise ValueError(f"at must be bool of shape ({trace.tokens},), not {at.dtype} {at.shape}")
    if not at.any():
        raise ValueError("no position is left to judge the signals at; the policy never drafted anything")
    return at
