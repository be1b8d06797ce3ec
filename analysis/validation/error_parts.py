"""Where the error of a simulated speedup comes from: which ingredient, how much, and how surely."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from analysis.cost import CostModel
from analysis.intervals import Estimate, estimates
from analysis.measured.speedups import Paired, plain_steps
from oracle.records.runs import Call

PARTS = ("counts", "draft", "verify", "iteration", "plain", "drift")


def split(
    simulated: tuple[np.ndarray, np.ndarray],
    measured: Paired,
    calls: Sequence[Sequence[Call]],
    plain: Sequence[Sequence[Call]],
    cost: CostModel,
    disturbed: Collection[tuple[str, int, int]] = (),
) -> tuple[Estimate, dict[str, Estimate]]:
    """The error simulated / measured - 1 of the decoding speedup, and the six terms that add up to it.

    ``simulated`` are the replay's seconds without and with the policy, float [P] each; ``measured`` the clock's by
    repeat; ``calls`` and ``plain`` the calls of each prompt, by repeat.  Starting from the simulated speedup, one
    ingredient after the other is replaced by the measured one, and each term is what that changed: the counts (whose
    iterations), the draft's seconds, the verification's, the constant of an iteration, the steps of plain decoding.
    Measured seconds are each prompt's mean over the repeats that were not ``disturbed`` (keys of calls), as in the
    fit; what is left after the last replacement is drift: how far the ratio of those means is from the speedup, which
    is of each prompt's median over the repeats.  Intervals are over prompts (``analysis.intervals``).
    """

    def quiet(group: Sequence[Call]) -> Sequence[Call]:
        return [call for call in group if call.key not in disturbed]

    model = [_priced(group[0], cost) for group in calls]
    clock = [np.mean([_clocked(call) for call in quiet(group)], axis=0) for group in calls]
    priced = [
        cost.step(len(one[0].prompt_tokens) + np.arange(one[0].accepted[0] + 1, len(one[0].tokens))).sum()
        for one in calls
    ]
    clocked = [
        np.mean([plain_steps(one, group[0]).sum() for one in quiet(base)])
        for base, group in zip(plain, calls, strict=True)
    ]
    sums = np.column_stack([*simulated, model, clock, priced, clocked, *measured.medians])
    error, *parts = estimates(sums, _terms)
    return error, dict(zip(PARTS, parts, strict=True))


def _terms(totals: np.ndarray) -> np.ndarray:
    """Totals [..., K], columns as in ``split``, to the error and its parts [..., 7]."""
    model, clock = totals[..., 2:5], totals[..., 5:8]
    priced, clocked, measured = totals[..., 8], totals[..., 9], totals[..., 10] / totals[..., 11]
    mixed = [clock[..., :known].sum(-1) + model[..., known:].sum(-1) for known in range(4)]
    stages = [
        totals[..., 0] / totals[..., 1],
        *(priced / seconds for seconds in mixed),
        clocked / mixed[-1],
        measured,
    ]
    changes = np.diff(np.stack(stages, axis=-1), axis=-1)
    parts = -np.asarray(changes, dtype=float) / measured[..., None]
    return np.concatenate([(stages[0] / measured - 1)[..., None], parts], axis=-1)


def _priced(call: Call, cost: CostModel) -> np.ndarray:
    """Draft, verification and constant of a call's later iterations at the model's prices, float [3]."""
    drafted, context = call.drafted[1:], call.position[1:] + len(call.prompt_tokens)
    draft = cost.drafting(drafted, context).sum()
    verify = (cost.verification(drafted + 1) + cost.verify_context * context).sum()
    return np.array([draft, verify, cost.iteration * len(drafted)])


def _clocked(call: Call) -> np.ndarray:
    """The same as measured, float [3]."""
    return np.array([call.draft_seconds[1:].sum(), call.verify_seconds[1:].sum(), call.rest_seconds[1:].sum()])
