"""Right-censored maximum likelihood of one family on one table: the estimate, its status and its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.fit.counts import Counts
from analysis.fit.families import Family, Limit, Parameter, Theta
from analysis.fit.likelihood import (
    HALF_CHI2_95,
    Maximum,
    climb,
    maximise,
    profile_interval,
    standard_errors,
)
from analysis.intervals import NORMAL_975, Estimate

EARNS_NOTHING = 1e-4  # log-likelihood that an extra parameter must gain before the smaller family is left
LARGEST_WALD_ERROR = 0.5  # on the log or logit scale; beyond it a quadratic is a poor picture of the likelihood


def undetermined(counts: Counts) -> tuple[str, Estimate]:
    """Why a two-parameter family has no estimate here ('' if it has), and the geometric acceptance in closed form.

    For the geometric family the likelihood is S log a + U log(1 - a), S accepted tokens and U uncensored runs; with S
    or U equal to 0 its maximum is on the edge and the interval is where it falls by half a chi-square quantile.
    """
    accepted, ended = counts.accepted, int(counts.events.sum())
    if accepted + ended == 0:
        return "no data", Estimate(math.nan, 0.0, 1.0)
    if ended == 0:
        return "every run is censored, no rejection was seen", Estimate(1.0, math.exp(-HALF_CHI2_95 / accepted), 1.0)
    if accepted == 0:
        return "every value is 0", Estimate(0.0, 0.0, -math.expm1(-HALF_CHI2_95 / ended))
    seen, value = np.flatnonzero(counts.events), accepted / (accepted + ended)
    constant = seen.size == 1 and not counts.censored[seen[0] + 1 :].any()
    return f"every value is {seen[0]}" if constant else "", Estimate(value, 0.0, 1.0)


def log_likelihood_of(counts: Counts, model: Family) -> Callable[[Theta], float]:
    """Natural parameters -> log-likelihood of the table; only lengths that occur are evaluated."""
    ended, cut = np.flatnonzero(counts.events), np.flatnonzero(counts.censored)
    n_ended, n_cut = counts.events[ended], counts.censored[cut]
    ended, cut = ended.astype(float), cut.astype(float)

    def value(theta: Theta) -> float:
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            total = n_ended @ model.log_pmf(theta, ended) if ended.size else 0.0
            return float(total + (n_cut @ model.log_survival(theta, cut) if cut.size else 0.0))

    return value


def _to_free(theta: Theta, parameters: Sequence[Parameter]) -> NDArray[np.float64]:
    """Natural parameters on the scale where they are searched: logit of a share, log of a positive number."""
    clipped = [min(max(value, p.low), p.high) for value, p in zip(theta, parameters, strict=True)]
    return np.array(
        [special.logit(v) if p.kind == "share" else math.log(v) for v, p in zip(clipped, parameters, strict=True)]
    )


def _to_natural(free: Sequence[float] | NDArray[np.float64], parameters: Sequence[Parameter]) -> tuple[float, ...]:
    return tuple(
        float(special.expit(u)) if p.kind == "share" else math.exp(u) for u, p in zip(free, parameters, strict=True)
    )


def _box(parameters: Sequence[Parameter]) -> list[tuple[float, float]]:
    lows, highs = (_to_free([getattr(p, end) for p in parameters], parameters) for end in ("low", "high"))
    return list(zip(lows, highs, strict=True))


def _free_likelihood(counts: Counts, model: Family) -> Callable[[NDArray[np.float64]], float]:
    natural = log_likelihood_of(counts, model)
    return lambda free: natural(_to_natural(free, model.parameters))


def estimate(counts: Counts, model: Family) -> tuple[float, tuple[float, ...], str]:
    """(log-likelihood, natural parameters, status) at the maximum."""
    start, free, n, parameters = _geometric_start(counts), _free_likelihood(counts, model), counts.n, model.parameters
    if model.name == "geometric":  # closed form
        return log_likelihood_of(counts, model)(start[:1]), start[:1], "ok"
    starts = [_to_free(each, parameters) for each in model.starts(*start)]
    peak = maximise(lambda u: free(u) / n, starts, _box(parameters))
    if model.limit is not None:
        smaller, smaller_theta, _ = estimate(counts, model.limit.family)
        if peak.value * n < smaller + EARNS_NOTHING:
            return smaller, model.limit.embed(smaller_theta), f"boundary: {model.limit.label}"
    theta, status = _settle(free, model.ordered(peak.at), parameters)
    return log_likelihood_of(counts, model)(theta), theta, status


def reestimate(counts: Counts, model: Family, near: Theta) -> tuple[float, ...]:
    """Natural parameters at the maximum close to ``near``: quick, for samples that resemble one already fitted."""
    reason, acceptance = undetermined(counts)
    if reason or model.name == "geometric":
        return model.at_geometric(acceptance.value)
    free, parameters, limit = _free_likelihood(counts, model), model.parameters, model.limit
    if limit is not None and limit.vanishing is not None:
        smaller = reestimate(counts, limit.family, [value for i, value in enumerate(near) if i != limit.vanishing])
        edge, inside = limit.embed(smaller), list(limit.embed(smaller))
        inside[limit.vanishing] = 1e-6
        natural = log_likelihood_of(counts, model)
        if natural(inside) <= natural(edge):  # the likelihood falls from the edge inwards
            return edge
        near = [max(value, 0.01) if i == limit.vanishing else value for i, value in enumerate(near)]
    start = _to_free(near, parameters)
    return _to_natural(climb(free, start, _box(parameters), enough=1e-3).at, parameters)


def _geometric_start(counts: Counts) -> tuple[float, float]:
    """Geometric estimate of acceptance and the Kaplan-Meier share of runs that accept something, both in (0, 1)."""
    accepted, ended = counts.accepted, int(counts.events.sum())
    known = counts.n - int(counts.censored[0])
    return accepted / (accepted + ended), min(max(1 - counts.events[0] / known, 1e-6), 1 - 1e-6)


def _settle(free: Callable, at: NDArray[np.float64], parameters: Sequence[Parameter]) -> tuple[tuple[float, ...], str]:
    """Natural parameters and status; a parameter that does as well at the end of its range is put there and named."""
    peak, theta, edges = free(at), list(_to_natural(at, parameters)), []
    at = at.copy()
    for i, (ends, parameter) in enumerate(zip(_box(parameters), parameters, strict=True)):
        for end, word in zip(ends, ("lower", "upper"), strict=True):
            moved = np.concatenate((at[:i], [end], at[i + 1 :]))
            if free(moved) > peak - EARNS_NOTHING:
                at, theta[i] = moved, float(word == "upper") if parameter.kind == "share" else math.exp(end)
                edges.append(f"{parameter.name} at the {word} end of its range")
    return tuple(theta), f"boundary: {', '.join(edges)}" if edges else "ok"


def intervals(counts: Counts, model: Family, theta: Theta, status: str) -> list[Estimate]:
    """95 % intervals: normal on the free scale where that is a fair picture, profile likelihood elsewhere."""
    limit = model.limit
    if limit is not None and status == f"boundary: {limit.label}":
        return _limit_intervals(counts, model, limit, theta)
    free, box = _free_likelihood(counts, model), _box(model.parameters)
    at = _to_free(theta, model.parameters)
    errors = standard_errors(free, at) if status == "ok" else None
    if errors is not None and errors.max() <= LARGEST_WALD_ERROR:
        ends = [at - NORMAL_975 * errors, at + NORMAL_975 * errors]
    else:
        peak = Maximum(at, free(at))
        ends = np.array([profile_interval(free, peak, i, box) for i in range(at.size)]).T
    low, high = (_to_natural(_open(end, box), model.parameters) for end in ends)
    return [Estimate(*each) for each in zip(theta, low, high, strict=True)]


def _open(free: NDArray[np.float64], box: Sequence[tuple[float, float]]) -> list[float]:
    """An interval end at the end of the search range stands for the end of the parameter's own range."""
    return [
        -math.inf if u <= low + 1e-9 else math.inf if u >= high - 1e-9 else u
        for u, (low, high) in zip(free, box, strict=True)
    ]


def _limit_intervals(counts: Counts, model: Family, limit: Limit, theta: Theta) -> list[Estimate]:
    """The smaller family's intervals; the vanishing parameter's upper end by profile; all values where unidentified."""
    smaller_value, smaller_theta, smaller_status = estimate(counts, limit.family)
    smaller = intervals(counts, limit.family, smaller_theta, smaller_status)
    ends = [limit.embed([getattr(each, side) for each in smaller]) for side in ("low", "high")]
    estimates = [Estimate(*each) for each in zip(theta, *ends, strict=True)]
    if limit.vanishing is None:
        return [each if each.low < each.high else Estimate(each.value, 0.0, 1.0) for each in estimates]
    box, free = _box(model.parameters), _free_likelihood(counts, model)
    peak = Maximum(_to_free(theta, model.parameters), smaller_value)
    _, high = profile_interval(free, peak, limit.vanishing, box)
    top = list(peak.at)
    top[limit.vanishing] = high
    natural = _to_natural(_open(np.array(top), box), model.parameters)[limit.vanishing]
    estimates[limit.vanishing] = Estimate(0.0, 0.0, natural)
    return estimates
