"""A recipe: which pairs on which tasks, under which policies; one TOML file, checked before anything runs.

A cell is one pair on one task.  What a row says counts, then what its task and its pair say, then the defaults, then
what stands in `USUAL`; what was asked for on the command line counts before all of them.  Paths that begin with a dot
are seen from the recipe's own folder.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oracle.prompts.sets import NAMES
from oracle.prompts.tasks import TASKS
from oracle.shipped import data_path
from oracle.words import did_you_mean
from oracle.workflows.diagnose.stages import DRAWN
from oracle.workflows.study import tables
from oracle.workflows.validate import to_validate

USUAL: dict[str, Any] = {
    "policies": ("heuristic", "dynamic"),
    "limit": 60,
    "clocked": None,
    "repeats": 3,
    "seed": 0,
    "max_prompt_tokens": None,
    "max_new_tokens": 128,
    "max_overrun": 32,
    "chat": False,
    "dtype": "auto",
    "device": None,
    "draft_device": None,
}
SHIPPED = "recipes"  # folder of the recipes that come with the toolkit
_MOST_BYTES = 2**20
_IN_FOLDER = ("target", "draft", "dataset")  # may be paths


@dataclass(frozen=True)
class Models:
    """A pair as it is to be loaded: by its name, or target and draft by theirs."""

    name: str
    target: str | None
    draft: str | None
    dtype: str
    device: str | None
    draft_device: str | None
    allow_token_differences: bool


@dataclass(frozen=True)
class Task:
    """Prompts as they are to be read, and how long prompts and texts get."""

    name: str
    dataset: str
    split: str | None
    prompt_field: str | None
    limit: int  # prompts, that are recorded
    seed: int
    chat: bool
    max_prompt_tokens: int | None  # None: prompts are not cut
    max_new_tokens: int


@dataclass(frozen=True)
class Published:
    """Speedups over plain decoding that others measured."""

    speedups: dict[str, float]  # by policy
    source: str


@dataclass(frozen=True)
class Cell:
    """One pair on one task."""

    models: Models
    task: Task
    policies: tuple[str, ...]
    clocked: int  # of the recorded prompts
    repeats: int
    max_overrun: int
    published: Published | None

    @property
    def name(self) -> str:
        return f"{self.models.name}/{self.task.name}"

    @property
    def calls(self) -> int:
        """Calls of the generator: no draft, the policies, and the two that prices are fitted on."""
        return self.clocked * self.repeats * (1 + len(self.policies) + len(DRAWN))

    @property
    def binding(self) -> dict[str, Any]:
        """What must not change between a cell and its resumption, in JSON's types; where it runs is the records'."""
        found = {"policies": list(self.policies), "clocked": self.clocked, "repeats": self.repeats}
        places = ("name", "device", "draft_device")
        models = {f"models.{key}": value for key, value in dataclasses.asdict(self.models).items() if key not in places}
        task = {f"task.{key}": value for key, value in dataclasses.asdict(self.task).items()}
        return found | {"max_overrun": self.max_overrun} | models | task


@dataclass(frozen=True)
class Recipe:
    """Cells in the order of the rows, the file that they were read from, and its text."""

    title: str
    cells: tuple[Cell, ...]
    threads: int | None
    file: str
    text: bytes = field(repr=False)

    def only(self, patterns: Sequence[str]) -> Recipe:
        """The cells that one of the patterns names: opt/summarization, opt/*, */code; all where there is none."""
        for pattern in patterns:
            if not any(_matches(each.name, pattern) for each in self.cells):
                names = [each.name for each in self.cells]
                raise ValueError(
                    f"--only {pattern!r} names none of the cells; legal: {', '.join(names)}, with * for any part."
                    f"{did_you_mean(pattern, names)}"
                )
        kept = [each for each in self.cells if not patterns or any(_matches(each.name, one) for one in patterns)]
        return dataclasses.replace(self, cells=tuple(kept))


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern if "/" in pattern else f"{pattern}/*")


def shipped() -> dict[str, Path]:
    """The recipes that come with the toolkit, by name."""
    return {file.stem: file for file in sorted(data_path(SHIPPED).glob("*.toml"))}


def load_recipe(source: str | Path, **asked: Any) -> Recipe:
    """The recipe in a file, or a shipped one by its name; ``asked`` counts before what it says, where it is not None.

    Raises ValueError, with the file, the table, the key, its value and what is legal, for whatever will not do.
    """
    known = shipped()
    path = known.get(str(source), Path(source))
    try:
        with path.open("rb") as handle:
            data = handle.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(
            f"recipe {str(source)!r} cannot be read ({error.strerror}); give a TOML file, or a shipped recipe: "
            f"{', '.join(known)}.{did_you_mean(str(source), known)}"
        ) from None
    if len(data) > _MOST_BYTES:
        raise ValueError(f"recipe {str(source)!r} is larger than {_MOST_BYTES // 2**20} MB")
    return read_recipe(data, str(source), path.parent, **asked)


def read_recipe(data: bytes, file: str, folder: Path, **asked: Any) -> Recipe:
    """The recipe that ``data`` is, of the name ``file``; see `load_recipe`."""
    top = tables.checked(tables.Top, tables.parse_toml(data, file), file)
    usual = tables.checked(tables.Defaults, top.get("defaults", {}), f"{file}: [defaults]")
    given = {key: value for key, value in asked.items() if value is not None}
    threads = given.pop("threads", usual.pop("threads", None))
    given = tables.checked(tables.Defaults, given, "asked for")
    pairs = _named(tables.PairTable, top.get("pairs", []), f"{file}: [[pairs]]", folder)
    tasks = _named(tables.TaskTable, top.get("tasks", []), f"{file}: [[tasks]]", folder)
    for name, table in pairs.items():
        if ("target" in table) != ("draft" in table):
            raise ValueError(
                f"{file}: pair {name!r} has only one of target and draft; give both, or the name of a known pair"
            )
    cells = []
    for number, row in enumerate(_rows(top, pairs, tasks, file), start=1):
        where = f"{file}: [[rows]] {number} ({row['pair']}/{row['task']})"
        cells.append(_cell(pairs[row["pair"]], tasks[row["task"]], row, usual, given, where))
    names = [each.name for each in cells]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{file}: [[rows]] has {twice} twice; give a second one a task of another name")
    return Recipe(top.get("title", Path(file).stem), tuple(cells), threads, file, data)


def _named(kind: Any, listed: Sequence[dict[str, Any]], where: str, folder: Path) -> dict[str, dict[str, Any]]:
    """The tables of one kind by their names."""
    if not listed:
        raise ValueError(f"{where} is missing: a recipe needs one at least")
    found: dict[str, dict[str, Any]] = {}
    for number, table in enumerate(listed, start=1):
        place = f"{where} {number}"
        given = tables.checked(kind, table, place)
        if "name" not in given:
            raise ValueError(f"{place}: name is missing")
        if given["name"] in found:
            raise ValueError(f"{place}: name {given['name']!r} is given twice")
        found[given["name"]] = {key: _seen_from(folder, key, value) for key, value in given.items()}
    return found


def _seen_from(folder: Path, key: str, value: Any) -> Any:
    return str(folder / value) if key in _IN_FOLDER and value.startswith(".") else value


def _rows(top: Mapping[str, Any], pairs: Mapping, tasks: Mapping, file: str) -> list[dict[str, Any]]:
    """What ``rows`` lists; every pair on every task where there are none."""
    if "rows" not in top:
        return [{"pair": pair, "task": task} for pair in pairs for task in tasks]
    found = []
    for number, table in enumerate(top["rows"], start=1):
        where = f"{file}: [[rows]] {number}"
        row = tables.checked(tables.RowTable, table, where)
        for key, legal in (("pair", pairs), ("task", tasks)):
            if key not in row:
                raise ValueError(f"{where}: {key} is missing; legal: {', '.join(legal)}")
            if row[key] not in legal:
                raise ValueError(
                    f"{where}: {key} is {row[key]!r:.80}; legal: {', '.join(legal)}.{did_you_mean(row[key], legal)}"
                )
        found.append(row)
    if not found:
        raise ValueError(f"{file}: [[rows]] is empty; leave it out for every pair on every task")
    return found


def _cell(pair: Mapping, task: Mapping, row: Mapping, usual: Mapping, given: Mapping, where: str) -> Cell:
    said = {**USUAL, **usual, **_known_task(task["name"], task), **pair, **task, **row, **given}
    published = None
    if "published" in row:
        published = Published(*tables.speedups(row["published"], f"{where}: published"))
    policies = tuple(to_validate([text.strip() for text in said["policies"]]))
    if not policies or len(set(policies)) < len(policies):
        raise ValueError(f"{where}: policies is {list(policies)}; give one or several different ones")
    for policy in published.speedups if published else ():
        if policy not in policies:
            raise ValueError(
                f"{where}: published names {policy!r:.80}, which is not among the policies ({', '.join(policies)})"
            )
    clocked = said["limit"] if said["clocked"] is None else min(said["clocked"], said["limit"])
    models = Models(
        name=pair["name"],
        target=pair.get("target"),
        draft=pair.get("draft"),
        dtype=said["dtype"],
        device=said["device"],
        draft_device=said["draft_device"],
        allow_token_differences=pair.get("allow_token_differences", False),
    )
    prompts = Task(
        name=task["name"],
        dataset=said["dataset"],
        split=said.get("split"),
        prompt_field=said.get("prompt_field"),
        limit=said["limit"],
        seed=said["seed"],
        chat=said["chat"],
        max_prompt_tokens=said["max_prompt_tokens"],
        max_new_tokens=said["max_new_tokens"],
    )
    return Cell(models, prompts, policies, clocked, said["repeats"], said["max_overrun"], published)


def _known_task(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a known task says of itself; a data set by its name is one.  Raises ValueError for a name that is none."""
    if "dataset" in given:
        return {}
    if name not in NAMES:
        raise ValueError(
            f"task {name!r} has no dataset, and is none of those known by name: {', '.join(NAMES)}; give it a dataset."
            f"{did_you_mean(name, NAMES)}"
        )
    known = TASKS.get(name)
    lengths = {} if known is None else {
        "max_prompt_tokens": known.prompt_tokens, "max_new_tokens": known.max_new_tokens
    }  # fmt: skip
    return {"dataset": name, **lengths}
