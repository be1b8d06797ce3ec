"""``oracle measure``: the real generator, clocked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands import options as opt
from oracle.commands.tables import interval_text, policy_text, short_count, show_json, show_table

if TYPE_CHECKING:
    from oracle.records.runs import Runs

DEFAULT_MEASURED = ("constant:tokens=5", "heuristic", "dynamic")


def register(app: typer.Typer) -> None:
    app.command()(measure)


def measure(
    out: Annotated[Path, typer.Argument(help="Folder of the runs.")] = Path("runs/measured"),
    pair: opt.PairName = None,
    target: opt.Target = None,
    draft: opt.Draft = None,
    dataset: opt.Dataset = "demo-code",
    split: opt.Split = None,
    limit: opt.Limit = 10,
    seed: opt.Seed = None,
    chat: opt.Chat = False,
    policy: opt.Policies = None,
    repeats: opt.Repeats = 3,
    max_new_tokens: opt.NewTokens = 128,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    threads: opt.Threads = None,
    resume: opt.Resume = False,
    force: opt.Force = False,
    progress: opt.Progress = True,
    as_json: opt.Json = False,
) -> None:
    """Run transformers' own assisted generation and plain decoding side by side, and clock every iteration."""
    import oracle

    prompts = oracle.load_prompts(dataset, split=split, limit=limit, seed=seed)
    loaded = opt.load_pair(pair, target, draft, dtype, device, draft_device, threads)
    runs = oracle.measure(
        loaded,
        prompts,
        policy or DEFAULT_MEASURED,
        out,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        chat=chat,
        resume=resume,
        force=force,
        progress=progress,
    )
    show_measured(runs, out, as_json)


def show_measured(runs: Runs, out: Path, as_json: bool) -> None:
    """Measured speedups with their intervals, and the texts that are not plain decoding's."""
    import dataclasses

    from analysis.measured.speedups import summary

    found = summary(runs)
    if as_json:
        show_json([dataclasses.asdict(each) for each in found])
        _check_texts(runs)
        return
    rows = [
        [
            policy_text(each.policy) + ("" if each.generator == "library" else "\n (own loop)"),
            short_count(each.iterations),
            short_count(each.drafted),
            f"{each.accepted / each.drafted:.0%}" if each.drafted else "-",
            f"{each.seconds_per_token * 1000:.1f}",
            interval_text(each.total),
            interval_text(each.decoding),
        ]
        for each in found
    ]
    columns = ["policy", "iter.", "drafted", "acc.\nshare", "ms per\ntoken", "speedup\n[95 %]", "decoding only\n[95 %]"]
    show_table(f"{out}: {found[0].prompts} prompts, {found[0].repeats} repeats", columns, rows)
    in_force = [
        [policy_text(name), *in_words(settings)] for name, settings in runs.meta["policies"].items() if settings
    ]
    columns = ["policy", "num_assistant_\ntokens", "schedule", "threshold", "refitted"]
    if in_force:
        show_table("What was in force on the draft's generation config", columns, in_force)
    _check_texts(runs)


def in_words(settings: dict) -> tuple[str, ...]:
    """The library's settings of one policy: tokens, schedule, threshold, and whether the threshold is refitted."""
    threshold = f"{settings['threshold']:g}" if settings["threshold"] else "0 (off)"
    return str(settings["tokens"]), settings["schedule"], threshold, "yes" if settings["adaptive"] else "no"


def _check_texts(runs: Runs) -> None:
    """Say which texts are not plain decoding's.  Raises RuntimeError where rounding does not explain one."""
    from analysis.measured.divergences import divergences

    dtype = str(runs.meta.get("machine", {}).get("dtype"))
    faults = []
    for policy in runs.policies:
        here = divergences(runs.of(policy), dtype)
        wrong = [each for each in here if not each.near_tie]
        if here:
            lead = max(each.margin for each in here)
            opt.note(
                f"Note: {policy}: {len(here)} texts leave plain decoding's, {len(here) - len(wrong)} of them where the "
                f"target's choice is a near-tie in {dtype} (largest lead {lead:.2g} logits)."
            )
        faults += [f"{policy}, prompt {each.prompt}, token {each.token}, lead {each.margin:.2g}" for each in wrong]
    if faults:
        raise RuntimeError(
            f"{len(faults)} texts leave plain decoding's where no rounding turns the target's choice: {faults[0]}; "
            "the runs are kept, but a model or the library is at fault, and no speedup of these can be trusted"
        )
