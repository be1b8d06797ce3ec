"""From what is kept of a cell to its row of the table."""

from __future__ import annotations

from typing import Any

from analysis.tables.speedups import CONSTANT, GIVEN, TUNED, Line, Row
from oracle.workflows.study.kept import Kept, as_estimate, estimates
from oracle.workflows.study.recipe import Cell

EMBEDDED = "demo"


def row(cell: Cell, kept: Kept) -> Row:
    """The row of a cell, with as much as its stages have found."""
    collected, clocked = kept.stages.get("collect", {}), kept.stages.get("measure", {})
    measured = estimates(clocked.get("measured", {}))
    replayed = kept.stages.get("simulate", {})
    simulated = estimates(replayed.get("simulated", {}))
    published = cell.published.speedups if cell.published else {}
    lines = [
        Line(policy, GIVEN, published.get(policy), measured.get(policy), simulated.get(policy))
        for policy in cell.policies
    ]
    if tuned := kept.stages.get("tune"):
        lines += [
            Line(tuned["constant"], CONSTANT, simulated=as_estimate(tuned["constant_speedup"])),
            Line(tuned["policy"], TUNED, simulated=as_estimate(tuned["speedup"])),
        ]
    missing = [f"{policy} cannot be replayed: {why}" for policy, why in replayed.get("left_out", {}).items()]
    return Row(
        name=cell.name,
        target=_model(cell, "target", collected),
        draft=_model(cell, "draft", collected),
        task=cell.task.name,
        recorded=collected.get("prompts", 0),
        clocked=clocked.get("prompts", 0),
        lines=tuple(lines),
        source=cell.published.source if cell.published else None,
        problem="; ".join(filter(None, [kept.problem, *missing])) or None,
    )


def _model(cell: Cell, role: str, collected: dict[str, Any]) -> str:
    """The last two parts of its name, as on the hub; of a pair by name what was loaded, if anything was yet."""
    if cell.models.name == EMBEDDED:
        return f"{EMBEDDED} {role}"
    name = getattr(cell.models, role) or collected.get(role) or cell.models.name
    return "/".join(name.rstrip("/").split("/")[-2:])
