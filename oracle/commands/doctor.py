"""``oracle doctor``: what this machine has, and what to do about what is missing."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import typer

from oracle.commands.groups import takes
from oracle.commands.notes import say
from oracle.commands.options import Json
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from oracle.workflows.doctor import Health


def register(app: typer.Typer) -> None:
    app.command()(doctor)


@takes()
def doctor(as_json: Json = False) -> None:
    """Look at this machine: versions, devices, speed of bfloat16, the hub, memory, disk; and say what is missing.

    It takes a few seconds; the hub is asked once, for at most five of them.
    """
    from oracle.workflows.doctor import examine

    found = examine()
    if as_json:
        show_json(found)
        return
    show_table("This machine", ["", "found"], _rows(found))
    for each in found.todo or ["Nothing is missing."]:
        say(textwrap.fill(each, 80, initial_indent="- ", subsequent_indent="  "), lines=True)


def _rows(found: Health) -> list[tuple[str, str]]:
    ratio = found.bfloat16_ratio
    speed = f"{ratio:.1f} times the time of float32" if ratio > 1 else f"{1 / ratio:.1f} times as fast as float32"
    return [
        *((name, known or "not installed") for name, known in found.versions.items()),
        ("cores", f"{found.cores}, of which torch uses {found.threads}"),
        *(("device", f"{each.name}: {each.what}{_size(each.memory)}") for each in found.devices),
        ("a product in bfloat16", speed),
        ("hub", "reached" if found.hub is None else f"not reached ({found.hub})"),
        ("dynamic's threshold", "adapted by transformers (policy roc)" if found.scikit_learn else "kept"),
        ("free memory", "not known" if found.memory is None else f"{found.memory / 1e9:.1f} GB"),
        ("free disk", f"{found.disk / 1e9:.1f} GB"),
        ("the shipped pair", "found" if found.pair else "not found"),
    ]


def _size(memory: int | None) -> str:
    return "" if memory is None else f", {memory / 1e9:.0f} GB"
