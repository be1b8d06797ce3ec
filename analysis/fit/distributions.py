"""Fits distributions to accepted lengths: right-censored maximum likelihood, intervals, AIC and BIC, goodness of fit.

Lengths are in the ``accepted`` convention (support from 0); the ``detect`` convention is the same data plus 1. A run
that the end of the text cut short at c contributes P(SL >= c). Everything here is written once for all families.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.fit.counts import Counts
from analysis.fit.estimation import estimate, intervals, log_likelihood_of, undetermined
from analysis.fit.families import FAMILIES, Family
from analysis.fit.goodness import GoodnessOfFit, goodness_of_fit
from analysis.fit.kaplan_meier import KaplanMeier, kaplan_meier
from analysis.intervals import Estimate

__all__ = [
    "FAMILIES", "Counts", "Estimate", "Fit", "GoodnessOfFit", "KaplanMeier",
    "best", "fit", "fit_all", "goodness_of_fit", "kaplan_meier",
]  # fmt: skip


INDEPENDENT = "iterations taken as independent"


@dataclass(frozen=True)
class Fit:
    """One family at its maximum likelihood.

    ``status`` is ``ok``, or says what is special: ``boundary: ...`` (the best member of the family lies on its edge,
    where a smaller family does as well), ``degenerate: ...`` (the data do not determine this family; shown at its
    geometric case) or ``no data`` (no parameters; mean, sd and criteria are nan). An infinite mean or sd is real (the
    fitted tail is that heavy, or no rejection was seen) and ``note`` says so. An interval end of inf means that the
    data set no limit. ``over`` says what the intervals rest on.
    ``delta_aic`` is set by :func:`fit_all`, 0 otherwise.
    """

    family: str
    parameters: dict[str, Estimate]
    log_likelihood: float
    aic: float
    bic: float
    mean: float
    sd: float
    status: str
    n: int
    censored: int
    note: str = ""
    delta_aic: float = 0.0
    convention: str = "accepted"
    over: str = INDEPENDENT

    @property
    def theta(self) -> tuple[float, ...]:
        """The parameters' values in the family's order."""
        return tuple(estimate.value for estimate in self.parameters.values())

    @property
    def meanings(self) -> dict[str, str]:
        """What each parameter means, in words."""
        return {parameter.name: parameter.meaning for parameter in FAMILIES[self.family].parameters}

    @property
    def mean_accepted(self) -> float:
        """Mean number of accepted tokens."""
        return self.mean

    @property
    def mean_detect(self) -> float:
        """Mean number of draft passes up to and including the first disagreement."""
        return self.mean + 1

    def log_pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """log P(SL = k), same shape as ``k`` (whole numbers >= 0)."""
        return self._evaluate(FAMILIES[self.family].log_pmf, k)

    def log_sf(self, k: ArrayLike) -> NDArray[np.float64]:
        """log P(SL >= k), same shape as ``k``. (scipy's ``sf`` means strictly more than k.)"""
        return self._evaluate(FAMILIES[self.family].log_survival, k)

    def pmf(self, k: ArrayLike) -> NDArray[np.float64]:
        """P(SL = k), same shape as ``k``."""
        return np.exp(self.log_pmf(k))

    def _evaluate(self, function, k: ArrayLike) -> NDArray[np.float64]:
        k = np.asarray(k, dtype=float)
        if not self.parameters:
            raise ValueError(f"the {self.family} fit saw no data and has no probabilities; fit it to at least one run")
        if not np.all((k >= 0) & (k == np.floor(k))):
            raise ValueError(f"lengths must be whole numbers >= 0, not {k}")
        with np.errstate(divide="ignore", over="ignore"):
            return function(self.theta, k.ravel()).reshape(k.shape)


def fit(counts: Counts, family: str) -> Fit:
    """Maximum-likelihood fit of one family, see :class:`Fit`.

    An unknown family raises ValueError; a table without information does not, its fit says ``no data``.

    Intervals: on the log or logit scale, from the observed information where the likelihood is well rounded, profile
    likelihood otherwise; over prompts where ``counts`` knows them (`analysis.fit.estimation`). AIC and BIC are of the
    likelihood of independent runs: they order families, and do not measure evidence where runs of a prompt are alike.
    """
    model = _family(family)
    reason, acceptance = undetermined(counts)
    if reason == "no data":
        nan = math.nan
        cut = int(counts.censored.sum())
        return Fit(family, {}, 0.0, nan, nan, nan, nan, reason, counts.n, cut, over=_over(counts))
    if reason and (model.name != "geometric" or acceptance.value in (0, 1)):
        return _undetermined_fit(counts, model, reason, acceptance)
    log_likelihood, theta, status = estimate(counts, model)
    return _fit(counts, model, (log_likelihood, intervals(counts, model, theta, status), status))


def fit_all(counts: Counts, families: Iterable[str] = FAMILIES) -> list[Fit]:
    """Fits of all families, the geometric one first and always there; an empty list for a table without information.

    ``delta_aic`` is the distance to the smallest AIC in the list, whatever its status; :func:`best` names a winner.
    """
    names = list(dict.fromkeys(["geometric", *families]))
    fits = [fit(counts, name) for name in names]
    if fits[0].status == "no data":
        return []
    least = min(each.aic for each in fits)
    return [replace(each, delta_aic=each.aic - least) for each in fits]


def best(fits: Sequence[Fit]) -> Fit | None:
    """Smallest AIC among the fits that are ``ok``, or None if none is.

    A fit on its boundary owes its likelihood to a smaller family, so it is no ordinary winner.
    """
    return min((each for each in fits if each.status == "ok"), key=lambda each: each.aic, default=None)


def _family(name: str) -> Family:
    if name not in FAMILIES:
        raise ValueError(f"unknown family {name!r}; choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _fit(counts: Counts, model: Family, found: tuple[float, list[Estimate], str]) -> Fit:
    log_likelihood, estimates, status = found
    mean, variance = model.moments([estimate.value for estimate in estimates])
    note = (
        "the fitted mean is infinite"
        if math.isinf(mean)
        else "the fitted sd is infinite"
        if math.isinf(variance)
        else ""
    )
    names = [parameter.name for parameter in model.parameters]
    return Fit(
        family=model.name,
        parameters=dict(zip(names, estimates, strict=True)),
        log_likelihood=log_likelihood,
        aic=2 * len(estimates) - 2 * log_likelihood,
        bic=math.log(counts.n) * len(estimates) - 2 * log_likelihood,
        mean=mean,
        sd=math.sqrt(variance),
        status=status,
        n=counts.n,
        censored=int(counts.censored.sum()),
        note=note,
        over=_over(counts),
    )


def _over(counts: Counts) -> str:
    if counts.prompts is None:
        return INDEPENDENT
    return f"over {counts.prompts:,} prompts" if counts.prompts > 1 else "none, one prompt says nothing about others"


def _undetermined_fit(counts: Counts, model: Family, reason: str, acceptance: Estimate) -> Fit:
    """The family at its geometric case; parameters that the geometric case does not touch can be anything."""
    status = f"{'boundary' if model.name == 'geometric' else 'degenerate'}: {reason}"
    log_likelihood = log_likelihood_of(counts, FAMILIES["geometric"])((acceptance.value,))
    if counts.prompts == 1:
        unknown = [Estimate(value, math.nan, math.nan) for value in model.at_geometric(acceptance.value)]
        return _fit(counts, model, (log_likelihood, unknown, status))
    if 0 < acceptance.value < 1:
        (acceptance,) = intervals(counts, FAMILIES["geometric"], (acceptance.value,), "ok")
    ends = [model.at_geometric(a) for a in (acceptance.value, acceptance.low, acceptance.high)]
    estimates = [
        Estimate(value, *((low, high) if low != high else (0.0, 1.0 if parameter.kind == "share" else math.inf)))
        for parameter, value, low, high in zip(model.parameters, *ends, strict=True)
    ]
    return _fit(counts, model, (log_likelihood, estimates, status))
