"""``oracle study``: pairs by tasks, everything of each, into one folder and one table."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands.bounds import Between, Once
from oracle.commands.groups import takes
from oracle.commands.notes import note, say, warnings_as_notes
from oracle.commands.numbers import interval_text, number_text, policy_text, short_count
from oracle.commands.options import Count, Format, Json, Length, OutputOptions, PairOptions, Policies
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import check_form, show_table

if TYPE_CHECKING:
    from analysis.tables.speedups import Line, Row
    from oracle.workflows.study import Recipe, Study

WIDTH = 79
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


def register(app: typer.Typer) -> None:
    app.command()(study)


@takes()
def study(
    pair: PairOptions,
    output: OutputOptions,
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="[RECIPE]", help="A recipe, a TOML file, or a shipped one by its name: published."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            help="Without a recipe: a task, or a data set as for collect; several may be given.",
            show_default=False,
        ),
        Once(),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Some of the cells: opt/summarization, opt, */code; several may be given.",
            show_default=False,
        ),
        Once(),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say what would be run, and run nothing.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for everything; default: runs/study-NAME.", show_default=False),
    ] = None,
    policy: Policies = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Prompts of each cell, instead of the recipe's number."), Count
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", help="How often each call is made."), Between(1, 10_000)
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="Length limit of each text."), Length
    ] = None,
    form: Format = "terminal",
    as_json: Json = False,
) -> None:
    """Record, clock, price, replay and tune pairs of models on tasks: one folder, one table, a page each.

    What a recipe says is done cell by cell, a cell being a pair on a task; without one, --pair, or --target and
    --draft, on each --task.  Nothing that has ended is done again: --resume goes on after an interruption, tries again
    what failed, and prints the table of what is there.  Published numbers stand beside ours where the recipe has some.
    Exit status 1 where a cell failed.
    """
    from oracle.workflows.study import load_recipe
    from oracle.workflows.study.kept import STUDY
    from oracle.workflows.study.recipe import read_recipe
    from oracle.workflows.study.run import study as work

    check_form(form, as_json)
    asked = {
        "policies": policy,
        "limit": limit,
        "repeats": repeats,
        "max_new_tokens": max_new_tokens,
        "dtype": None if pair.dtype == "auto" else pair.dtype,
        "device": pair.device,
        "draft_device": pair.draft_device,
        "threads": pair.threads,
    }
    if recipe is not None:
        _expect_no_pair(recipe, pair, task)
        found = load_recipe(recipe, **asked)
    else:
        text = written(pair, task or (), {key: value for key, value in asked.items() if value is not None})
        found = read_recipe(text.encode(), "study.toml", Path())
    found = found.only(only or ())
    if listed:
        show_plan(found, as_json=as_json)
        return
    folder = out or Path("runs") / f"study-{_NOT_A_NAME.sub('-', Path(found.file).stem)}"
    STUDY.expect_free(folder, resume=output.resume, force=output.force)
    with warnings_as_notes():
        done = work(
            found,
            folder,
            resume=output.resume,
            force=output.force,
            progress=output.progress,
            tell=note,
            command=["oracle", *sys.argv[1:]],
        )
    show_study(done, form, as_json=as_json)
    if done.failed:
        raise typer.Exit(1)


def _expect_no_pair(recipe: str, pair: PairOptions, task: Sequence[str] | None) -> None:
    given = {"--pair": pair.pair, "--target": pair.target, "--task": task}
    if named := [flag for flag, value in given.items() if value]:
        raise ValueError(
            f"{named[0]} is for a study without a recipe: {recipe} names its pairs and tasks; --only picks some of its "
            "cells"
        )


def written(pair: PairOptions, tasks: Sequence[str], defaults: dict[str, Any]) -> str:
    """The recipe that the options amount to, as TOML."""
    from oracle.prompts.sets import NAMES

    if not tasks:
        raise ValueError("a study needs a recipe, such as published, or --task: a task, or a data set as for collect")
    models: dict[str, Any] = {"name": pair.named}
    if pair.target is not None and pair.draft is not None:
        name = f"{_name(pair.target)}+{_name(pair.draft)}"
        models = {"name": name, "target": pair.target, "draft": pair.draft}
    if pair.allow_token_differences:
        models["allow_token_differences"] = True
    tables: list[tuple[str, dict[str, Any]]] = [("pairs", models)]
    for task in tasks:
        tables.append(("tasks", {"name": task} if task in NAMES else {"name": _name(task), "dataset": task}))
    # What JSON writes for text, whole numbers, flags and lists of text is TOML as well.
    lines = ["[defaults]", *(f"{key} = {json.dumps(value)}" for key, value in defaults.items())]
    for kind, table in tables:
        lines += ["", f"[[{kind}]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _name(source: str) -> str:
    """A name for a model or a data set: the last part of its own."""
    last = Path(source.rstrip("/")).name
    stem = Path(last).stem if Path(last).suffix in (".jsonl", ".json", ".parquet", ".csv", ".tsv", ".txt") else last
    return _NOT_A_NAME.sub("-", stem).strip("-._+")[:31] or "given"


def show_plan(recipe: Recipe, *, as_json: bool) -> None:
    """What would be run."""
    if as_json:
        show_json([plain(cell) | {"cell": cell.name, "calls": cell.calls} for cell in recipe.cells])
        return
    rows = []
    for cell in recipe.cells:
        models, task = cell.models, cell.task
        pair = f"{models.target}\n  + {models.draft}" if models.target else f"the pair {models.name}"
        data = task.dataset if len(task.dataset) <= 30 else f"... {task.dataset[-26:]}"
        rows.append([
            f"{cell.name}\n  {pair}\n  {data}",
            f"{task.limit:,}",
            f"{cell.clocked:,}",
            short_count(cell.calls),
            number_text(task.max_prompt_tokens),
            f"{task.max_new_tokens:,}",
            models.dtype,
        ])  # fmt: skip
    columns = ["cell", "prompts", "of them\nclocked", "calls", "tokens of\na prompt", "new\ntokens", "dtype"]
    show_table(recipe.title, columns, rows)


def show_study(found: Study, form: str, *, as_json: bool) -> None:
    """The table in the form that was asked for; where the rest is, on stderr."""
    from analysis.tables.speedups import notes

    if as_json:
        show_json(plain(found) | {"failed": found.failed})
    elif form == "terminal":
        show_rows(found.rows, found.title)
        for text in notes(found.rows):
            say(textwrap.fill(text, WIDTH), lines=True)
    else:
        say(found.text(form).rstrip("\n"), lines=True)
    note(
        f"Table, pages and records: {found.folder} (index.html, table.md, table.tex, table.csv); {found.seconds:.0f} s."
    )


def show_rows(rows: Sequence[Row], title: str) -> None:
    """For each cell a line a policy: what was published, measured and simulated."""
    cells: list[list[str]] = []
    for row in rows:
        clocked = "" if row.clocked == row.recorded else f", {row.clocked:,} clocked"
        prompts = f" ({row.recorded:,} prompts{clocked})" if row.recorded else ""
        cells.append([f"{row.name}{prompts}", "", "", ""])
        cells += [_line(each) for each in row.lines]
        if row.problem:
            cells.append([f"  FAILED: {row.problem.split(':')[0]}", "", "", ""])
    show_table(title, ["speedup over plain decoding", "published", "measured [95 %]", "simulated [95 %]"], cells)


def _line(line: Line) -> list[str]:
    from analysis.tables.speedups import GIVEN

    policy = policy_text(line.policy, 28).replace("\n", "\n  ")
    return [
        f"  {policy}" if line.role == GIVEN else f"  {line.role}:\n    {policy}",
        "" if line.published is None else f"{line.published:.2f}",
        "" if line.measured is None else interval_text(line.measured),
        "" if line.simulated is None else interval_text(line.simulated),
    ]
