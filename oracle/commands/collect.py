"""``oracle collect``: run the models once and record everything that a policy could see."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.bounds import Between, expect_one_of
from oracle.commands.destinations import check_folder
from oracle.commands.groups import takes
from oracle.commands.notes import note, note_left_out, note_next, warnings_as_notes
from oracle.commands.options import Json, NewTokens, OutputOptions, Overrun, PairOptions, PromptOptions
from oracle.commands.programs import plain, show_json
from oracle.commands.prompts import show_prompts
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from oracle.collect import Collected


def register(app: typer.Typer) -> None:
    app.command()(collect)


@takes()
def collect(
    pair: PairOptions,
    prompts: PromptOptions,
    output: OutputOptions,
    out: Annotated[Path | None, typer.Argument(help="Folder of the trace; default: traces/PAIR-DATASET.")] = None,
    max_new_tokens: NewTokens = 128,
    max_overrun: Overrun = 32,
    top_k: Annotated[
        int,
        typer.Option(help="Record that many of the draft's largest probabilities too (disco reads 10)."),
        Between(0, 1000),
    ] = 0,
    batch_size: Annotated[
        int | None, typer.Option(help="Prompts at once; default: by device."), Between(1, 65_536)
    ] = None,
    reference: Annotated[
        str,
        typer.Option(help="Whose text: plain (the target alone) or assisted (a run with a draft; for half precision)."),
    ] = "plain",
    as_json: Json = False,
) -> None:
    """Let the target write its answers once, and record at every token what the draft would have said.

    Without arguments it records the embedded pair on the demo prompts.
    """
    from oracle.collect import REFERENCES
    from oracle.collect import collect as record
    from oracle.models.checks import unequal_rows
    from oracle.records.trace import FOLDER
    from oracle.records.writing import expect_may_write

    expect_one_of("--reference", reference, REFERENCES)
    check_folder(out or Path("traces"))
    if out is not None:
        expect_may_write(FOLDER, out, resume=output.resume, force=output.force)
    chosen = prompts.load()
    with warnings_as_notes():
        loaded = pair.load()
        out = out or Path("traces") / f"{loaded.name or 'pair'}-{chosen.name}".replace("/", "_")
        summary = record(
            loaded,
            chosen,
            out,
            max_new_tokens=max_new_tokens,
            max_overrun=max_overrun,
            top_k=top_k,
            batch_size=batch_size,
            chat=prompts.chat,
            reference=reference,
            resume=output.resume,
            force=output.force,
            progress=output.progress,
        )
    note_left_out(FOLDER.read_meta(out))
    if as_json:
        show_json({"trace": str(out), **plain(summary)})
    else:
        if summary.facts is not None:
            show_prompts(summary.facts, max_new_tokens)
        show_summary(summary, out)
        note_next(("oracle", "simulate", out), ("oracle", "plot", out, "histogram"))
    if problem := unequal_rows(loaded):
        note(f"Note: recorded, but it cannot be measured: {problem}.")


def show_summary(summary: Collected, out: Path) -> None:
    """A trace's numbers."""
    rows = [
        ("prompts", summary.prompts),
        ("skipped", summary.skipped),
        ("tokens", summary.tokens),
        ("agreement of draft and target", f"{summary.agreement:.1%}"),
        ("oracle SL, accepted (r): mean ± SD", _mean_and_spread(summary.accepted_mean, summary.accepted_sd)),
        ("oracle SL, detect (r + 1): mean ± SD", _mean_and_spread(summary.detect_mean, summary.detect_sd)),
        ("iterations cut short by the text's end", f"{summary.censored:.1%}"),
    ]
    if summary.seconds:
        rows.append(("seconds", f"{summary.seconds:.1f} ({summary.tokens_per_second:.0f} tokens/s)"))
    show_table(f"Trace {out}", ["", "value"], rows)


def _mean_and_spread(mean: float, deviation: float) -> str:
    return f"{mean:.2f}" if math.isnan(deviation) else f"{mean:.2f} ± {deviation:.2f}"
