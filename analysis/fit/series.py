"""Sums and logarithms that keep their relative precision far out in a tail."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DENSE = 1024  # terms summed one by one before quadrature takes over
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def cumulative(term: Callable[[Array], Array], k: Array) -> Array:
    """Sum of ``term(j)`` over 0 <= j < k for each k, relative error around 1e-12 for a term that is smooth in log j.

    The first 1,024 terms are added one by one. Beyond, the midpoint rule is used in reverse: the sum is the
    integral from half a step before to half a step before the end (Gauss-Legendre on panels that double in length),
    less a 24th of the change in slope. The cost does not depend on the size of k.
    """
    k = np.asarray(k, float)
    dense = int(min(k.max(initial=0.0), DENSE))
    head = np.concatenate(([0.0], np.cumsum(term(np.arange(dense, dtype=float)))))
    total = head[np.minimum(k, dense).astype(np.int64)]
    far = k > DENSE
    if far.any():
        total[far] += _sum_beyond_dense(term, k[far])
    return total


def _sum_beyond_dense(term: Callable[[Array], Array], k: Array) -> Array:
    first, last = DENSE - 0.5, k - 0.5
    level = np.floor(np.log2(last / first)).astype(np.int64)  # the panel that holds the end of each sum
    edges = first * 2.0 ** np.arange(level.max() + 1)
    whole = np.concatenate(([0.0], np.cumsum(_integral(term, edges[:-1], edges[1:]))))
    integral = whole[level] + _integral(term, edges[level], last)
    slope_at_first = term(np.array([DENSE])) - term(np.array([DENSE - 1.0]))
    return integral - (term(last + 0.5) - term(last - 0.5) - slope_at_first) / 24


def _integral(term: Callable[[Array], Array], start: Array, end: Array) -> Array:
    half = (end - start) / 2
    return half * (term((start + half)[:, None] + half[:, None] * _NODES) @ _WEIGHTS)


def log_ratio(above: Array, below: Array, gap: Array | float) -> Array:
    """log(above / below) where ``gap = below - above`` is known exactly: precise near ratio 1 as well as near 0."""
    near_one = np.log1p(np.maximum(-gap / below, -1.0))
    return np.where(above < below / 2, np.log(above / below), near_one)


def log1mexp(x: Array) -> Array:
    """log(1 - exp(-x)) for x >= 0, precise at both ends."""
    return np.where(x < math.log(2), np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))
