"""Maximise a smooth function inside a box and say how well its maximum is determined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

Array = NDArray[np.float64]
Function = Callable[[Array], float]
Box = Sequence[tuple[float, float]]

HALF_CHI2_95 = 1.920729410347062  # half the 95 % point of a chi-square with one degree of freedom (Wilks 1938)


class Maximum(NamedTuple):
    """Where a function is largest, and its value there."""

    at: Array
    value: float


def maximise(function: Function, starts: Sequence[Array], box: Box, relative: float = 1e-13) -> Maximum:
    """The best local maximum reached from ``starts`` (L-BFGS-B, central differences); never worse than a start."""
    low, high = np.array(box, dtype=float).T
    best = Maximum(np.array([]), -np.inf)
    for start in starts:
        begin = np.clip(np.asarray(start, dtype=float), low, high)
        found = optimize.minimize(
            lambda u: -function(u),
            begin,
            jac=lambda u: -_gradient(function, u, low, high),
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": 300, "ftol": relative, "gtol": 1e-8},
        )
        for point, value in ((begin, function(begin)), (found.x, -float(found.fun))):
            # a rounding difference is no improvement: an exact start stays exact
            if value > best.value + 1e-12 * abs(best.value if np.isfinite(best.value) else 0.0):
                best = Maximum(point, value)
    return best


def _gradient(function: Function, u: Array, low: Array, high: Array, step: float = 1e-5) -> Array:
    slope = np.empty_like(u)
    for i in range(u.size):
        up, down = u.copy(), u.copy()
        up[i], down[i] = min(u[i] + step, high[i]), max(u[i] - step, low[i])
        slope[i] = (function(up) - function(down)) / (up[i] - down[i])
    return slope


def climb(function: Function, start: Array, box: Box, enough: float) -> Maximum:
    """The maximum near ``start`` by damped Newton steps, until the next one promises a gain below ``enough``.

    Far cheaper than :func:`maximise` from a good start; where the function is not concave, or a step leaves the box,
    it hands over.
    """
    low, high = np.array(box, dtype=float).T
    here = Maximum(np.asarray(start, dtype=float), function(start))
    for _ in range(20):
        slope, bend = _gradient(function, here.at, low, high), -hessian(function, here.at)
        if not np.all(np.isfinite(bend)) or np.linalg.eigvalsh(bend).min() <= 0:
            break
        move = np.linalg.solve(bend, slope)
        if slope @ move < 2 * enough:
            return here
        move *= min(1.0, 2.0 / np.abs(move).max())
        trials = (here.at + move * damping for damping in (1.0, 0.5, 0.1, 0.01))
        better = (Maximum(u, function(u)) for u in trials if np.all((u > low) & (u < high)))
        there = next((each for each in better if each.value > here.value), None)
        if there is None:
            break
        here = there
    return maximise(function, [here.at], box, relative=1e-3 * enough / max(abs(here.value), 1.0))


def hessian(function: Function, u: Array, step: float = 1e-3) -> Array:
    """Second derivatives by central differences, [n, n]."""
    n = u.size
    steps = np.eye(n) * step
    centre = function(u)
    result = np.empty((n, n))
    for i in range(n):
        result[i, i] = (function(u + steps[i]) - 2 * centre + function(u - steps[i])) / step**2
        for j in range(i):
            corners = [function(u + a * steps[i] + b * steps[j]) * a * b for a in (1, -1) for b in (1, -1)]
            result[i, j] = result[j, i] = sum(corners) / (4 * step**2)
    return result


def covariance(log_likelihood: Function, u: Array) -> Array | None:
    """Covariance [n, n] from the observed information, or None where that is not positive definite."""
    information = -hessian(log_likelihood, u)
    if not np.all(np.isfinite(information)) or np.linalg.eigvalsh(information).min() <= 0:
        return None
    return np.linalg.inv(information).astype(np.float64)


def profile_interval(
    log_likelihood: Function, peak: Maximum, index: int, box: Box, drop: float = HALF_CHI2_95
) -> tuple[float, float]:
    """95 % interval of one coordinate by profile likelihood; an end that the data do not exclude is the box's end.

    It ends where the log-likelihood has fallen by ``drop``.
    """
    low, high = (_profile_end(log_likelihood, peak, index, box, drop, direction) for direction in (-1, 1))
    return low, high


def _profile_end(log_likelihood: Function, peak: Maximum, index: int, box: Box, drop: float, direction: int) -> float:
    """Walk outwards in doubling steps until the likelihood has fallen far enough, then bisect."""
    end = box[index][1] if direction > 0 else box[index][0]
    inside, rest, step = float(peak.at[index]), np.delete(peak.at, index), 0.25
    rest_box = [limits for i, limits in enumerate(box) if i != index]
    outside = None
    while abs((end if outside is None else outside) - inside) > 1e-3:
        trial = (inside + outside) / 2 if outside is not None else inside + direction * min(step, abs(end - inside))
        best = _best_rest(
            log_likelihood, rest, rest_box, lambda others, at=trial: np.r_[others[:index], at, others[index:]]
        )
        if peak.value - best.value > drop:
            outside = trial
        else:
            inside, rest, step = trial, best.at, 2 * step
    return float(end if outside is None else (inside + outside) / 2)


def _best_rest(log_likelihood: Function, start: Array, box: Box, whole: Callable[[Array], Array]) -> Maximum:
    """The maximum over the other coordinates, close to ``start``; ``whole`` puts the fixed one in its place."""
    if not start.size:
        return Maximum(start, log_likelihood(whole(start)))
    return climb(lambda others: log_likelihood(whole(others)), start, box, enough=1e-4)
