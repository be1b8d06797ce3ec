"""``oracle measure``: the real generator, clocked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.destinations import check_folder
from oracle.commands.groups import takes
from oracle.commands.notes import note, note_date, note_left_out, say, warnings_as_notes
from oracle.commands.numbers import gain_text, interval_text, policy_text, share_text, short_count
from oracle.commands.options import Baseline, Json, OutputOptions, PairOptions, Policies, PromptOptions, RunOptions
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.intervals import Estimate
    from analysis.measured.speedups import Measured
    from analysis.measured.until import Until
    from oracle.records.runs import Runs

USUAL_LIMIT = 10
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
    until: Until | None = None,
    universal: bool = False,
) -> Runs:
    """Runs of ``policies`` in ``folder``; a folder that may not be written is refused before anything is loaded."""
    from oracle.measure import measure
    from oracle.records.runs import FOLDER
    from oracle.records.writing import expect_may_write

    check_folder(folder)
    expect_may_write(FOLDER, folder, resume=output.resume, force=output.force)
    chosen = prompts.load()
    with warnings_as_notes():
        return measure(
            pair.load(universal),
            chosen,
            policies,
            folder,
            max_new_tokens=run.max_new_tokens,
            repeats=run.repeats,
            chat=prompts.chat,
            resume=output.resume,
            force=output.force,
            progress=output.progress,
            until=until,
        )


@takes()
def measure(
    pair: PairOptions,
    prompts: PromptOptions,
    run: RunOptions,
    output: OutputOptions,
    out: Annotated[Path, typer.Argument(help="Folder of the runs.")] = Path("runs/measured"),
    policy: Policies = None,
    baseline: Baseline = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            help="Go on over the prompts until every ratio to the baseline (default: the first constant named) is known"
            " to within this share: 2% or 0.02.",
            show_default=False,
        ),
    ] = None,
    universal: Annotated[
        bool,
        typer.Option(
            "--universal",
            help="The draft has another tokenizer (universal assisted generation): clocked, not replayed.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run transformers' own assisted generation and plain decoding side by side, and clock every iteration.

    It takes 10 prompts; another number with --limit; with --until as many as are needed, at most --limit.
    """
    from analysis.measured.speedups import summary
    from analysis.measured.until import Until
    from oracle.policies import as_policy
    from oracle.policies.names import USUAL_LOOKED_UP

    policies = [*(policy or (USUAL_LOOKED_UP if pair.looks_up else DEFAULT_MEASURED))]
    for text in policies:
        as_policy(text)
    expect_measured(baseline, policies)
    stop = None if until is None else Until(_share(until), baseline).settle(["none", *policies])
    if prompts.limit is None and stop is None:
        prompts = replace(prompts, limit=USUAL_LIMIT)
    runs = clocked(pair, prompts, run, output, policies, out, stop, universal)
    note_left_out(runs.meta)
    note_date(runs.meta)
    found = summary(runs, list(runs.meta["policies"]))  # in the order given, whatever the order in which they ran
    name, gains = compared(found, runs, baseline if stop is None else stop.baseline)
    if as_json:
        rows = zip(found, gains, strict=True)
        show_json([asdict(each) | {"baseline": name, "baseline_ratio": asdict(gain)} for each, gain in rows])
    else:
        show_measured(found, name, gains, runs, out)
    if stop is not None:
        note(stopped_words(stop, runs))
    check_texts(runs)


def _share(text: str) -> float:
    """``2%`` or ``0.02`` as a share.  Raises ValueError for anything else."""
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = float("nan")
    if rest.strip() or not 0 < share <= 1:
        raise ValueError(f"--until is {text!r}; legal: a share above 0 and at most 1, such as 2% or 0.02")
    return share


def stopped_words(stop: Until, runs: Runs) -> str:
    """Why a run under --until has ended, and what it knows."""
    from analysis.measured.until import LEVEL
    from analysis.replay.enough import percent, within

    prompts = f"{runs.meta['prompts_planned']:,} prompts"
    reached = {policy: within(ratio) for policy, ratio in stop.ratios(runs).items()}
    widest = max(reached, key=lambda policy: reached[policy])
    known = f"the ratio of {widest} to {stop.baseline} is known to within {percent(reached[widest])}"
    looked = f"by {100 * LEVEL:g} % intervals, as they are looked at again and again"
    if runs.meta.get("stopped") == "enough is known":
        return f"Stopped after {prompts}: {known}, every other one at least as closely ({looked})."
    return (
        f"Note: after all {prompts} {known} only ({looked}); measure more of them (a larger --limit or data set, into "
        "another folder)."
    )


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
        show_table(f"What was in force on {_where(runs)}", columns, in_force)


def _where(runs: Runs) -> str:
    """Where the library was told the settings, by the kind of draft."""
    kind = (runs.meta.get("draft") or {}).get("kind")
    places = {
        "first-layers": "the target's own generation config",
        "prompt-lookup": "the call (prompt_lookup_num_tokens)",
    }
    return places.get(str(kind), "the draft's generation config")


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
