"""The whole path with the embedded pair: collect, simulate, plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.cost import CostModel
from analysis.plots.canvas import save
from analysis.plots.panels import panel
from analysis.replay.result import SimulationResult
from analysis.replay.simulate import USUAL, simulate
from analysis.replay.sweep import Baseline, baseline
from oracle.collect import Collected, collect
from oracle.models.pair import Pair
from oracle.prompts.sets import PromptSet
from oracle.records.trace import Trace

SETS = ("demo-code", "demo-text")


@dataclass(frozen=True)
class Recorded:
    """One data set: its trace and what the usual policies would have done on it."""

    folder: Path
    trace: Trace
    summary: Collected
    results: tuple[SimulationResult, ...]
    baseline: Baseline  # the best constant length, which the others are compared with


def record(
    pair: Pair, prompts: PromptSet, out: Path, cost: CostModel, *, force: bool = False, progress: bool = False
) -> Recorded:
    """Collect ``prompts`` into a folder of ``out`` and replay the usual policies; a finished trace is used again."""
    folder = out / prompts.name
    summary = collect(pair, prompts, folder, resume=not force, force=force, progress=progress)
    trace = Trace.load(folder)
    results = tuple(simulate(trace, policy, cost) for policy in USUAL)
    return Recorded(folder, trace, summary, results, baseline(trace, cost))


PICTURE = "histogram.png"


def check_picture(out: Path) -> None:
    """Raise ValueError where the place of the picture is taken by a file that no demo wrote."""
    picture = out / PICTURE
    if picture.exists() and not (out / SETS[0] / "meta.json").is_file():
        raise ValueError(f"{picture} is there and not the demo's; --force replaces it, or name another folder")


def draw(traces: Mapping[str, Trace], out: Path) -> Path:
    """A histogram of each trace in one picture; its path."""
    return save(panel(traces, "histogram"), out / PICTURE)
