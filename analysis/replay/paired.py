"""Policies compared on the same prompts: the ratio of two, the group that may be the best, the best judged held out.

A prompt that is slow under one policy is slow under every other.  Taken prompt by prompt, most of that cancels: a ratio
of two policies is known far better than the speedup of either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.intervals import LEVEL, Estimate, ratio, weighed
from analysis.replay.result import Totals

# Parts of the prompts, each judged with the policy that is best on all others: two, which share no prompt in what chose
# for them.  Of more parts, each is judged by nearly the same choice, so that luck is shared: among equal policies a
# gain was then found in 8 % of samples instead of 2.5 %.
FOLDS = 2
FEWEST = 5  # prompts that a held-out best needs: of fewer, one prompt less changes what is chosen
_NOTHING = 1e-9  # logarithms of totals that differ by less are equal: what remains is rounding


@dataclass(frozen=True)
class HeldOut:
    """The best of many policies, chosen on one part of the prompts and judged on the rest, in turn for every part."""

    speedup: Estimate  # of what is chosen so, on prompts that had no part in the choice
    chosen: dict[str, int]  # policy -> in how many of the parts it was chosen, most often first
    seconds: np.ndarray  # float [P], price of each text under the policy chosen without it


def paired(baseline: Totals, other: Totals) -> Estimate:
    """Seconds of ``baseline`` over those of ``other`` on the same prompts: above 1 where ``other`` is faster.

    Both at the same prices, whose errors (where they are known) widen the interval as far as they do not cancel.
    """
    return ratio(baseline.prompt_seconds, other.prompt_seconds, log_variance=other.price_variance(baseline))


def simultaneous(baseline: Totals, others: Sequence[Totals], looks: int | None = None) -> list[Estimate]:
    """`paired` of each of ``others``, with intervals that hold for all of them at once in 95 % of samples.

    ``looks``: how many intervals are to hold at once, where these are not all (default: as many as ``others``).
    Bonferroni's bound on the t of the log ratio, which needs no estimate of how the policies hang together: of few
    prompts there is none that could be trusted.
    """
    logs, shares = _logs([baseline, *others])
    gain = logs[0] - logs[1:]
    reach = _beyond([baseline, *others], shares, (1 - LEVEL) / 2 / max(1, looks or len(others)), _from_first)[1:]
    with np.errstate(over="ignore"):  # of two or three prompts the upper end may be as good as infinite
        ends = np.exp([gain, gain - reach, gain + reach]).T
    return [Estimate(*map(float, row)) for row in ends]


def may_be_best(tried: Sequence[Totals]) -> tuple[Totals, ...]:
    """Those of ``tried`` that are not distinguishable from the best, in the order given.

    With 95 % confidence the policy that is best over all prompts of this kind is among them, however many are tried:
    each is compared with all others at once, and left out where one of them is faster beyond what chance explains
    (multiple comparisons with the best: Hsu, Multiple Comparisons, 1996, chapter 4; here by Bonferroni's bound).
    """
    logs, shares = _logs(tried)
    if shares.shape[1] < 2:
        return tuple(tried)
    behind = logs[:, None] - logs[None, :]
    beyond = _beyond(tried, shares, (1 - LEVEL) / max(1, len(tried) - 1), _apart)
    beaten = np.any(behind > np.maximum(beyond, _NOTHING), axis=1)
    return tuple(tried[number] for number in np.flatnonzero(~beaten).tolist())


def held_out(tried: Sequence[Totals], folds: int = FOLDS, seed: int = 0) -> HeldOut | None:
    """The best of ``tried`` judged on prompts that it was not chosen on; None below `FEWEST` prompts.

    The prompts are dealt at random (always alike) into ``folds`` parts.
    """
    seconds = np.stack([each.prompt_seconds for each in tried])
    prompts = seconds.shape[1]
    if prompts < FEWEST:
        return None
    folds = min(folds, prompts)
    part = parts(prompts, folds, seed)
    sums = np.stack([seconds[:, part == number].sum(axis=1) for number in range(folds)])
    best = (sums.sum(axis=0) - sums).argmin(axis=1)
    judged = seconds[best[part], np.arange(prompts)]
    count = np.bincount(best, minlength=len(tried))
    often = sorted(np.flatnonzero(count).tolist(), key=lambda number: -count[number])
    chosen = {tried[number].policy: int(count[number]) for number in often}
    return HeldOut(ratio(tried[0].plain_seconds, judged), chosen, judged)


def parts(prompts: int, folds: int = FOLDS, seed: int = 0) -> np.ndarray:
    """The part that each prompt is dealt into, int64 [P] from 0 to ``folds`` - 1: at random, always alike."""
    return np.random.default_rng(seed).permutation(prompts) % folds


def _reach(freedom: float, tail: float) -> tuple[float, float]:
    """How many standard errors an interval reaches to a side where it leaves out ``tail``: by t, by the normal."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(freedom, 1 - tail)), float(ndtri(1 - tail))


def _logs(tried: Sequence[Totals]) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the totals, float [K], and each prompt's share of them, float [K, P]."""
    seconds = np.stack([each.prompt_seconds for each in tried])
    total = seconds.sum(axis=1)
    return np.log(total), seconds / total[:, None]


def _beyond(
    tried: Sequence[Totals], shares: np.ndarray, tail: float, apart: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """How far log ratios may lie beside 0 by chance, float as ``apart`` (of whom to whom) answers; NaN for one prompt.

    The half widths from the prompts (t) and from the prices (normal) are added as in ``analysis.intervals``.
    """
    if shares.shape[1] < 2:
        return np.full_like(apart(shares), np.nan)
    mean = shares.mean(axis=0)
    _, free = weighed(np.zeros((len(mean), 1)), mean[:, None])
    by_prompts, by_prices = _reach(float(free[0]), tail)
    variance = apart((shares - mean) / np.sqrt(1 - mean))
    prices = apart(np.stack([each.shifts for each in tried]))
    return np.sqrt(by_prompts**2 * variance + by_prices**2 * prices)


def _from_first(rows: np.ndarray) -> np.ndarray:
    """Sum of the squares of the difference of every row from the first, float [K]."""
    return ((rows - rows[0]) ** 2).sum(axis=1)


def _apart(rows: np.ndarray) -> np.ndarray:
    """Sum of the squares of the difference of every two rows, float [K, K]."""
    product = rows @ rows.T
    own = np.diag(product)
    return np.maximum(own[:, None] + own[None, :] - 2 * product, 0)
