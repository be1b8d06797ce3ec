"""``oracle iterations``: every oracle iteration of a trace as a row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from oracle.commands.destinations import check_file
from oracle.commands.groups import takes
from oracle.commands.inputs import load_traces
from oracle.commands.notes import note
from oracle.commands.options import Force, Traces

_HEAD = b"prompt,iteration,position,accepted,detect,censored"


def register(app: typer.Typer) -> None:
    app.command()(iterations)


@takes()
def iterations(
    traces: Traces = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file.")] = None,
    force: Force = False,
) -> None:
    """List every oracle iteration: prompt, iteration, position, accepted, detect, censored.

    Of several traces, each row begins with the name of its own.
    """
    import pandas

    from oracle.records.folder import write_whole

    if csv is not None:
        check_file(csv, made=_HEAD, force=force)
    loaded = load_traces(traces)
    frames = [trace.iterations() for trace in loaded.values()]
    frame = frames[0]
    if len(frames) > 1:
        frame = pandas.concat(frames, keys=list(loaded), names=["trace"]).reset_index(level="trace")
    if csv is None:
        frame.to_csv(sys.stdout, index=False)
        return
    csv.parent.mkdir(parents=True, exist_ok=True)
    write_whole(csv, lambda temporary: frame.to_csv(temporary, index=False))
    note(f"{len(frame):,} iterations written to {csv}")
