"""Policies compared on the same prompts: the ratio of two, the group that may be the best, the best judged held out.

A prompt that is slow under one policy is slow under every other.  Taken prompt by prompt, most of that cancels: a ratio
of two policies is known far better than the speedup of either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.intervals import LEVEL, Estimate, ratio
from analysis.replay.result import Totals

FOLDS = 10  # parts of the prompts, each judged with the policy that is best on all others
FEWEST = 5  # prompts that a held-out best needs: of fewer, one prompt less changes what is chosen
MOST = 10_000_000  # prompts that are ever said to be needed
_NOTHING = 1e-9  # logarithms of totals that differ by less are equal: what remains is rounding


@dataclass(frozen=True)
class HeldOut:
    """The best of many policies, chosen on one part of the prompts and judged on the rest, in turn for every part."""

    speedup: Estimate  # of what is chosen so, on prompts that had no part in the choice
    chosen: dict[str, int]  # policy -> in how many of the parts it was chosen, most often first
    seconds: np.ndarray  # float [P], price of each text under the policy chosen without it


def paired(baseline: Totals, other: Totals) -> Estimate:
    """Seconds of ``baseline`` over those of ``other`` on the same prompts: above 1 where ``other`` is faster."""
    return ratio(baseline.prompt_seconds, other.prompt_seconds)


def simultaneous(baseline: Totals, others: Sequence[Totals]) -> list[Estimate]:
    """`paired` of each of ``others``, with intervals that hold for all of them at once in 95 % of samples.

    Bonferroni's bound on the t of the log ratio, which needs no estimate of how the policies hang together: of few
    prompts there is none that could be trusted.
    """
    logs, residuals = _logs([baseline, *others])
    gain, error = logs[0] - logs[1:], _errors(residuals)[0, 1:]
    reach = error * _reach(residuals.shape[1] - 1, (1 - LEVEL) / 2 / max(1, len(others)))
    ends = np.exp([gain, gain - reach, gain + reach]).T
    return [Estimate(*map(float, row)) for row in ends]


def may_be_best(tried: Sequence[Totals]) -> tuple[Totals, ...]:
    """Those of ``tried`` that are not distinguishable from the best, in the order given.

    With 95 % confidence the policy that is best over all prompts of this kind is among them, however many are tried:
    each is compared with all others at once, and left out where one of them is faster beyond what chance explains
    (multiple comparisons with the best: Hsu, Multiple Comparisons, 1996, chapter 4; here by Bonferroni's bound).
    """
    logs, residuals = _logs(tried)
    if residuals.shape[1] < 2:
        return tuple(tried)
    behind, error = logs[:, None] - logs[None, :], _errors(residuals)
    beyond = error * _reach(residuals.shape[1] - 1, (1 - LEVEL) / max(1, len(tried) - 1))
    beaten = (behind > np.maximum(beyond, _NOTHING)).any(axis=1)
    return tuple(each for each, out in zip(tried, beaten, strict=True) if not out)


def held_out(tried: Sequence[Totals], folds: int = FOLDS, seed: int = 0) -> HeldOut | None:
    """The best of ``tried`` judged on prompts that it was not chosen on; None below `FEWEST` prompts.

    The prompts are dealt at random (always alike) into ``folds`` parts.
    """
    seconds = np.stack([each.prompt_seconds for each in tried])
    prompts = seconds.shape[1]
    if prompts < FEWEST:
        return None
    folds = min(folds, prompts)
    part = np.random.default_rng(seed).permutation(prompts) % folds
    sums = np.stack([seconds[:, part == number].sum(axis=1) for number in range(folds)])
    best = (sums.sum(axis=0) - sums).argmin(axis=1)
    judged = seconds[best[part], np.arange(prompts)]
    count = np.bincount(best, minlength=len(tried))
    often = sorted(np.flatnonzero(count), key=lambda number: -count[number])
    chosen = {tried[number].policy: int(count[number]) for number in often}
    return HeldOut(ratio(tried[0].plain_seconds, judged), chosen, judged)


def within(found: Estimate) -> float:
    """How far the interval reaches from the number, as a share of it: .08 for "to within 8 %"; NaN without interval."""
    return max(found.high / found.value - 1, found.value / found.low - 1)


def prompts_for(above: np.ndarray, below: np.ndarray, share: float) -> int | None:
    """How many prompts like these (seconds, float [P] each) give a ratio of totals to ``within`` that ``share``.

    From the spread of the linearised log ratio over the prompts that there are.  None for a single prompt, whose spread
    is not known, and where more than `MOST` would be needed.
    """
    prompts = len(above)
    if prompts < 2:
        return None
    spread = float(np.std(prompts * (above / above.sum() - below / below.sum()), ddof=1))

    def enough(count: int) -> bool:
        return _reach(count - 1) * spread <= math.log1p(share) * math.sqrt(count)

    most = 2
    while not enough(most):
        most *= 2
        if most > MOST:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def _reach(freedom: int, tail: float = (1 - LEVEL) / 2) -> float:
    """How many standard errors an interval reaches to the side where it leaves out ``tail``; NaN without freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - tail)) if freedom else math.nan


def _logs(tried: Sequence[Totals]) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the totals, float [K], and each prompt's part in them less the mean part, float [K, P]."""
    seconds = np.stack([each.prompt_seconds for each in tried])
    total = seconds.sum(axis=1)
    return np.log(total), seconds * seconds.shape[1] / total[:, None] - 1


def _errors(residuals: np.ndarray) -> np.ndarray:
    """Standard error of the log ratio of every two, float [K, K]; NaN for one prompt."""
    prompts = residuals.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        product = residuals @ residuals.T / np.float64((prompts - 1) * prompts)
    own = np.diag(product)
    return np.sqrt(np.maximum(own[:, None] + own[None, :] - 2 * product, 0))
