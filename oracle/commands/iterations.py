"""``oracle iterations``: every oracle iteration of a trace as a row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(iterations)


def iterations(
    trace: opt.OneTrace = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")] = None,
) -> None:
    """List every oracle iteration: prompt, iteration, position, accepted, detect, censored."""
    import sys

    frame = opt.load_trace(trace).iterations()
    frame.to_csv(sys.stdout if csv is None else csv, index=False)
    if csv is not None:
        opt.note(f"{len(frame):,} iterations written to {csv}")
