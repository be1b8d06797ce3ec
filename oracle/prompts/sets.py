"""Prompts: data sets of the hub, local files and the demo prompts."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.prompts.files import ENDINGS, RowFile, read_rows
from oracle.prompts.forms import Batch, Prompt, write_prompts
from oracle.prompts.hub import HubSet, load_split
from oracle.prompts.tasks import TASKS
from oracle.shipped import data_path
from oracle.words import did_you_mean

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class PromptSet:
    """Prompts in the order of their use; `source` (JSON types only) says what it takes to get the same ones again."""

    name: str
    prompts: tuple[Prompt, ...]
    source: dict[str, Any]

    def __len__(self) -> int:
        return len(self.prompts)

    def __iter__(self) -> Iterator[Prompt]:
        return iter(self.prompts)

    def __repr__(self) -> str:
        return f"<PromptSet {self.name}: {len(self):,} prompts>"


HUB_SETS = {
    "mbpp": HubSet(
        "google-research-datasets/mbpp",
        "full",
        ("test", "train", "validation", "prompt"),
        (500, 374, 90, 10),
        "CC BY 4.0",
        ("text", "test_list"),
    ),
    "alpaca": HubSet("tatsu-lab/alpaca", "default", ("train",), (52_002,), "CC BY-NC 4.0", ("instruction", "input")),
    "humaneval": HubSet("openai/openai_humaneval", "openai_humaneval", ("test",), (164,), "MIT", ("prompt",)),
    "cnn_dailymail": HubSet(
        "abisee/cnn_dailymail",
        "3.0.0",
        ("test", "train", "validation"),
        (11_490, 287_113, 13_368),
        "Apache-2.0",
        ("article",),
    ),
    "dolly": HubSet(
        "databricks/databricks-dolly-15k", "default", ("train",), (15_011,), "CC BY-SA 3.0", ("instruction", "context")
    ),
}
DEMOS = ("demo-code", "demo-text")
NAMES = (*TASKS, *HUB_SETS, *DEMOS)  # of tasks and of data sets
_KNOWN = {**{hub_set.hub_id: name for name, hub_set in HUB_SETS.items()}, **{name: name for name in NAMES}}
_ON_HUB = re.compile(r"(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(:(?P<config>[\w.-]+))?")
ID_FIELDS = ("task_id", "id")


def load_prompts(
    source: str | os.PathLike,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    revision: str | None = None,
    prompt_field: str | None = None,
    prompt_tokens: int | None = None,
) -> PromptSet:
    """Load prompts from a data set of the hub, the demo prompts or a local file.

    `source` is a name in `TASKS` (a data set with its split and lengths), in `HUB_SETS`, one in `DEMOS`, any data set's
    name on the hub ("org/name", or "org/name:config" where it has several configurations), or the path of a .jsonl,
    .json, .parquet, .csv, .tsv or .txt file (one prompt a line). Its schema is recognised by its fields (see
    `oracle.prompts.forms.FORMS`), or `prompt_field` names the column to take, as it stands. `split` and `revision` (a
    commit, tag or branch) are for hub data sets only. `limit` takes the first rows, or with a `seed` that many at
    random without replacement; with one seed a smaller sample is the beginning of a larger one, and no limit means all
    rows, shuffled. Rows with nothing in them stay in the set, as empty texts. `prompt_tokens` cuts longer prompts to so
    many tokens, the target's and those that it adds to every text included (see `oracle.prompts.cut`); default: the
    task's, or no cut. `source["left_out"]` of what is returned counts the rows in which a column, or a part of one, has
    content that no prompt holds.

    Raises ValueError for a bad argument or file, RuntimeError for a hub data set that can be had neither from the hub
    nor from the cache.
    """
    choice = _Choice(_count("limit", limit, 1), _count("seed", seed, 0), prompt_field)
    most = _count("prompt_tokens", prompt_tokens, 1)
    name = _source_name(source)
    if isinstance(source, str) and (task := TASKS.get(name)):
        chosen, where = replace(choice, only=task.only), split or task.split
        found = _from_hub(task.dataset, HUB_SETS[task.dataset], where, revision, chosen)
        return _cut(PromptSet(name, found.prompts, {"task": name, **found.source}), most or task.prompt_tokens)
    return _cut(_load(source, name, split, revision, choice), most)


def _cut(found: PromptSet, most: int | None) -> PromptSet:
    """The same prompts, to be cut where the tokenizer is known."""
    if most is None:
        return found
    prompts = tuple(replace(prompt, most_tokens=most) for prompt in found.prompts)
    return PromptSet(found.name, prompts, {**found.source, "prompt_tokens": most})


def _load(source: str | os.PathLike, name: str, split: str | None, revision: str | None, choice: _Choice) -> PromptSet:
    hub_set = _hub_set(name) if isinstance(source, str) else None
    if hub_set is not None:
        return _from_hub(name, hub_set, split, revision, choice)
    for option, value in (("split", split), ("revision", revision)):
        if value is not None:
            raise ValueError(f"{name} has no {option}s, so {option} {value!r} means nothing here. Leave it out.")
    if isinstance(source, str) and name in DEMOS:
        return _from_file(name, read_rows(data_path(f"{name}.jsonl")), choice)
    path = Path(source).expanduser()
    return _from_file(path.stem, read_rows(path), choice)


def _source_name(source: str | os.PathLike) -> str:
    """The name in HUB_SETS or DEMOS that `source` means, or a name on the hub or a path as text."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        raise ValueError(f"Prompts come from a name or a path, not {source!r}. Names: {', '.join(NAMES)}.")
    if not isinstance(source, str):  # a Path is a path, even one that is named like a data set
        return os.fspath(source)
    looks_like_path = os.path.exists(source) or Path(source).suffix or source.startswith((".", "~"))
    if source not in _KNOWN and not looks_like_path and not _ON_HUB.fullmatch(source):
        raise ValueError(
            f"Unknown prompts {source!r}. Legal: {', '.join(NAMES)}, org/name on the hub, or the path of a "
            f"{', '.join(ENDINGS)} file.{did_you_mean(source, _KNOWN)}"
        )
    return _KNOWN.get(source, source)


