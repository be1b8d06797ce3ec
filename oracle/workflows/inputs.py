"""What a person hands in, a path, a number or an object, as the object that it means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from analysis.cost import CostModel
from oracle.records.runs import Runs
from oracle.records.trace import Trace


def as_trace(given: Trace | str | Path) -> Trace:
    """A trace, or the one in a folder.  Raises TypeError for anything else."""
    if isinstance(given, Trace):
        return given
    return Trace.load(_path(given, "a trace: oracle.Trace, or its folder"))


def as_runs(given: Runs | str | Path) -> Runs:
    """Measured runs, or those in a folder.  Raises TypeError for anything else."""
    if isinstance(given, Runs):
        return given
    return Runs.load(_path(given, "measured runs: oracle.Runs, or their folder"))


def as_cost(given: CostModel | float | str | Path | None) -> CostModel:
    """A cost model, the one in a file, or the textbook one with that price of a draft step (None: 0.1)."""
    if given is None:
        return CostModel(draft=0.1)
    if isinstance(given, CostModel):
        return given
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return CostModel(draft=float(given))
    wanted = "prices: oracle.CostModel, its file, or the time of a draft step over that of a target step"
    return CostModel.load(_path(given, wanted))


def several(given: object) -> list:
    """A list of what was given: its elements where it is a list or a tuple, else it alone."""
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _path(given: object, wanted: str) -> str | Path:
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"{type(given).__name__} given, which is not {wanted}")
    if not os.fspath(given):
        raise ValueError(f"an empty path given; wanted is {wanted}")
    return Path(given)
