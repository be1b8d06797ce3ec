"""``oracle report``: everything about a trace on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands import options as opt


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    traces: opt.Traces = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Runs that `oracle measure` recorded, for one trace.")
    ] = None,
    policy: opt.Policies = None,
    draft_cost: opt.DraftCost = None,
    cost: opt.CostFile = None,
    tokenizer: opt.Tokenizer = None,
) -> None:
    """Write one self-contained page: what was collected, the verdict, figures, tables, and single prompts to look into."""
    from analysis.replay.simulate import USUAL
    from analysis.report.page import Source
    from analysis.report.page import report as write_report

    prices = opt.load_cost(draft_cost, cost)
    loaded = opt.load_traces(traces)
    if runs is not None and len(loaded) > 1:
        raise ValueError(f"--runs belongs to one trace, {len(loaded)} are given; write a report for each")
    measured = opt.load_runs(runs) if runs is not None else None
    sources = [Source(trace, name, prices, measured, opt.decoder(trace, tokenizer)) for name, trace in loaded.items()]
    typer.echo(f"Page: {write_report(sources, output, policies=policy or USUAL)}")
