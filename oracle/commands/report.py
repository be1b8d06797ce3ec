"""``oracle report``: everything about a trace on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands.destinations import PAGE, check_file
from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, decoder, load_runs, load_traces
from oracle.commands.notes import say
from oracle.commands.options import Force, Policies, PriceOptions, Tokenizer, Traces


def register(app: typer.Typer) -> None:
    app.command()(report)


@takes()
def report(
    prices: PriceOptions,
    traces: Traces = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Runs that `oracle measure` recorded, for one trace.")
    ] = None,
    policy: Policies = None,
    tokenizer: Tokenizer = None,
    force: Force = False,
) -> None:
    """Write one self-contained page: the answer, what was collected, figures, tables, and single prompts."""
    from analysis.examine import Source
    from analysis.replay.simulate import USUAL, check_policies
    from analysis.report.page import steps
    from oracle.progress import bar
    from oracle.workflows.questions import report as write_report

    check_file(output, made=PAGE, force=force)
    if runs is not None and len(traces or ()) > 1:
        raise ValueError(f"--runs belongs to one trace, {len(traces or ())} are given; write a report for each")
    check_policies(policy or ())
    loaded = load_traces(traces)
    costs = dict(zip(loaded, prices.each(loaded.values()), strict=True))
    measured = load_runs(runs) if runs is not None else None
    for name, trace in loaded.items():
        check_together(trace, measured, costs[name])
    sources = [Source(trace, name, costs[name], measured, decoder(trace, tokenizer)) for name, trace in loaded.items()]
    with bar("Report", "steps", steps(len(sources)), 0, True) as advance:
        page = write_report(sources, output, policies=policy or USUAL, tell=lambda step: advance(1, step))
    say(f"Page: {page}")
