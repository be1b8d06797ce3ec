"""A constant lookahead for each text, chosen on one half of it and judged on the other, in both directions."""

from __future__ import annotations

import numpy as np


def of_best(totals: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """``seconds`` [K, ..., P] under the choice with the least of ``totals`` [K, ...], float [..., P]."""
    return np.take_along_axis(seconds, totals.argmin(axis=0)[None, ..., None], axis=0)[0]


def judged_by_halves(seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each half of a text takes under what the other halves chose, float [R, P, 2] each: for all texts, for each.

    ``seconds`` float [K, R, P, 2]: of K constants in R arrangements of P texts, each cut in two.
    """
    shown, judged = seconds[..., ::-1], seconds
    for_all = of_best(shown.sum(axis=2), judged.transpose(0, 1, 3, 2)).transpose(0, 2, 1)
    for_each = np.take_along_axis(judged, shown.argmin(axis=0)[None], axis=0)[0]
    return for_all, for_each
