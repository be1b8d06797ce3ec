"""Expected calibration error of a score, freed of most of what chance adds to it.

Distances are positive, so the plain figure (Guo et al. 2017) is above 0 also where the score is perfectly calibrated:
.04 at 10 prompts of 64 tokens.  A bootstrap adds the same once more, and its interval lies above the truth.
"""

from __future__ import annotations

import numpy as np

from analysis.intervals import Estimate, sum_by, t_975, units, weighed

_DRAWS = 999


def calibration_error(gaps: np.ndarray, count: np.ndarray) -> tuple[Estimate, float]:
    """Mean distance between score and share accepted over bins, weighted by count; and that of a perfect score.

    ``gaps``: sums of score minus outcome by prompt and bin, float [P, J]; ``count``: positions of each prompt [P].

    Each bin's distance is corrected as a bootstrap would: 2 |gap| less the mean distance of a normal around the gap
    with its clustered standard error.  That takes off all of the bias where the gap is clear, and two fifths of it
    where there is none (nothing takes off all in both cases); the second number is what is left, the mean of the same
    figure where each prompt's distance from the mean gaps has a random sign (a wild bootstrap, Liu 1988).  The interval
    is of Student's t, from the clustered standard error of the sum of signed gaps, and begins at 0 where perfect
    calibration is not rejected at 5 % by the same draws.  One prompt's figure is the plain one, without interval.
    """
    unit = units(len(count))
    sums = sum_by(unit, np.column_stack([gaps, count]), int(unit.max()) + 1)
    gaps, count = sums[:, :-1], sums[:, -1]
    prompts, total, gap = len(count), float(count.sum()), gaps.sum(axis=0)
    plain = float(np.abs(gap).sum() / total)
    if prompts < 2:
        return Estimate(plain, np.nan, np.nan), float("nan")
    moves = gaps - count[:, None] * gap / total
    errors = np.sqrt(_variance(moves))
    variance, free = weighed((gaps @ np.sign(gap) - count * plain)[:, None] / total, count[:, None] / total)
    half = float(t_975(free)[0] * np.sqrt(variance[0]))
    signs = np.random.default_rng(0).integers(2, size=(_DRAWS, prompts)) * 2.0 - 1
    perfect = signs @ moves * np.sqrt(prompts / (prompts - 1))  # gaps of a perfect score, float [_DRAWS, J]
    as_large = np.count_nonzero(np.abs(perfect).sum(axis=1) >= np.abs(gap).sum() - 1e-12)
    value, if_perfect = float(_corrected(gap, errors)) / total, float(_corrected(perfect, errors).mean()) / total
    low = max(value - half, 0.0) if (1 + as_large) / (1 + _DRAWS) <= 0.05 else 0.0
    return Estimate(value, low, value + half).at_most(1), if_perfect


def _variance(moves: np.ndarray) -> np.ndarray:
    """Of a total, from what each prompt moves it by, float [P, ...]."""
    return (moves**2).sum(axis=0) * len(moves) / (len(moves) - 1)


def _corrected(gap: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Sum over the bins of the corrected distances, at least 0; ``gap`` float [..., J], ``errors`` float [J]."""
    from scipy import special

    distance = np.abs(gap)
    z = distance / np.where(errors > 0, errors, 1.0)
    folded = errors * (np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2)) + distance * special.erf(z / np.sqrt(2))
    return np.maximum((2 * distance - np.where(errors > 0, folded, distance)).sum(axis=-1), 0.0)
