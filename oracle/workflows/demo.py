"""The whole path with the embedded pair: collect, simulate, plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.cost import CostModel
from analysis.plots.canvas import save
from analysis.plots.panels import panel
from analysis.replay.simulate import USUAL, SimulationResult, simulate
from oracle.collect import Summary, collect
from oracle.models.pairs import Pair
from oracle.prompts.sets import PromptSet
from oracle.records.trace import Trace

SETS = ("demo-code", "demo-text")


@dataclass(frozen=True)
class Recorded:
    """One data set: its trace and what the usual policies would have done on it."""

    folder: Path
    trace: Trace
    summary: Summary
    results: tuple[SimulationResult, ...]


def record(
    pair: Pair, prompts: PromptSet, out: Path, cost: CostModel, *, force: bool = False, progress: bool = False
) -> Recorded:
    """Collect ``prompts`` into a folder of ``out`` and replay the usual policies; a finished trace is used again."""
    folder = out / prompts.name
    summary = collect(pair, prompts, folder, resume=not force, force=force, progress=progress)
    trace = Trace.load(folder)
    return Recorded(folder, trace, summary, tuple(simulate(trace, policy, cost) for policy in USUAL))


def draw(traces: Mapping[str, Trace], out: Path) -> Path:
    """A histogram of each trace in one picture; its path."""
    return save(panel(traces, "histogram"), out / "histogram.png")
