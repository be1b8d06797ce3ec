"""Intervals of smooth functions of totals over prompts: each prompt's influence, Student's t over prompts."""

from __future__ import annotations

import numpy as np

from analysis.intervals import LEVEL, Estimate


def around(value: float, influence: np.ndarray, level: float = LEVEL) -> Estimate:
    """``value`` with the interval that the ``influence`` of each prompt on it (float [P]) gives; NaN for one prompt.

    The influences of a ratio A / B are (a - A / B * b) / B: their sum of squares estimates its variance (Cochran,
    Sampling Techniques, 1977, section 6.3).  Few prompts estimate that poorly, so the interval is Student's.
    """
    half = half_width(influence, level)
    return Estimate(float(value), float(value - half), float(value + half))


def half_width(influence: np.ndarray, level: float = LEVEL) -> float:
    """Half the width of that interval; NaN for one prompt."""
    from scipy import stats

    prompts = len(influence)
    if prompts < 2:
        return float("nan")
    centred = influence - influence.mean()
    error = np.sqrt((centred**2).sum() * prompts / (prompts - 1))
    return float(stats.t.ppf((1 + level) / 2, prompts - 1) * error)


def of_ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Each prompt's influence on the ratio of totals, float [..., P], of two float [..., P] arrays."""
    total = below.sum(axis=-1, keepdims=True)
    return (above - above.sum(axis=-1, keepdims=True) / total * below) / total
