"""Distribution families of the accepted length of an iteration: their mathematics and nothing else.

Support starts at 0. *Survival* always means ``S(k) = P(SL >= k)``, so ``S(0) = 1``; this is also what an observation
censored at k contributes to a likelihood. Likelihoods, intervals and tests live in :mod:`analysis.fit.distributions`.

Every function takes ``theta``, the natural parameters in the order of ``Family.parameters``, boundary values included
(dispersion 0 is the Poisson distribution, heterogeneity 0 the geometric one), and ``k``, an array of whole
numbers from 0. The logarithm of an impossible length is -inf; callers silence numpy's remark about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.fit.series import DENSE, cumulative, log1mexp, log_ratio

Array = NDArray[np.float64]
Theta = Sequence[float]


class Parameter(NamedTuple):
    """One natural parameter: a ``share`` in [0, 1] or ``positive`` in [0, inf); ``low``, ``high`` bound the search."""

    name: str
    meaning: str
    kind: str
    low: float
    high: float


def _share(name: str, meaning: str) -> Parameter:
    return Parameter(name, meaning, "share", 1e-12, 1 - 1e-12)


class Limit(NamedTuple):
    """The smaller family that a family turns into at the edge of its parameter space.

    ``embed`` maps the smaller family's parameters to the larger one's; ``vanishing`` is the index of the parameter that
    is 0 there, or None where the larger family is not identified (a mixture of two equal components).
    """

    label: str
    family: Family
    embed: Callable[[Theta], tuple[float, ...]]
    vanishing: int | None


class Family(ABC):
    """A family of distributions on 0, 1, 2, ...; a concrete family is final and only mathematics."""

    name: str
    parameters: tuple[Parameter, ...]
    limit: Limit | None = None

    @abstractmethod
    def log_pmf(self, theta: Theta, k: Array) -> Array:
        """log P(SL = k)."""

    @abstractmethod
    def log_survival(self, theta: Theta, k: Array) -> Array:
        """log P(SL >= k)."""

    @abstractmethod
    def moments(self, theta: Theta) -> tuple[float, float]:
        """Mean and variance; ``inf`` where they do not exist."""

    @abstractmethod
    def starts(self, acceptance: float, positive: float) -> list[tuple[float, ...]]:
        """Where to start a search, given the geometric estimate of acceptance and the share of runs with SL >= 1."""

    @abstractmethod
    def at_geometric(self, acceptance: float) -> tuple[float, ...]:
        """The parameters for which this family is the geometric distribution."""

    def ordered(self, free: Array) -> Array:
        """Of several equivalent points on the log or logit scale, the one to report."""
        return free


class Geometric(Family):
    """Every draft token is accepted with the same probability a: P(SL = k) = a^k (1 - a)."""

    name = "geometric"
    parameters = (_share("acceptance", "probability that a draft token is accepted (the i.i.d. model)"),)

    def log_pmf(self, theta, k):
        return special.xlogy(k, theta[0]) + np.log1p(-theta[0])

    def log_survival(self, theta, k):
        return special.xlogy(k, theta[0])

    def moments(self, theta):
        a = theta[0]
        return (a / (1 - a), a / (1 - a) ** 2) if a < 1 else (math.inf, math.inf)

    def starts(self, acceptance, positive):
        return [(acceptance,)]

    def at_geometric(self, acceptance):
        return (acceptance,)


class Poisson(Family):
    """The limit of the negative binomial for data that vary less than any negative binomial."""

    name = "poisson"
    parameters = (Parameter("mean", "mean accepted length", "positive", 1e-12, 1e9),)

    def log_pmf(self, theta, k):
        return NEGATIVE_BINOMIAL.log_pmf((theta[0], 0.0), k)

    def log_survival(self, theta, k):
        return NEGATIVE_BINOMIAL.log_survival((theta[0], 0.0), k)

    def moments(self, theta):
        return theta[0], theta[0]

    def starts(self, acceptance, positive):
        return [(acceptance / (1 - acceptance),)]

    def at_geometric(self, acceptance):
        raise ValueError("a Poisson distribution is never geometric; use 'negative-binomial', which contains both")


class ZeroInflatedGeometric(Family):
    """With probability ``inflation`` nothing is accepted at all, otherwise the run is geometric."""

    name = "zero-inflated-geometric"
    parameters = (
        _share("inflation", "share of iterations that accept nothing whatever the acceptance"),
        _share("acceptance", "probability that a draft token is accepted in the other iterations"),
    )
    limit = Limit("no zero inflation", Geometric(), lambda theta: (0.0, theta[0]), 0)

    def log_pmf(self, theta, k):
        inflation, a = theta
        later = np.log1p(-inflation) + special.xlogy(k, a) + np.log1p(-a)
        return np.where(k == 0, np.log(inflation + (1 - inflation) * (1 - a)), later)

    def log_survival(self, theta, k):
        inflation, a = theta
        return np.where(k == 0, 0.0, np.log1p(-inflation) + special.xlogy(k, a))

    def moments(self, theta):
        return _mixed_moments([(1 - theta[0], theta[1])])

    def starts(self, acceptance, positive):
        # P(SL >= 1) = (1 - inflation) a and mean = P(SL >= 1) / (1 - a) give both parameters from two shares
        mean = acceptance / (1 - acceptance)
        a = min(max(1 - positive / mean, acceptance), 1 - 1e-9)
        return [(max(1 - positive / a, 0.02), a), (0.1, acceptance)]

    def at_geometric(self, acceptance):
        return (0.0, acceptance)


class GeometricMixture(Family):
    """Two kinds of iterations, each geometric with its own acceptance."""

    name = "geometric-mixture"
    parameters = (
        _share("acceptance_low", "probability that a draft token is accepted in the hard iterations"),
        _share("acceptance_high", "probability that a draft token is accepted in the easy iterations"),
        _share("share_high", "share of easy iterations"),
    )
    limit = Limit("one component", Geometric(), lambda theta: (theta[0], theta[0], 1.0), None)

    def log_pmf(self, theta, k):
        low, high, weight = theta
        first = np.log1p(-weight) + special.xlogy(k, low) + np.log1p(-low)
        return np.logaddexp(first, np.log(weight) + special.xlogy(k, high) + np.log1p(-high))

    def log_survival(self, theta, k):
        low, high, weight = theta
        first = np.log1p(-weight) + special.xlogy(k, low)
        return np.where(k == 0, 0.0, np.logaddexp(first, np.log(weight) + special.xlogy(k, high)))

    def moments(self, theta):
        low, high, weight = theta
        return _mixed_moments([(1 - weight, low), (weight, high)])

    def starts(self, acceptance, positive):
        a = acceptance
        up = lambda step: 1 - (1 - a) / step  # noqa: E731 - the acceptance whose rejections are `step` times rarer
        return [(a / 2, up(2), 0.5), (a / 8, up(1.3), 0.8), (a * 0.8, up(8), 0.05), (a / 2, up(30), 0.3)]

    def at_geometric(self, acceptance):
        return (acceptance, acceptance, 1.0)

    def ordered(self, free):
        low, high, weight = free
        return free if low <= high else np.array([high, low, -weight])


class BetaGeometric(Family):
    """Each iteration draws its own acceptance from Beta(alpha, beta) and keeps it.

    In terms of the mean acceptance mu = alpha / (alpha + beta) and the heterogeneity rho = 1 / (alpha + beta),
    ``S(k) = B(alpha + k, beta) / B(alpha, beta) = prod_{j<k} (mu + j rho) / (1 + j rho)`` and
    ``P(SL = k) / S(k) = (1 - mu) / (1 + k rho)``. The product has no cancellation for any shapes and is the
    geometric distribution at rho = 0, which differences of log-beta functions lose for large shapes.
    """

    name = "beta-geometric"
    parameters = (
        _share("acceptance", "mean over iterations of the acceptance probability, alpha / (alpha + beta)"),
        Parameter(
            "heterogeneity", "1 / (alpha + beta); 0 when every iteration has the same acceptance", "positive", 1e-9, 1e4
        ),
    )
    limit = Limit("no heterogeneity", Geometric(), lambda theta: (theta[0], 0.0), 1)

    def log_pmf(self, theta, k):
        mu, rho = theta
        return self.log_survival(theta, k) + np.log1p(-mu) - np.log1p(rho * k)

    def log_survival(self, theta, k):
        mu, rho = theta
        return cumulative(lambda j: log_ratio(mu + j * rho, 1 + j * rho, 1 - mu), k)

    def moments(self, theta):
        mu, rho = theta  # mean alpha / (beta - 1), second factorial moment 2 alpha (alpha + 1) / ((beta - 1)(beta - 2))
        once, twice = 1 - mu - rho, 1 - mu - 2 * rho
        mean = mu / once if once > 0 else math.inf
        if twice <= 0:
            return mean, math.inf
        return mean, 2 * mu * (mu + rho) / (once * twice) + mean - mean**2

    def starts(self, acceptance, positive):
        return [(positive, 0.05), (acceptance, 0.01), (positive, 0.5), (positive, 3.0)]

    def at_geometric(self, acceptance):
        return (acceptance, 0.0)


class NegativeBinomial(Family):
    """Mean m, variance m + phi m^2; phi = 0 is Poisson, 1 geometric. Size r = 1 / phi, q = phi m / (1 + phi m)."""

    name = "negative-binomial"
    parameters = (
        Parameter("mean", "mean accepted length", "positive", 1e-12, 1e9),
        Parameter(
            "dispersion", "phi in variance = mean + phi mean^2; 0 is Poisson, 1 is geometric", "positive", 1e-9, 1e6
        ),
    )
    limit = Limit("Poisson limit", Poisson(), lambda theta: (theta[0], 0.0), 1)

    def log_pmf(self, theta, k):
        m, phi = theta
        w, c = _nb_shares(m, phi)
        # P(SL = j+1) / P(SL = j) = (1 + phi j) w / (1 + j): no log-gamma differences, so right for every phi
        ratio = cumulative(lambda j: log_ratio((1 + phi * j) * w, 1 + j, (1 + j) * c + (phi - 1) * w), k)
        return ratio - (np.log1p(phi * m) / phi if phi > 0 else m)

    def log_survival(self, theta, k):
        m, phi = theta
        w, _ = _nb_shares(m, phi)
        k1 = np.maximum(np.asarray(k, float), 1.0)
        bulk = special.betainc(k1, 1 / phi, phi * w) if phi > 0 else special.gammainc(k1, m)
        result = np.log(bulk)
        far = (bulk < 1e-280) & (w > 0)  # betainc underflows there, while pmf times a continued fraction does not
        if far.any():
            result[far] = self.log_pmf(theta, k1[far]) + np.log(_nb_tail_over_pmf(w, phi, k1[far]))
        return np.where(np.asarray(k) == 0, 0.0, result)

    def moments(self, theta):
        m, phi = theta
        return m, m + phi * m**2

    def starts(self, acceptance, positive):
        mean = acceptance / (1 - acceptance)
        return [(mean, 1.0), (mean, 0.1), (mean, 5.0)]

    def at_geometric(self, acceptance):
        return (Geometric().moments((acceptance,))[0], 1.0)


class DiscreteWeibull(Family):
    """S(k) = q^(k^b) (Nakagawa & Osaki 1975) written as exp(-(k / scale)^b), which stays exact for q near 0 or 1."""

    name = "discrete-weibull"
    parameters = (
        Parameter(
            "scale",
            "length that a share 1/e of the runs reaches; q = P(SL >= 1) = exp(-scale^-shape)",
            "positive",
            1e-9,
            1e9,
        ),
        Parameter(
            "shape", "b: below 1 acceptance rises along a run, 1 is geometric, above 1 it falls", "positive", 0.02, 50.0
        ),
    )

    def log_pmf(self, theta, k):
        shape = theta[1]
        power = -self.log_survival(theta, k)
        # (k+1)^b - k^b without cancellation for large k
        rise = np.where(
            np.asarray(k) == 0,
            -self.log_survival(theta, np.ones(1)),
            power * np.expm1(shape * np.log1p(1 / np.maximum(k, 1.0))),
        )
        return -power + log1mexp(rise)

    def log_survival(self, theta, k):
        scale, shape = theta
        k = np.asarray(k, float)
        if scale == 0:
            return np.where(k == 0, 0.0, -math.inf)
        return -np.where(k == 0, 0.0, np.exp(np.minimum(shape * (np.log(np.maximum(k, 1.0)) - np.log(scale)), 700.0)))

    def moments(self, theta):
        if theta[0] == 0 or math.isinf(theta[0]):
            return theta[0], theta[0]
        first, second = (self._tail_moment(theta, order) for order in (0, 1))  # sums of S(k) and of k S(k) over k >= 1
        return first, max(2 * second - first - first**2, 0.0)

    def _tail_moment(self, theta: Theta, order: int) -> float:
        scale, shape = theta
        k = np.arange(1, DENSE, dtype=float)
        head = float(np.sum(k**order * np.exp(self.log_survival(theta, k))))
        # midpoint rule turned round: the sum beyond is the integral from DENSE - 1/2, an incomplete gamma function
        power = (order + 1) / shape
        beyond = special.gammaincc(power, ((DENSE - 0.5) / scale) ** shape)
        if beyond == 0:
            return head
        log_integral = (order + 1) * math.log(scale) - math.log(shape) + special.gammaln(power) + math.log(beyond)
        return head + math.exp(log_integral) if log_integral < 700 else math.inf

    def starts(self, acceptance, positive):
        scale = -1 / math.log(acceptance)
        return [(scale, 1.0), (scale, 0.6), (scale, 1.8)]

    def at_geometric(self, acceptance):
        if acceptance in (0, 1):
            return (0.0 if acceptance == 0 else math.inf, 1.0)
        return (-1 / math.log(acceptance), 1.0)


NEGATIVE_BINOMIAL = NegativeBinomial()
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Geometric(),
        ZeroInflatedGeometric(),
        GeometricMixture(),
        BetaGeometric(),
        NEGATIVE_BINOMIAL,
        DiscreteWeibull(),
    )
}


def _nb_shares(m: float, phi: float) -> tuple[float, float]:
    """w = m / (1 + phi m) and c = 1 / (1 + phi m), also for an infinite mean."""
    return (1 / phi, 0.0) if math.isinf(m) else (m / (1 + phi * m), 1 / (1 + phi * m))


def _nb_tail_over_pmf(w: float, phi: float, k: Array) -> Array:
    """S(k) / P(SL = k): the incomplete beta function's continued fraction (DLMF 8.17.22), also for phi = 0."""

    def coefficient(i: int) -> Array:
        m = i // 2
        if i % 2 == 0:
            return m * w * (1 - phi * m) / ((k + 2 * m - 1) * (k + 2 * m))
        return -(k + m) * w * (1 + phi * (k + m)) / ((k + 2 * m) * (k + 2 * m + 1))

    value = np.ones_like(k)
    for i in range(400, 0, -1):
        value = 1 + coefficient(i) / value
    return 1 / value


def _mixed_moments(components: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean and variance of geometric distributions mixed as (weight, acceptance); missing weight sits at 0."""
    present = [(weight, a) for weight, a in components if weight > 0]
    if any(a >= 1 for _, a in present):
        return math.inf, math.inf
    mean = sum(weight * a / (1 - a) for weight, a in present)
    square = sum(weight * a * (1 + a) / (1 - a) ** 2 for weight, a in present)
    return mean, square - mean**2
