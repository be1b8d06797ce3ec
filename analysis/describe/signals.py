"""How well the recorded signals foretell whether the target will accept the draft's token.

A **score** is a signal turned so that more means "will be accepted" and so that it can be read as a probability:
confidence and margin as they are, entropy H (nats) as exp(-H), the inverse of the perplexity, which equals the
confidence of a draft that hesitates between equally likely tokens.  Scores are judged at positions of the target's
text: at all of them (`EVERY`), or only at those that the drafter of a policy reaches (`reached`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from analysis.intervals import RESAMPLES, Estimate, estimate, share_bands, sum_by, units
from oracle.records.trace import SIGNALS, Trace

EVERY = "every position"
BINS = 15  # equal stretches of [0, 1] for the calibration error (Guo et al. 2017)


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
    values = trace.need(signal, for_="judging this signal").astype(np.float64)
    return np.exp(-values) if signal == "entropy" else values


def recorded(trace: Trace) -> list[str]:
    """The signals that the trace has at each position."""
    return [signal for signal in SIGNALS if getattr(trace, signal) is not None]


def accepted_first(trace: Trace) -> np.ndarray:
    """Whether the first token drafted from each position is the target's, bool [N]."""
    return trace.outcomes.run > 0


def reached(trace: Trace, result) -> np.ndarray:
    """Positions where the drafter of a simulated policy stood on the target's own text, bool [N].

    ``result`` has int arrays prompt, position, drafted and accepted, one row an iteration.  The drafter sees the tokens
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
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[SignalQuality]:
    """Signals (None: those that the trace has) judged at the positions ``at`` (bool [N], None = all).

    ``positions`` names these in the result.  Raises ValueError for a signal that is unknown or lacking, or when no
    position is left.
    """
    keep = _kept(trace, at)
    names = recorded(trace) if names is None else names
    return [_quality(trace, signal, keep, positions, resamples, seed) for signal in names]


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

    Rank statistic of Mann and Whitney, ties counted half.  Interval: normal, with the variance of the placement values
    summed by prompt (Obuchowski 1997), since resampling would sort the whole trace again a thousand times.
    """
    return _area(values, stats.rankdata(values), outcome, prompt)


def _area(values: np.ndarray, ranks: np.ndarray, outcome: np.ndarray, prompt: np.ndarray) -> Estimate:
    positive, negative = int(outcome.sum()), int((~outcome).sum())
    if not positive or not negative:
        return Estimate(np.nan, np.nan, np.nan)
    placement = np.empty(len(values))  # share of the other class that each value is on the right side of
    placement[outcome] = (ranks[outcome] - stats.rankdata(values[outcome])) / negative
    placement[~outcome] = 1 - (ranks[~outcome] - stats.rankdata(values[~outcome])) / positive
    area = float(placement[outcome].mean())
    influence = (placement - area) / np.where(outcome, positive, negative)
    by_prompt = np.bincount(prompt, weights=influence)
    prompts = np.count_nonzero(np.bincount(prompt))
    if prompts < 2:
        return Estimate(area, np.nan, np.nan)
    half = 1.959963984540054 * float(np.sqrt((by_prompt**2).sum() * prompts / (prompts - 1)))
    return Estimate(area, max(area - half, 0.0), min(area + half, 1.0))


def _quality(trace: Trace, signal: str, keep: np.ndarray, positions: str, resamples: int, seed: int) -> SignalQuality:
    values, outcome, prompt = score(trace, signal)[keep], accepted_first(trace)[keep], trace.prompt_of[keep]
    ranks = stats.rankdata(values)
    area = _area(values, ranks, outcome, prompt)
    share = float(outcome.mean())
    # Spearman against a two-valued variable follows from the area and the spread of the (tied) ranks.
    spread = float(ranks.std())
    gap = (area.value - 0.5) * len(values)  # difference of the two classes' mean ranks
    spearman = gap * np.sqrt(share * (1 - share)) / spread if spread else float("nan")
    column = _bin(values, BINS)
    number = np.cumsum(np.diff(prompt, prepend=prompt[0]) > 0)  # prompts without a position kept are left out
    prompts = int(number.max()) + 1
    columns = np.stack([values - outcome, (values - outcome) ** 2, np.ones(len(values))], axis=1)
    cells = sum_by(number * BINS + column, columns, prompts * BINS).reshape(prompts, BINS, 3)
    distance, square, count = cells.transpose(2, 0, 1)
    table = np.concatenate([distance, square.sum(axis=1)[:, None], count.sum(axis=1)[:, None]], axis=1)
    return SignalQuality(
        signal, positions, len(values), share, area, float(spearman),
        calibration_error=estimate(table, lambda s: np.abs(s[..., :BINS]).sum(axis=-1) / s[..., -1], resamples, seed),
        brier=estimate(table, lambda s: s[..., -2] / s[..., -1], resamples, seed),
    )  # fmt: skip


def _bin(values: np.ndarray, bins: int) -> np.ndarray:
    return np.clip((values * bins).astype(np.int64), 0, bins - 1)


def _kept(trace: Trace, at: np.ndarray | None) -> np.ndarray:
    """Flat indices of the positions asked for, int64."""
    if at is None:
        return np.arange(trace.tokens)
    if at.shape != (trace.tokens,) or at.dtype != bool:
        raise ValueError(f"at must be bool of shape ({trace.tokens},), not {at.dtype} {at.shape}")
    if not at.any():
        raise ValueError("no position is left to judge the signals at; the policy never drafted anything")
    return np.flatnonzero(at)
