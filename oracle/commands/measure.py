"""``oracle measure``: the real generator, clocked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.destinations import check_folder
from oracle.commands.groups import takes
from oracle.commands.notes import note, note_left_out, say
from oracle.commands.numbers import gain_text, interval_text, policy_text, share_text, short_count
from oracle.commands.options import Baseline, Json, OutputOptions, PairOptions, Policies, PromptOptions, RunOptions
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.intervals import Estimate
    from analysis.measured.speedups import Measured
    from oracle.records.runs import Runs

DEFAULT_MEASURED = ("constant:tokens=5", "heuristic", "dynamic")


def register(app: typer.Typer) -> None:
    app.command()(measure)


def clocked(
    pair: PairOptions,
    prompts: PromptOptions,
    run: RunOptions,
    output: OutputOptions,
    policies: Sequence[str],
    folder: Path,
) -> Runs:
    """Runs of ``policies`` in ``folder``; a folder that may not be written is refused before anything is loaded."""
    from oracle.measure import measure
    from oracle.records.runs import FOLDER
    from oracle.records.writing import expect_may_write

    check_folder(folder)
    expect_may_write(FOLDER, folder, resume=output.resume, force=output.force)
    chosen = prompts.load()
    return measure(
        pair.load(),
        chosen,
        policies,
        folder,
        max_new_tokens=run.max_new_tokens,
        repeats=run.repeats,
        chat=prompts.chat,
        resume=output.resume,
        force=output.force,
        progress=output.progress,
    )


@takes(limit=10)
def measure(
    pair: PairOptions,
    prompts: PromptOptions,
    run: RunOptions,
    output: OutputOptions,
    out: Annotated[Path, typer.Argument(help="Folder of the runs.")] = Path("runs/measured"),
    policy: Policies = None,
    baseline: Baseline = None,
    as_json: Json = False,
) -> None:
    """Run transformers' own assisted generation and plain decoding side by side, and clock every iteration."""
    from analysis.measured.speedups import summary
    from oracle.policies import as_policy

    policies = [*(policy or DEFAULT_MEASURED)]
    for text in policies:
        as_policy(text)
    expect_measured(baseline, policies)
    runs = clocked(pair, prompts, run, output, policies, out)
    note_left_out(runs.meta)
    found = summary(runs)
    name, gains = compared(found, runs, baseline)
    if as_json:
        rows = zip(found, gains, strict=True)
        show_json([asdict(each) | {"baseline": name, "baseline_ratio": asdict(gain)} for each, gain in rows])
    else:
        show_measured(found, name, gains, runs, out)
    check_texts(runs)


def expect_measured(baseline: str | None, policies: Sequence[str]) -> None:
    """Raise ValueError for a baseline that will not be measured, before anything is."""
    from oracle.records.runs import PLAIN

    if baseline is not None and baseline not in (PLAIN, *policies):
        raise ValueError(
            f"--baseline {baseline!r} is not among the measured policies ({', '.join([PLAIN, *policies])}); "
            "name it with --policy too"
        )


def compared(found: Sequence[Measured], runs: Runs, baseline: str | None) -> tuple[str, list[Estimate]]:
    """The baseline, by default the best constant that ran, and its seconds over those of each policy."""
    from analysis.measured.against import best_constant, clocked, faster

    name = best_constant(found) if baseline is None else baseline
    base = clocked(runs, name)
    return name, [faster(base, clocked(runs, each.policy)) for each in found]


def show_measured(found: Sequence[Measured], baseline: str, gains: Sequence[Estimate], runs: Runs, out: Path) -> None:
    """Measured speedups with their intervals, the gain over the baseline, and the settings that were in force."""
    rows = [
        [
            policy_text(each.policy, 13) + ("" if each.generator == "library" else "\n (own loop)"),
            short_count(each.iterations),
            short_count(each.drafted),
            share_text(each.accepted, each.drafted),
            f"{each.seconds_per_token * 1000:.1f}",
            interval_text(each.total).replace(" ", "\n", 1),
            interval_text(each.decoding).replace(" ", "\n", 1),
            "baseline" if each.policy == baseline else gain_text(gain),
        ]
        for each, gain in zip(found, gains, strict=True)
    ]
    columns = [
        "policy", "iter.", "drafted", "acc.\nshare", "ms per\ntoken", "speedup\n[95 %]", "decoding\nonly [95 %]",
        "% over\nbaseline\n[95 %]",
    ]  # fmt: skip
    show_table(f"{out}: {found[0].prompts} prompts, {found[0].repeats} repeats", columns, rows)
    say(f"Baseline: {baseline}; its whole calls over the policy's, paired by prompt.")
    in_force = [
        [policy_text(name), *in_words(settings)] for name, settings in runs.meta["policies"].items() if settings
    ]
    columns = ["policy", "num_assistant_\ntokens", "schedule", "threshold", "refitted"]
    if in_force:
        show_table("What was in force on the draft's generation config", columns, in_force)


def in_words(settings: dict) -> tuple[str, ...]:
    """The library's settings of one policy: tokens, schedule, threshold, and whether the threshold is refitted."""
    threshold = f"{settings['threshold']:g}" if settings["threshold"] else "0 (off)"
    tokens, schedule = str(settings["tokens"]), settings["schedule"]
    if settings.get("seed") is not None:
        tokens, schedule = f"1 to {tokens}", f"drawn (seed {settings['seed']})"
    return tokens, schedule, threshold, "yes" if settings["adaptive"] else "no"


def check_texts(runs: Runs) -> None:
    """Say which texts are not plain decoding's.  Raises RuntimeError where rounding does not explain one."""
    from analysis.measured.divergences import divergences

    dtype = str(runs.meta.get("machine", {}).get("dtype"))
    faults = []
    for policy in runs.policies:
        here = divergences(runs.of(policy), dtype)
        wrong = [each for each in here if not each.near_tie]
        if here:
            lead = max(each.margin for each in here)
            note(
                f"Note: {policy}: {len(here)} texts leave plain decoding's, {len(here) - len(wrong)} of them where the "
                f"target's choice is a near-tie in {dtype} (largest lead {lead:.2g} logits)."
            )
        faults += [f"{policy}, prompt {each.prompt}, token {each.token}, lead {each.margin:.2g}" for each in wrong]
    if faults:
        raise RuntimeError(
            f"{len(faults)} texts leave plain decoding's where no rounding turns the target's choice: {faults[0]}; "
            "the runs are kept, but a model or the library is at fault, and no speedup of these can be trusted"
        )
