"""Prompts: known data sets of the hub, local files and the demo prompts."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oracle.prompts.files import ENDINGS, RowFile, read_rows
from oracle.prompts.forms import Prompt, write_prompts
from oracle.prompts.hub import HubSet, load_hub_set
from oracle.shipped import data_path
from oracle.words import did_you_mean


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


HUB_SETS = {
    "mbpp": HubSet("google-research-datasets/mbpp", "full", ("test", "train", "validation", "prompt")),
    "alpaca": HubSet("tatsu-lab/alpaca", "default", ("train",)),
    "humaneval": HubSet("openai/openai_humaneval", "openai_humaneval", ("test",)),
    "cnn_dailymail": HubSet("abisee/cnn_dailymail", "3.0.0", ("test", "train", "validation")),
}
DEMOS = ("demo-code", "demo-text")
_NAMES = (*HUB_SETS, *DEMOS)
ID_FIELDS = ("task_id", "id")


def load_prompts(
    source: str | os.PathLike,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    revision: str | None = None,
) -> PromptSet:
    """Load prompts from a known data set, the demo prompts or a local file.

    `source` is a name in `HUB_SETS` (or its hub id), one in `DEMOS`, or the path of a .jsonl, .json or .parquet file,
    whose schema is recognised by its fields (see `oracle.prompts.forms.FORMS`). `split` and `revision` (a commit, tag
    or branch) are for hub data sets only. `limit` takes the first rows, or with a `seed` that many at random without
    replacement; with one seed a smaller sample is the beginning of a larger one, and no limit means all rows, shuffled.
    Rows with nothing in them stay in the set, as empty texts.

    Raises ValueError for a bad argument or file, RuntimeError for a hub data set that can be had neither from the hub
    nor from the cache.
    """
    limit, seed = _count("limit", limit, 1), _count("seed", seed, 0)
    name = _source_name(source)
    if isinstance(source, str) and name in HUB_SETS:
        return _from_hub(name, split, limit, seed, revision)
    for option, value in (("split", split), ("revision", revision)):
        if value is not None:
            raise ValueError(f"{name} has no {option}s, so {option} {value!r} means nothing here. Leave it out.")
    if isinstance(source, str) and name in DEMOS:
        return _from_file(name, read_rows(data_path(f"{name}.jsonl")), limit, seed)
    path = Path(source).expanduser()
    return _from_file(path.stem, read_rows(path), limit, seed)


def _source_name(source: str | os.PathLike) -> str:
    """The name in HUB_SETS or DEMOS that `source` means, or the path as text."""
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        raise ValueError(f"Prompts come from a name or a path, not {source!r}. Names: {', '.join(_NAMES)}.")
    if not isinstance(source, str):  # a Path is a path, even one that is named like a data set
        return os.fspath(source)
    names = {**{hub_set.hub_id: name for name, hub_set in HUB_SETS.items()}, **{name: name for name in _NAMES}}
    looks_like_path = os.path.exists(source) or Path(source).suffix or source.startswith((".", "~"))
    if source not in names and not looks_like_path:
        raise ValueError(
            f"Unknown prompts {source!r}. Legal: {', '.join(_NAMES)}, or the path of a {', '.join(ENDINGS)} file."
            f"{did_you_mean(source, names)}"
        )
    return names.get(source, source)


def _from_hub(name: str, split: str | None, limit: int | None, seed: int | None, revision: str | None) -> PromptSet:
    hub_set = HUB_SETS[name]
    split = hub_set.splits[0] if split is None else split
    if split not in hub_set.splits:
        hint = did_you_mean(str(split), hub_set.splits)
        raise ValueError(f"{name} has no split {split!r}. Legal: {', '.join(hub_set.splits)}.{hint}")
    dataset, commit = load_hub_set(hub_set, split, revision)
    chosen = _choose(len(dataset), limit, seed)
    rows = [dataset[index] for index in chosen]
    id_field = next((field for field in ID_FIELDS if field in dataset.column_names), None)
    places = [f"{hub_set.hub_id}, row {index + 1} of {split}" for index in chosen]
    ids = chosen if id_field is None else [row[id_field] for row in rows]
    form, prompts = write_prompts(rows, ids, places)
    origin = {"dataset": hub_set.hub_id, "config": hub_set.config, "split": split, "revision": commit}
    counts = {"rows": len(dataset), "blank_lines": 0, **_counts(prompts), "limit": limit, "seed": seed}
    facts = {"fingerprint": dataset._fingerprint, "format": form, "ids": id_field or "row"}
    return PromptSet(name, prompts, {**origin, **facts, **counts})


def _from_file(name: str, file: RowFile, limit: int | None, seed: int | None) -> PromptSet:
    chosen = _choose(len(file.rows), limit, seed)
    id_field = _id_field(file.rows)
    ids = chosen if id_field is None else [file.rows[index][id_field] for index in chosen]
    rows, places = [file.rows[index] for index in chosen], [file.place(index) for index in chosen]
    form, prompts = write_prompts(rows, ids, places)
    origin = {"dataset": name, "file": file.path.name, "sha256": file.sha256}
    counts = {"rows": len(file.rows), "blank_lines": file.blank_lines, **_counts(prompts), "limit": limit, "seed": seed}
    return PromptSet(name, prompts, {**origin, "format": form, "ids": id_field or "row", **counts})


def _counts(prompts: tuple[Prompt, ...]) -> dict[str, int]:
    return {"selected": len(prompts), "empty": sum(not prompt.text.strip() for prompt in prompts)}


def _id_field(rows: tuple[dict, ...]) -> str | None:
    """The field that names every row, once each; None where row numbers (from 0) must do."""
    for field in ID_FIELDS:
        values = {str(row.get(field)) for row in rows if row.get(field) is not None}
        if len(values) == len(rows):
            return field
    return None


def _choose(rows: int, limit: int | None, seed: int | None) -> list[int]:
    order = np.arange(rows) if seed is None else np.random.default_rng(seed).permutation(rows)
    return order[:limit].tolist()


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