def _hub_set(name: str) -> HubSet | None:
    """The data set of the hub that a name means; None for the demo prompts and for paths."""
    found = _ON_HUB.fullmatch(name)
    if name in HUB_SETS or name in DEMOS or found is None:
        return HUB_SETS.get(name)
    ending = Path(name).suffix
    # A name may end in a version (v1.1); any other ending, and a folder that is there, make it a path.
    if os.path.exists(name) or os.path.isdir(Path(name).parent) or not (ending == "" or ending[1:].isdigit()):
        return None
    return HubSet(found["id"], found["config"], ())


@dataclass(frozen=True)
class _Choice:
    """Which rows, and which of their columns; None for the form of the rows."""

    limit: int | None
    seed: int | None
    field: str | None
    only: tuple[str, tuple[str, ...]] | None = None  # a column, and its values in the rows to choose from

    def of(self, rows: int) -> list[int]:
        """Numbers of the chosen ones of so many rows."""
        order = np.arange(rows) if self.seed is None else np.random.default_rng(self.seed).permutation(rows)
        return order[: self.limit].tolist()


def _from_hub(name: str, hub_set: HubSet, split: str | None, revision: str | None, choice: _Choice) -> PromptSet:
    if split is not None and hub_set.splits and split not in hub_set.splits:
        hint = did_you_mean(str(split), hub_set.splits)
        raise ValueError(f"{name} has no split {split!r}. Legal: {', '.join(hub_set.splits)}.{hint}")
    try:
        dataset, commit, split = load_split(hub_set, split, revision)
    except RuntimeError as error:
        hint = did_you_mean(name, _KNOWN) if name not in HUB_SETS else ""
        raise RuntimeError(f"{error}{hint}") from error
    there = _rows_of(dataset, choice.only)
    chosen = [there[number] for number in choice.of(len(there))]
    rows = [dataset[index] for index in chosen]
    id_field = next((field for field in ID_FIELDS if _names_each(dataset, field)), None)
    places = [f"{hub_set.hub_id}, row {index + 1} of {split}" for index in chosen]
    ids = chosen if id_field is None else [row[id_field] for row in rows]
    found = write_prompts(rows, ids, places, choice.field, id_field)
    origin = {"dataset": hub_set.hub_id, "config": hub_set.config, "split": split, "revision": commit}
    counts = {
        "rows": len(there),
        "blank_lines": 0,
        **_counts(found.prompts),
        "limit": choice.limit,
        "seed": choice.seed,
    }
    facts = {"fingerprint": dataset._fingerprint, "ids": id_field or "row", **_reading(found, choice)}
    return PromptSet(name.replace(":", "-"), found.prompts, {**origin, **facts, **counts})


def _rows_of(dataset: Dataset, only: tuple[str, tuple[str, ...]] | None) -> Sequence[int]:
    """Numbers of the rows to choose from."""
    if only is None:
        return range(len(dataset))
    column, values = only
    return [index for index, value in enumerate(dataset[column]) if value in values]


def _names_each(dataset: Dataset, field: str) -> bool:
    """Whether a column of a hub data set names every row, once each."""
    if field not in dataset.column_names:
        return False
    values = [value for value in dataset[field] if value is not None]
    return len(set(map(str, values))) == len(dataset)


def _from_file(name: str, file: RowFile, choice: _Choice) -> PromptSet:
    chosen = choice.of(len(file.rows))
    id_field = _id_field(file.rows)
    ids = chosen if id_field is None else [file.rows[index][id_field] for index in chosen]
    rows, places = [file.rows[index] for index in chosen], [file.place(index) for index in chosen]
    found = write_prompts(rows, ids, places, choice.field, id_field)
    origin = {"dataset": name, "file": file.path.name, "sha256": file.sha256}
    counts = {"rows": len(file.rows), "blank_lines": file.blank_lines, **_counts(found.prompts)}
    facts = {"ids": id_field or "row", **_reading(found, choice), "limit": choice.limit, "seed": choice.seed}
    return PromptSet(name, found.prompts, {**origin, **counts, **facts})


def _reading(found: Batch, choice: _Choice) -> dict[str, Any]:
    """How rows became prompts, and what of them did not."""
    field = {} if choice.field is None else {"prompt_field": choice.field}
    return {"format": found.form, **field, "left_out": found.left_out}


def _counts(prompts: tuple[Prompt, ...]) -> dict[str, int]:
    return {"selected": len(prompts), "empty": sum(not prompt.text.strip() for prompt in prompts)}


def _id_field(rows: tuple[dict, ...]) -> str | None:
    """The field that names every row, once each; None where row numbers (from 0) must do."""
    for field in ID_FIELDS:
        values = {str(row.get(field)) for row in rows if row.get(field) is not None}
        if len(values) == len(rows):
            return field
    return None


def _count(option: str, value: int | None, least: int) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ValueError(f"{option} must be a whole number from {least} up, or None, not {value!r}.")
    return number
