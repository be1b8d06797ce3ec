"""What is kept of a cell: how it was asked for, and each stage that has ended, with its numbers and its time."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.intervals import Estimate
from oracle.records.runs import FOLDER as RUNS
from oracle.records.trace import FOLDER as TRACE
from oracle.workflows.folders import JobFolder, clear_records, expect_same
from oracle.workflows.study.recipe import Cell

STUDY = JobFolder("a study", "study.json", "study_schema", 1)
CELL = JobFolder("a cell of a study", "cell.json", "cell_schema", 1)
FOLDER = "cells"
MADE = ("cost.json", "report.html", CELL.file)  # of a cell, beside its records
TABLES = {"markdown": "table.md", "latex": "table.tex", "csv": "table.csv"}
FILES = ("recipe.toml", *TABLES.values(), "index.html", STUDY.file)  # of a study


@dataclass(frozen=True)
class Kept:
    """One cell: ``stages`` by name, each with ``seconds``, ``ended`` and what it found, in JSON's types."""

    binding: dict[str, Any]
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    problem: str | None = None  # why the last attempt failed

    def with_stage(self, name: str, seconds: float, found: dict[str, Any]) -> Kept:
        """The same with a stage that has ended."""
        return replace(self, stages=self.stages | {name: {"seconds": round(seconds, 3), "ended": now(), **found}})

    def save(self, folder: Path) -> Kept:
        """Write it into the cell's folder, whole; the same."""
        folder.mkdir(parents=True, exist_ok=True)
        CELL.write(folder, asdict(self))
        return self


def folder_of(out: Path, cell: Cell) -> Path:
    """Where a cell's records are."""
    return out / FOLDER / cell.models.name / cell.task.name


def known(out: Path, cell: Cell) -> Kept | None:
    """What is there of a cell, None for nothing.  Raises ValueError where it was begun otherwise."""
    folder = folder_of(out, cell)
    if not (folder / CELL.file).exists():
        return None
    stored = CELL.read(folder)
    try:
        found = Kept(**stored)
        stages = {name: dict(each) for name, each in found.stages.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise CELL.unusable(folder, error) from None
    expect_same(folder, found.binding, cell.binding)
    return replace(found, stages=stages)


def clear(out: Path) -> None:
    """Remove what an earlier study left: files that are proved to be ours, or that only a study writes, and no other.

    Raises ValueError where something among the records is not ours.
    """
    for file in sorted((out / FOLDER).glob(f"*/*/{CELL.file}")):
        clear_records(RUNS, file.parent / "runs")
        clear_records(TRACE, file.parent / "trace")
        for name in MADE:
            (file.parent / name).unlink(missing_ok=True)
    for name in FILES:
        (out / name).unlink(missing_ok=True)


def now() -> str:
    """The time, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def as_json(value: Estimate | None) -> list[float | None] | None:
    """An estimate in JSON's types; null for numbers that JSON lacks."""
    if value is None:
        return None
    return [each if abs(each) < float("inf") else None for each in (value.value, value.low, value.high)]


def as_estimate(stored: Any) -> Estimate | None:
    """The estimate that was stored."""
    if stored is None:
        return None
    value, low, high = (float("nan") if each is None else float(each) for each in stored)
    return Estimate(value, low, high)


def estimates(stored: Mapping[str, Any]) -> dict[str, Estimate | None]:
    """Estimates by policy."""
    return {policy: as_estimate(value) for policy, value in stored.items()}
