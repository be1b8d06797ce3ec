"""``oracle collect``: run the models once and record everything that a policy could see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands import options as opt
from oracle.commands.tables import show_json, show_table


def register(app: typer.Typer) -> None:
    app.command()(collect)


def collect(
    out: Annotated[Path | None, typer.Argument(help="Folder of the trace; default: traces/PAIR-DATASET.")] = None,
    pair: opt.PairName = None,
    target: opt.Target = None,
    draft: opt.Draft = None,
    dataset: opt.Dataset = "demo-code",
    split: opt.Split = None,
    limit: opt.Limit = None,
    seed: opt.Seed = None,
    chat: opt.Chat = False,
    max_new_tokens: opt.NewTokens = 128,
    max_overrun: opt.Overrun = 32,
    batch_size: Annotated[int | None, typer.Option(help="Prompts at once; default: by device.")] = None,
    reference: Annotated[
        str,
        typer.Option(help="Whose text: plain (the target alone) or assisted (a run with a draft; for half precision)."),
    ] = "plain",
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    resume: opt.Resume = False,
    force: opt.Force = False,
    progress: opt.Progress = True,
    as_json: opt.Json = False,
) -> None:
    """Let the target write its answers once, and record at every token what the draft would have said.

    Without arguments it records the embedded pair on the demo prompts.
    """
    import oracle
    from oracle.models.checks import unequal_rows

    prompts = oracle.load_prompts(dataset, split=split, limit=limit, seed=seed)
    loaded = opt.load_pair(pair, target, draft, dtype, device, draft_device)
    out = out or Path("traces") / f"{loaded.name or 'pair'}-{prompts.name}".replace("/", "_")
    summary = oracle.collect(
        loaded,
        prompts,
        out,
        max_new_tokens=max_new_tokens,
        max_overrun=max_overrun,
        batch_size=batch_size,
        chat=chat,
        reference=reference,
        resume=resume,
        force=force,
        progress=progress,
    )
    show_summary(summary, out, as_json)
    if problem := unequal_rows(loaded):
        opt.note(f"Note: recorded, but it cannot be measured: {problem}.")


def show_summary(summary, out: Path, as_json: bool = False) -> None:
    """A trace's numbers, and what to do with it next."""
    import dataclasses

    if as_json:
        show_json({"trace": str(out), **dataclasses.asdict(summary)})
        return
    rows = [
        ("prompts", summary.prompts),
        ("skipped", summary.skipped),
        ("tokens", summary.tokens),
        ("agreement of draft and target", f"{summary.agreement:.1%}"),
        ("oracle SL, accepted (r): mean ± SD", f"{summary.accepted_mean:.2f} ± {summary.accepted_sd:.2f}"),
        ("oracle SL, detect (r + 1): mean ± SD", f"{summary.detect_mean:.2f} ± {summary.detect_sd:.2f}"),
        ("iterations cut short by the text's end", f"{summary.censored:.1%}"),
    ]
    if summary.seconds:
        rows.append(("seconds", f"{summary.seconds:.1f} ({summary.tokens_per_second:.0f} tokens/s)"))
    show_table(f"Trace {out}", ["", "value"], rows)
    opt.note(f"Next: oracle simulate {out}   |   oracle plot {out} histogram")
