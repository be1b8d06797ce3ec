"""The standard deviation, in the one convention of every table, figure and file."""

from __future__ import annotations

import numpy as np


def standard_deviation(values: np.ndarray) -> float:
    """Of a sample, n - 1 in the denominator; NaN for a single value, which has none."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
