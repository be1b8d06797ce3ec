"""Where the variance of the oracle SL comes from, and how iterations of a prompt hang together.

The variance of run lengths is large even where nothing varies: coin flips have long and short runs too.  What says
something is the *excess*, found by dealing the trace's own agreements (whether draft and target say the same at a
token) anew, all orders being equally likely: over the whole trace, where only the coin is left, and within each prompt,
where it is also left that prompts differ.  Expected sums of squares are exact, no draws are made:

    variance = coin + between prompts + within prompts,
    coin = dealt over the whole trace, coin + between = dealt within prompts.

Under i.i.d. acceptance ``between`` and ``within`` have mean 0 at any number of prompts, for both conditional means are
those of the data's own counts; where each prompt has a rate of its own, ``within`` has mean 0.  (An intra-class
correlation of the iterations does not: a text of a given length has few iterations where they are long, which alone
makes it +.12 at 64 tokens and a rate of .8.)  ``between`` holds what a prompt's realised rate differs by, and so a part
of long bursts too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.intervals import Estimate, jackknife, smooth, sum_by, units

_BLOCK = 4_000_000  # cells that are held at once
_ABOVE = np.array([0.0, 1.0, 1.0])  # what makes the excess and its two parts ratios of variances


@dataclass(frozen=True)
class Heterogeneity:
    """How the oracle SL varies between and within prompts, in units of what i.i.d. acceptance would bring.

    ``between`` and ``within``: excess variance over the variance of the coin, so that 1 + between + within is the
    excess dispersion; may come out below 0.  ``design_effect``: factor by which correlation within prompts inflates the
    variance of the mean (Kish): clustered over unclustered variance.  ``lag1``: mean correlation of neighbouring
    iterations of a prompt around its own mean, over its own variance, with the bias 1 / n of each taken off; exactly
    unbiased where the iterations of a prompt are exchangeable, which those of i.i.d. acceptance are, the last included.
    """

    between: Estimate
    within: Estimate
    design_effect: Estimate
    lag1: Estimate


@dataclass(frozen=True)
class Split:
    """``iid_dispersion``: the dispersion that dealing the agreements over the whole trace would give on average."""

    iid_dispersion: float
    excess: Estimate  # variance over that of the coin
    between: Estimate
    within: Estimate


NOTHING = Estimate(np.nan, np.nan, np.nan)
NO_SPLIT = Split(np.nan, NOTHING, NOTHING, NOTHING)


def split(iterations: np.ndarray, accepted: np.ndarray, squares: np.ndarray, least: int = 2) -> Split:
    """The variance of the oracle SL of P prompts, split; no intervals from fewer than ``least``.

    Each prompt's number of iterations, accepted tokens and sum of squares of the iterations' accepted tokens, [P] each.
    A prompt of n iterations has n - 1 refusals among its ``accepted`` + n - 1 known tokens (its last one is the
    target's own in any case).  NaN where nothing, or everything, is accepted.
    """
    known = (accepted + iterations - 1).astype(np.int64)
    # All ways to cut m accepted tokens into n runs are equally likely: E(g (g - 1)) = 2 m (m - 1) / (n (n + 1)).
    dealt_within = 2 * accepted * (accepted - 1) / (iterations + 1) + accepted
    unit = units(len(known))
    columns = np.stack([iterations, accepted, squares, dealt_within], axis=1).astype(float)
    sums = sum_by(unit, columns, int(unit.max()) + 1)
    sizes, which = np.unique(known, return_inverse=True)
    texts = np.bincount(unit * len(sizes) + which, minlength=len(sums) * len(sizes)).reshape(len(sums), len(sizes))
    whole = _parts(sums.sum(axis=0)[None], texts.sum(axis=0)[None], sizes)[0]
    if not np.isfinite(whole).all():
        return NO_SPLIT
    step = max(1, _BLOCK // (int(sizes[-1]) + 1))
    blocks = [slice(first, first + step) for first in range(0, len(sums), step)]
    left_out = [_parts(sums.sum(axis=0) - sums[at], texts.sum(axis=0) - texts[at], sizes) for at in blocks]
    # Dealt within prompts over dealt over all, 1 + between, is a ratio of variances, and so is 1 + within: hence logs.
    ratios = jackknife(whole[1:] + _ABOVE, np.concatenate(left_out)[:, 1:] + _ABOVE, log=True, least=least)
    moved = [each.map(lambda end, by=by: end - by) for each, by in zip(ratios, _ABOVE.tolist(), strict=True)]
    return Split(float(whole[0]), *moved)


def _parts(sums: np.ndarray, texts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Dispersion of the coin, excess, between and within, float [B, 4].

    Totals float [B, 4], columns as in `split`; how many texts have each of the ``sizes`` (int [L]), int [B, L].
    """
    n, accepted, squares, dealt_within = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = accepted / n
        dealt = _dealt(accepted, texts @ sizes, texts, sizes)
        coin, dealt_within, found = ((each - n * mean**2) / (n - 1) for each in (dealt, dealt_within, squares))
        of_coin = [found, dealt_within - coin, found - dealt_within]
        return np.stack([coin / (mean * (mean + 1)), *(each / coin for each in of_coin)], axis=1)


def _dealt(accepted: np.ndarray, known: np.ndarray, texts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Expected sum of squares of the runs where ``accepted`` [B] of ``known`` [B] tokens agree, in any order.

    A run of g tokens has g (g - 1) / 2 stretches of two tokens and more, and a text of T tokens has T - d + 1 places
    for one of d tokens, all of which agree with probability M (M - 1) ... / (N (N - 1) ...).
    """
    before = np.arange(int(sizes[-1]))
    agree = np.maximum(accepted[:, None] - before, 0) / np.maximum(known[:, None] - before, 1)
    stretches = np.cumprod(agree, axis=1)
    stretches[:, :1] = 0  # of one token
    places = np.cumsum(np.cumsum(stretches, axis=1), axis=1)
    of_size = np.concatenate([np.zeros((len(places), 1)), places], axis=1)[:, sizes]
    return 2 * (texts * of_size).sum(axis=1) + accepted


def design_effect(iterations: np.ndarray, accepted: np.ndarray, squares: np.ndarray) -> Estimate:
    """Variance of the mean SL as prompts vary over that of as many unrelated iterations; arguments as in `split`.

    Direct, from the clustered variance of a ratio (Cochran, Sampling Techniques, 1977, section 9A), and not from an
    intra-class correlation, which is no 0 under i.i.d. acceptance (see above).
    """
    one = np.ones(len(iterations))
    columns = [one, iterations, accepted, accepted**2, accepted * iterations, iterations**2, squares]
    if len(iterations) < 2:
        return NOTHING
    (found,) = smooth(np.stack(columns, axis=1).astype(float), lambda sums: _inflation(sums)[..., None], log=True)
    return found


def _inflation(sums: np.ndarray) -> np.ndarray:
    prompts, n, total, totals, products, sizes, squares = np.moveaxis(sums, -1, 0)
    mean = total / n
    clustered = np.maximum(totals - 2 * mean * products + mean**2 * sizes, 0) * prompts / (prompts - 1)
    return clustered / ((squares - n * mean**2) * n / (n - 1))


def lag1(prompt: np.ndarray, accepted: np.ndarray, prompts: int) -> Estimate:
    """Correlation of neighbouring iterations of a prompt, averaged over prompts by their number of neighbours.

    Prompts int [I], ascending, and accepted tokens int [I] of the iterations.  Each prompt's own mean and variance:
    with those of all prompts together, prompts that differ look like neighbours that do not (-.19 where there is
    nothing).  In any order of n numbers the expected correlation is -1 / n, which is taken off.  Prompts of fewer than
    three iterations, or with equal ones only, say nothing.
    """
    n = np.bincount(prompt, minlength=prompts)
    centred = accepted - (np.bincount(prompt, weights=accepted, minlength=prompts) / n)[prompt]
    same = prompt[1:] == prompt[:-1]
    products = np.bincount(prompt[1:][same], (centred[1:] * centred[:-1])[same], prompts)
    spread = np.bincount(prompt, weights=centred**2, minlength=prompts)
    tells = (n > 2) & (spread > 1e-9)
    pairs = np.where(tells, n - 1.0, 0.0)
    found = pairs * (products / np.where(tells, spread, 1.0) + 1 / n)
    (mean,) = smooth(np.stack([found, pairs], axis=1), lambda sums: sums[..., :1] / sums[..., 1:])
    return mean.at_least(-1).at_most(1)
