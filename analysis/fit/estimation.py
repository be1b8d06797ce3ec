"""Right-censored maximum likelihood of one family on one table: the estimate, its status and its intervals.

Where the table says which prompt each run is from, intervals are over prompts.  The estimate is the same: it maximises
the likelihood of independent runs, which is no longer that of the data, so its variance is the sandwich A^-1 B A^-1,
with A the observed information and B the sum over prompts of the squared score of all runs of a prompt, times
P / (P - 1) (Huber 1967; White 1982; Liang and Zeger 1986), and a t distribution with P - 1 degrees of freedom takes the
place of the normal one.  Where the likelihood is not well rounded, the profile is taken of the likelihood divided by
the design effect, the sandwich's variance over 1 / A (Rao and Scott 1984; Pauli, Racugno and Ventura 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.fit.counts import Clusters, Counts
from analysis.fit.families import Family, Limit, Parameter, Theta
from analysis.fit.likelihood import (
    HALF_CHI2_95,
    Maximum,
    climb,
    covariance,
    maximise,
    profile_interval,
)
from analysis.intervals import NORMAL_975, Estimate, t_975

EARNS_NOTHING = 1e-4  # log-likelihood that an extra parameter must gain before the smaller family is left
LARGEST_WALD_ERROR = 0.5  # on the log or logit scale; beyond it a quadratic is a poor picture of the likelihood


def undetermined(counts: Counts) -> tuple[str, Estimate]:
    """Why a two-parameter family has no estimate here ('' if it has), and the geometric acceptance in closed form.

    For the geometric family the likelihood is S log a + U log(1 - a), S accepted tokens and U uncensored runs; with S
    or U equal to 0 its maximum is on the edge and the interval is where it falls by half a chi-square quantile.
    Over prompts the interval is that of `Counts.acceptance`.
    """
    accepted, ended = counts.accepted, int(counts.events.sum())
    if accepted + ended == 0:
        return "no data", Estimate(math.nan, 0.0, 1.0)
    if ended == 0:
        acceptance = Estimate(1.0, math.exp(-HALF_CHI2_95 / accepted), 1.0)
        reason = "every run is censored, no rejection was seen"
    elif accepted == 0:
        acceptance = Estimate(0.0, 0.0, -math.expm1(-HALF_CHI2_95 / ended))
        reason = "every value is 0"
    else:
        seen, acceptance = np.flatnonzero(counts.events), Estimate(accepted / (accepted + ended), 0.0, 1.0)
        constant = seen.size == 1 and not counts.censored[seen[0] + 1 :].any()
        reason = f"every value is {seen[0]}" if constant else ""
    return reason, acceptance if counts.clusters is None else counts.acceptance


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
    """95 % intervals: normal or t on the free scale where that is a fair picture, profile likelihood elsewhere.

    NaN ends where all runs are from one prompt, which says nothing about others, and where so few prompts say anything
    that as many parameters follow them all.
    """
    few = 1 if model.name == "geometric" else len(theta) + 1
    if counts.telling is not None and counts.telling <= few:
        return [Estimate(value, math.nan, math.nan) for value in theta]
    if model.name == "geometric" and counts.clusters is not None:
        return [counts.acceptance]
    limit = model.limit
    if limit is not None and status == f"boundary: {limit.label}":
        return _limit_intervals(counts, model, limit, theta)
    free, box = _free_likelihood(counts, model), _box(model.parameters)
    at = _to_free(theta, model.parameters)
    simple = covariance(free, at) if status == "ok" else None
    variance, design = _over_prompts(counts, model, at, simple)
    reach = _reach(counts)
    errors = None if variance is None else np.sqrt(np.diag(variance))
    if errors is not None and errors.max() <= LARGEST_WALD_ERROR:
        ends = [at - reach * errors, at + reach * errors]
    else:
        peak = Maximum(at, free(at))
        drops = reach**2 / 2 * design
        ends = np.array([profile_interval(free, peak, i, box, drop) for i, drop in enumerate(drops)]).T
    low, high = (_to_natural(_open(end, box), model.parameters) for end in ends)
    return [Estimate(*each) for each in zip(theta, low, high, strict=True)]


def _reach(counts: Counts) -> float:
    """Standard errors that an interval reaches to a side."""
    return NORMAL_975 if counts.telling is None else float(t_975(counts.telling - 1))


def _over_prompts(
    counts: Counts, model: Family, at: NDArray[np.float64], simple: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """The sandwich [n, n] around ``simple``, the covariance that independent runs would give, and design effects [n].

    Without ``simple`` there is no sandwich, and the design effect is that of the acceptance.
    """
    if counts.clusters is None or counts.telling is None:
        return simple, np.ones(at.size)
    if simple is None:
        return None, np.full(at.size, _design_of_acceptance(counts))
    scores = _scores(counts, model, at)
    factor = counts.telling / (counts.telling - 1)
    variance = simple @ (scores.T @ scores * factor) @ simple
    return variance, np.maximum(np.diag(variance) / np.diag(simple), 1.0)


def _scores(counts: Counts, model: Family, at: NDArray[np.float64], step: float = 1e-5) -> NDArray[np.float64]:
    """Slope of the log-likelihood of the runs of each prompt, [P, n], by central differences on the free scale."""
    clusters = counts.clusters
    assert clusters is not None
    columns = []
    for move in np.eye(at.size) * step:
        up, down = (_log_chances(clusters, model, _to_natural(at + sign * move, model.parameters)) for sign in (1, -1))
        columns.append(clusters.sums((up - down) / (2 * step)))
    return np.stack(columns, axis=1)


def _log_chances(clusters: Clusters, model: Family, theta: Theta) -> NDArray[np.float64]:
    """Log-likelihood of one run of each row of ``clusters``, [M]."""
    found = np.empty(clusters.length.size)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        for rows, function in ((~clusters.cut, model.log_pmf), (clusters.cut, model.log_survival)):
            lengths, back = np.unique(clusters.length[rows], return_inverse=True)
            if lengths.size:
                found[rows] = function(theta, lengths.astype(float))[back]
    return found


def _design_of_acceptance(counts: Counts) -> float:
    """How many times larger the variance of the acceptance is than that of independent runs, at least 1."""
    accepted, ended, found = counts.accepted, int(counts.events.sum()), counts.acceptance
    if not accepted or not ended or not math.isfinite(found.low):
        return float(counts.n / counts.independent)
    error = (special.logit(found.high) - special.logit(found.low)) / 2 / _reach(counts)
    return max(error**2 / (1 / accepted + 1 / ended), 1.0)


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
    drop = _reach(counts) ** 2 / 2 * _design_of_acceptance(counts) if counts.clusters else HALF_CHI2_95
    _, high = profile_interval(free, peak, limit.vanishing, box, drop)
    top = list(peak.at)
    top[limit.vanishing] = high
    natural = _to_natural(_open(np.array(top), box), model.parameters)[limit.vanishing]
    estimates[limit.vanishing] = Estimate(0.0, 0.0, natural)
    return estimates
