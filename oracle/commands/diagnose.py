"""``oracle diagnose``: does the draft pay here, why, and what to set: one command, one screen."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.groups import takes
from oracle.commands.notes import note, say, warnings_as_notes
from oracle.commands.numbers import interval_text
from oracle.commands.options import DraftsOptions, Json, Length, OutputOptions, PromptOptions
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.diagnosis.check import Arm
    from oracle.workflows.diagnose import Diagnosis

WIDTH = 79
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def register(app: typer.Typer) -> None:
    app.command()(diagnose)


@takes(seed=0)
def diagnose(
    models: DraftsOptions,
    prompts: PromptOptions,
    output: OutputOptions,
    out: Annotated[Path, typer.Argument(help="Folder for all that is measured and recorded.")] = Path("runs/diagnosis"),
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="About how long it may take: 90s, 10m, 1h; default: 10m.", show_default=False),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", help="Length limit of each text."),
        Length,
    ] = None,
    as_json: Json = False,
) -> None:
    """Say whether a draft pays on your prompts, why, and what to set.

    It clocks no draft, the library's default and a fixed length, fits prices, records, and tunes on some prompts, and
    checks what comes out on others.  Several --draft are compared.  Without
    --max-new-tokens texts are as long as the budget allows, 32 to 128 tokens.  An interrupted run goes on with
    --resume.
    """
    from oracle.workflows.diagnose import diagnose as work
    from oracle.workflows.diagnose.kept import expect_free

    seconds = None if budget is None else seconds_of(budget)
    expect_free(out, resume=output.resume, force=output.force)
    chosen = prompts.load()
    with warnings_as_notes():
        found = work(
            models.load(),
            chosen,
            out,
            budget=seconds,
            max_new_tokens=max_new_tokens,
            chat=prompts.chat,
            seed=prompts.seed or 0,
            resume=output.resume,
            force=output.force,
            progress=output.progress,
            tell=note,
        )
    if as_json:
        show_json({**plain(found), "sentences": found.sentences})
    else:
        show_diagnosis(found)


def seconds_of(text: str) -> float:
    """10m, 90s, 1.5h or a number of seconds.  Raises ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    seconds = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= 1e7:
        raise ValueError(f"--budget is {text!r}; legal: a time such as 90s, 10m or 1h")
    return seconds


def show_diagnosis(found: Diagnosis) -> None:
    """One screen: faster or slower, how it was measured, why, what would change it, what to paste, what is unsure."""
    from analysis.diagnosis import words

    facts = found.found
    _paragraphs(*words.headline(facts), _about(found))
    rows = [[_arm(each), f"{each.ms_per_token:.1f}", _speed(each)] for each in facts.check.arms]
    show_table("", [f"the {facts.check.prompts} prompts of the check", "ms per token", "speed [95 %]"], rows)
    first, *rest = words.why(facts)
    _paragraphs(f"WHY. {first}")
    for name, steps, share, remark in words.split(facts):
        say(f"    {name:<10}{steps:6.2f} {share:5.0%}  {remark}".rstrip())
    _paragraphs(*rest, f"CHANGE. {' '.join(words.change(facts))}")
    if told := words.drafts(facts):
        _paragraphs(f"DRAFTS. {' '.join(told)}")
    _paste(found)
    _paragraphs(f"SURER. {' '.join(words.surer(facts))}", f"Report: {found.report}")


def _arm(each: Arm) -> str:
    return each.role if each.policy == "none" else f"{each.policy} ({each.role})"


def _speed(each: Arm) -> str:
    return "1" if each.policy == "none" else interval_text(each.speedup)


def _about(found: Diagnosis) -> str:
    plan, threads = found.plan, found.machine.get("threads")
    often = "" if plan.repeats == 1 else f" {plan.repeats} times"
    return (
        f"Target {found.target}, draft {found.draft}, {found.machine.get('dtype')}, {threads} "
        f"thread{'' if threads == 1 else 's'}; {found.data}: {plan.recorded} prompts recorded, {plan.measured} of them "
        f"clocked{often}, texts of at most {plan.max_new_tokens} tokens; {found.seconds:.0f} s."
    )


def _paste(found: Diagnosis) -> None:
    first = found.settings[0]
    if first.text is None:
        _paragraphs(f"PASTE. {first.engine}: {first.note}")
        return
    _paragraphs(f"PASTE ({first.engine} {first.version}; other programmes: --json, settings):")
    say(textwrap.indent(first.text, "    "), lines=True)


def _paragraphs(*texts: str) -> None:
    for text in texts:
        say(textwrap.fill(text, WIDTH), lines=True)
