"""``oracle train``: fit what a policy may learn from a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands.bounds import Between
from oracle.commands.destinations import check_file
from oracle.commands.groups import takes
from oracle.commands.inputs import load_trace
from oracle.commands.notes import note, note_next, say
from oracle.commands.options import Force, OneTrace


def register(app: typer.Typer) -> None:
    app.command()(train)


@takes()
def train(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="specdec++, margin, or disco (a trace collected with --top-k).")
    ],
    trace: OneTrace = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; default: POLICY.json.")] = None,
    longest: Annotated[
        int | None,
        typer.Option("--longest", help="Tokens of a draft to fit for; default: the policy's."),
        Between(1, 1000),
    ] = None,
    force: Force = False,
) -> None:
    """Fit what a policy predicts acceptance with to a trace, and write it to a file that the policy takes.

    The policy is then written POLICY:file=FILE, and refused on the prompts that it was trained on.
    """
    from analysis.train.fitting import FITS
    from oracle.policies.heads import KIND
    from oracle.workflows.train import train as fit

    if policy not in FITS:
        raise ValueError(f"policy {policy!r} is not trained; legal: {', '.join(FITS)}")
    file = output or Path(f"{policy}.json")
    check_file(file, (".json",), made=KIND.encode(), force=force)
    found = fit(policy, load_trace(trace), file, longest)
    how = (
        f"{found.loss:.3f} nats a token on held-out prompts, {found.plain_loss:.3f} without it"
        if found.loss is not None
        else "too few prompts to hold any out"
    )
    say(f"Head: {file} ({found.tokens:,} tokens; {how})")
    if found.loss is not None and found.plain_loss is not None and found.loss >= found.plain_loss:
        note("Note: on held-out prompts it says no more than the mean rate of acceptance; collect more prompts.")
    note_next(["oracle", "simulate", "OTHER-TRACE", "-p", f"{policy}:file={file}"])
