"""Where the time of an iteration goes, and what would have to change for a draft to pay."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.closed_form import break_even_acceptance
from analysis.cost import CostModel
from analysis.replay.result import SimulationResult
from analysis.replay.simulate import simulate
from analysis.replay.sweep import LENGTHS
from oracle.records.trace import Trace

_FREE = 1e-9  # of its price: what is left of a draft's below this is rounding


@dataclass(frozen=True)
class Iteration:
    """An average iteration of a policy; times in steps of the target alone, which emit a token each."""

    policy: str
    tokens: float  # emitted
    draft: float
    wasted: float  # of ``draft``: on tokens that were not kept
    verification: float
    overhead: float

    @property
    def total(self) -> float:
        return self.draft + self.verification + self.overhead


@dataclass(frozen=True)
class BreakEven:
    """What would make the best constant exactly as fast as the target alone, all else unchanged."""

    draft_cost: float  # price of a draft step here, in steps of the target alone
    draft_cost_needed: float | None  # None: not even a draft that costs nothing
    by: str | None  # the constant that would pay first
    acceptance_needed: float | None  # of independent tokens, in long texts; None: not even if all were accepted


@dataclass(frozen=True)
class Loss:
    """Why a draft does not pay."""

    iteration: Iteration  # of the best setting that was tried
    break_even: BreakEven


def loss(trace: Trace, policy: str, cost: CostModel) -> Loss:
    """Take the time of ``policy`` (the best that was tried) apart, and look for where constants break even."""
    # A copy, so that what is derived of the trace goes when this is done.
    trace = dataclasses.replace(trace)
    return Loss(iteration(trace, simulate(trace, policy, cost)), break_even(trace, cost))


def iteration(trace: Trace, result: SimulationResult) -> Iteration:
    """The average iteration of a replay."""
    step = result.plain_seconds.sum() / trace.tokens
    draft = _drafting(trace, result)
    kept = np.divide(result.accepted, result.drafted, out=np.zeros(result.iterations), where=result.drafted > 0)
    total, overhead = float(result.seconds.sum()), result.cost.iteration * result.iterations
    unit = step * result.iterations
    return Iteration(
        policy=result.policy,
        tokens=result.tokens_per_iteration,
        draft=float(draft.sum() / unit),
        wasted=float((draft * (1 - kept)).sum() / unit),
        verification=float((total - draft.sum() - overhead) / unit),
        overhead=float(overhead / unit),
    )


def break_even(trace: Trace, cost: CostModel, lengths: Sequence[int] = LENGTHS) -> BreakEven:
    """Prices and acceptance at which the best constant of ``lengths`` would just pay.

    All draft prices are taken to change by one factor; the constant that bears the largest is the one named.
    """
    factor, step, by = -np.inf, np.nan, None
    for tokens in lengths:
        result = simulate(trace, f"constant:tokens={tokens}", cost)
        draft = float(_drafting(trace, result).sum())
        if draft == 0:
            continue
        plain = float(result.plain_seconds.sum())
        bears = (plain - float(result.seconds.sum()) + draft) / draft
        if bears > factor:
            factor, by = bears, result.policy
            step = draft / result.draft_passes / (plain / trace.tokens)
    pays = by is not None and factor > _FREE
    return BreakEven(
        draft_cost=float(step),
        draft_cost_needed=float(factor * step) if pays else None,
        by=by if pays else None,
        acceptance_needed=break_even_acceptance(cost, lengths, float(trace.context.mean())),
    )


def _drafting(trace: Trace, result: SimulationResult) -> np.ndarray:
    """Price of each iteration's draft, float [I]."""
    context = trace.context[trace.offsets[result.prompt] + result.position]
    return result.cost.drafting(result.passes, context)
