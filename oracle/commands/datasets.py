"""``oracle datasets``: the data sets and tasks that have a name."""

from __future__ import annotations

import textwrap
from typing import Any

import typer

from oracle.commands.groups import takes
from oracle.commands.notes import note
from oracle.commands.options import Json
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table


def register(app: typer.Typer) -> None:
    app.command()(datasets)


@takes()
def datasets(as_json: Json = False) -> None:
    """List the tasks and data sets that --dataset names: where they are from, licence, splits, rows, lengths.

    Nothing is loaded, and no hub is asked.
    """
    sets, tasks = set_facts(), task_facts()
    if as_json:
        show_json({"tasks": tasks, "datasets": sets})
        return
    rows = [
        (each["name"], f"{each['dataset']}, {each['split']}", f"{each['rows']}", _lengths(each), each["about"])
        for each in tasks
    ]
    show_table("Tasks: a data set with what to take of it", ["name", "from", "rows", "cut\nnew", "what"], rows)
    print()
    rows = [
        (
            each["name"],
            (each["hub"] or "the toolkit itself").replace("/", "/\n "),
            "\n".join(textwrap.wrap(each["licence"], 10)),
            "\n".join(f"{split} {count:,}" for split, count in each["splits"].items()),
            "\n".join(each["fields"]),
        )
        for each in sets
    ]
    show_table("Data sets", ["name", "from", "licence", "rows", "fields"], rows)
    note(
        "cut: prompts of more tokens lose the end of what they are about and keep their instruction (--prompt-tokens); "
        "new: tokens to write (--max-new-tokens).  The first split named is the default of a data set.  Any other data "
        "set: org/name[:config] on the hub, or a file."
    )


def task_facts() -> list[dict[str, Any]]:
    """What each task takes, in JSON's types."""
    from oracle.prompts.sets import HUB_SETS
    from oracle.prompts.tasks import TASKS

    found = []
    for name, task in TASKS.items():
        of = HUB_SETS[task.dataset]
        rows = dict(zip(of.splits, of.rows, strict=True))[task.split]
        only = None if task.only is None else {"column": task.only[0], "values": list(task.only[1])}
        found.append(
            {
                "name": name,
                "dataset": task.dataset,
                "split": task.split,
                "rows": f"{rows:,}" if only is None else f"some of {rows:,}",
                "only": only,
                "prompt_tokens": task.prompt_tokens,
                "max_new_tokens": task.max_new_tokens,
                "about": task.about,
            }
        )
    return found


def set_facts() -> list[dict[str, Any]]:
    """What is known of each data set, in JSON's types."""
    from oracle.prompts.sets import DEMOS, HUB_SETS

    hub = [
        {
            "name": name,
            "hub": each.hub_id,
            "config": each.config,
            "licence": each.licence,
            "splits": dict(zip(each.splits, each.rows, strict=True)),
            "fields": list(each.fields),
        }
        for name, each in HUB_SETS.items()
    ]
    shipped = [
        {
            "name": name,
            "hub": None,
            "config": None,
            "licence": "Apache-2.0",
            "splits": {"-": 40},
            "fields": ["prompt"],
        }
        for name in DEMOS
    ]
    return hub + shipped


def _lengths(task: dict[str, Any]) -> str:
    return f"{task['prompt_tokens']}\n{task['max_new_tokens']}"
