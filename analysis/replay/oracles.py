"""The three oracles.  They are handed the trace, so they know what no drafter can know."""

from __future__ import annotations

import numpy as np

from analysis.cost import CostModel
from oracle.records.trace import Trace


def detect(trace: Trace, cost: CostModel) -> np.ndarray:
    """Draft until the draft disagrees: run length + 1 draft passes where the budget allows it, int64 [N].

    The oracle of the published analysis (Mamou et al., arXiv 2405.04304): the pass that disagrees is paid.
    """
    return np.minimum(trace.accepted_run + 1, trace.budget)


def clairvoyant(trace: Trace, cost: CostModel) -> np.ndarray:
    """Draft exactly what will be accepted, int64 [N]."""
    return trace.accepted_run


def optimal(trace: Trace, cost: CostModel) -> np.ndarray:
    """The cheapest way to produce each text under ``cost``, int64 [N]; nothing can beat it.

    Dynamic programme over positions, from the end: V(t) = min over k <= run(t) of round(k, context) + V(t + k + 1).
    Drafting past the run only adds cost, since costs never fall with tokens.
    """
    run, context, ends = trace.accepted_run, trace.context, trace.end
    best = np.zeros(trace.tokens, dtype=np.int64)
    value = np.zeros(trace.tokens + 1)  # of the positions of the text at hand; those after its end cost nothing
    base = cost.round(np.arange(run.max(initial=0) + 1))
    drafts = np.arange(len(base))
    slope = cost.draft_context * drafts + cost.verify_context  # what one token of context adds to a round of k
    for at in range(trace.tokens - 1, -1, -1):
        size = int(run[at]) + 1
        total = base[:size] + slope[:size] * context[at]
        rest = value[at + 1 : at + 1 + size]
        if at + size == ends[at]:  # the round ends the text: what follows in the array is another prompt's
            total = total + np.append(rest[:-1], 0.0)
        else:
            total = total + rest
        best[at] = int(np.argmin(total))
        value[at] = total[best[at]]
    return best


ORACLES = {"oracle:detect": detect, "oracle:clairvoyant": clairvoyant, "oracle:optimal": optimal}
