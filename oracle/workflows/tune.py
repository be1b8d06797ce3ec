"""Which policy to use: as one call, paths, numbers and objects in, a typed answer out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis import tune as tuning
from analysis.cost import CostModel
from analysis.tune import Tuned
from oracle.records.trace import Trace
from oracle.workflows.inputs import as_cost, as_trace, several


def tune(
    trace: Trace | str | Path,
    cost: CostModel | float | str | Path | None = None,
    families: str | Sequence[str] | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
) -> Tuned:
    """Choose a policy, its threshold and its cap on a trace, judged on prompts that had no part in the choice.

    ``families`` are policies whose settings are tried (default: constant, heuristics and dynamic; "all": every one
    that needs no training).  Raises ValueError for a policy or a file that will not do, for prices of another pair and
    for fewer than two ``folds``, RuntimeError where the trace holds too little for everything that was asked for.
    """
    chosen = None if families is None else several(families)
    return tuning.tune(as_trace(trace), as_cost(cost), chosen, folds=folds, seed=seed)
