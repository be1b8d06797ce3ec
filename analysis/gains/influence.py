"""Intervals of smooth functions of totals over prompts: each prompt's influence, Student's t over prompts."""

from __future__ import annotations

import numpy as np

from analysis.intervals import Estimate, t_975, weighed


def around(value: float, influence: np.ndarray, shares: np.ndarray) -> Estimate:
    """``value`` with the interval that the ``influence`` of each prompt on it (float [P]) gives; NaN for one prompt.

    ``shares``: each prompt's share of the totals, float [P].  The influences of a ratio A / B are (a - A / B * b) / B:
    their sum of squares estimates its variance (Cochran, Sampling Techniques, 1977, section 6.3).  Few prompts, or a
    few long ones, estimate that poorly, so the interval is Student's (``analysis.intervals.weighed``).
    """
    variance, free = weighed((influence - influence.mean())[:, None], shares[:, None])
    half = float(t_975(free)[0] * np.sqrt(variance[0]))
    return Estimate(float(value), float(value - half), float(value + half))


def of_ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Each prompt's influence on the ratio of totals, float [..., P], of two float [..., P] arrays."""
    total = below.sum(axis=-1, keepdims=True)
    return (above - above.sum(axis=-1, keepdims=True) / total * below) / total
