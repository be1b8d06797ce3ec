"""What another draft would give: one that costs half as much, one that is right a tenth more often."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.gains.loss import BreakEven, break_even
from analysis.intervals import Estimate
from analysis.replay.sweep import constants, sweep
from oracle.records.trace import Overruns, Trace

FASTER = 0.5  # of a draft's prices
BETTER = 1.1  # times the share of tokens on which the draft agrees
MOST = 0.99  # of the tokens; no draft is made to agree on more


@dataclass(frozen=True)
class WhatIf:
    """Speedups of the best constant lookahead, chosen on these prompts: with this draft, and with two better ones."""

    now: Estimate
    twice_as_fast: Estimate  # every price of the draft halved
    more_accurate: Estimate | None  # wrong tokens made right at random; None where the record cannot be changed so
    acceptance: float  # share of the text's tokens that the draft would choose too
    acceptance_then: float  # the same of the more accurate one
    break_even: BreakEven


def what_if(trace: Trace, cost: CostModel, seed: int = 0) -> WhatIf:
    """Replay the constants with other prices, and with another record; signals play no part."""
    trace = dataclasses.replace(trace)
    acceptance = float((trace.run > 0).mean())
    then = min(MOST, BETTER * acceptance) if acceptance < MOST else acceptance
    chain = trace.draft_tokens is not None and trace.rounds is None
    return WhatIf(
        now=_best(trace, cost),
        twice_as_fast=_best(trace, scaled_draft(cost, FASTER)),
        more_accurate=_best(agreeing(trace, then, seed), cost) if chain else None,
        acceptance=acceptance,
        acceptance_then=then,
        break_even=break_even(trace, cost),
    )


def scaled_draft(cost: CostModel, times: float) -> CostModel:
    """The same prices, but all of the draft's ``times`` as high; their errors are not known then."""
    return dataclasses.replace(
        cost,
        draft=cost.draft * times,
        draft_first=None if cost.draft_first is None else cost.draft_first * times,
        draft_phase=tuple((tokens, price * times) for tokens, price in cost.draft_phase),
        draft_context=cost.draft_context * times,
        draft_prefill=cost.draft_prefill * times,
        covariance=(),
    )


def agreeing(trace: Trace, share: float, seed: int = 0) -> Trace:
    """A chain draft's trace on which it agrees on ``share`` of the tokens: some wrong ones made right, at random.

    What it said after those is gone, and so are all signals: this is for policies that only count.  ``share`` is at
    least the trace's own.
    """
    wrong = np.flatnonzero(~trace.agrees)
    count = round(share * trace.tokens) - (trace.tokens - len(wrong))
    chosen = np.random.default_rng(seed).choice(wrong, size=max(0, count), replace=False)
    draft = np.array(trace.need("draft_tokens", for_="a draft that is right more often"))
    draft[chosen] = trace.target_tokens[chosen]
    return dataclasses.replace(
        trace,
        draft_tokens=draft,
        confidence=None,
        entropy=None,
        margin=None,
        overruns=None if trace.overruns is None else _without(trace.overruns, chosen),
        extra={},
    )


def _without(over: Overruns, gone: np.ndarray) -> Overruns:
    """The overruns after all other positions, tokens only."""
    rows = np.flatnonzero(~np.isin(over.position, gone))
    sizes = np.diff(over.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.repeat(over.offsets[:-1][rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
    tokens = None if over.tokens is None else over.tokens[entries]
    return Overruns(over.position[rows], offsets, tokens, None, None, None)


def _best(trace: Trace, cost: CostModel) -> Estimate:
    return sweep(trace, cost, constants()).results[0].speedup_estimate()
