"""Data sets of the Hugging Face hub: from the hub when it answers, from the local cache when it does not."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Dataset

PROBE_SECONDS = 4.0
_USUAL_SPLITS = ("test", "train", "validation")
WAYS_OUT = (
    "Give a local file instead (.jsonl, .json, .parquet or .csv with the same fields), "
    "or use the prompts that come with the project: demo-code, demo-text."
)


class NoSplit(ValueError):
    """The data set has no split of that name."""


@dataclass(frozen=True)
class HubSet:
    """A data set on the hub, as `datasets.load_dataset` wants it; the first of `splits` is the default.

    Of one that is not known beforehand, `splits` is empty, and `config` None where it has a single configuration.
    """

    hub_id: str
    config: str | None
    splits: tuple[str, ...]
    rows: tuple[int, ...] = ()  # of each split
    licence: str = ""
    fields: tuple[str, ...] = ()  # the columns that a prompt is made of


def load_split(hub_set: HubSet, split: str | None, revision: str | None = None) -> tuple[Dataset, str | None, str]:
    """One split of a hub data set (its default for None), its commit (None if unknown) and the name of the split.

    The default of one that is not known beforehand is test, or the first of train and validation that it has. Raises
    as `load_hub_set` does.
    """
    if split is not None or hub_set.splits:
        chosen = hub_set.splits[0] if split is None else split
        return *load_hub_set(hub_set, chosen, revision), chosen
    for usual in _USUAL_SPLITS[:-1]:
        try:
            return *load_hub_set(hub_set, usual, revision), usual
        except NoSplit:
            continue
    return *load_hub_set(hub_set, _USUAL_SPLITS[-1], revision), _USUAL_SPLITS[-1]


def load_hub_set(hub_set: HubSet, split: str, revision: str | None = None) -> tuple[Dataset, str | None]:
    """Return one split of a hub data set and its commit (None if unknown).

    Without a hub in reach a cached copy is used, if it is of the revision asked for; without one of those either,
    RuntimeError within about `PROBE_SECONDS`. ValueError if the data set has no such split or configuration.
    """
    import datasets

    problem, commit = probe_hub(hub_set.hub_id, revision, PROBE_SECONDS)
    try:
        with _offline(problem is not None):
            # The configuration is always named: offline, datasets finds a cached copy by it and by nothing else.
            dataset = datasets.load_dataset(hub_set.hub_id, hub_set.config, split=split, revision=revision)
    except Exception as error:  # datasets, huggingface_hub and their HTTP client share no base class
        raise _explained(error, problem, hub_set, split) from error
    cached = _cached_commit(dataset)
    if problem is not None and revision is not None and not (cached or "").startswith(revision):
        # Offline, datasets takes whichever revision is cached, without a word.
        raise RuntimeError(
            f"{hub_set.hub_id} is cached at revision {cached}, not {revision}, and the hub does not provide that one "
            f"({problem}). Leave the revision out, or {WAYS_OUT[0].lower()}{WAYS_OUT[1:]}"
        )
    return dataset, cached or commit


def probe_hub(hub_id: str, revision: str | None, seconds: float) -> tuple[str | None, str | None]:
    """Ask the hub about a data set and return (problem, commit), one of them None, after `seconds` at the latest.

    datasets itself retries an unreachable hub for over 20 s, and a hanging name server obeys no HTTP timeout at all: so
    one request, in a thread that is left behind when the time is up.
    """
    from huggingface_hub import HfApi

    answers: queue.Queue[tuple[str | None, str | None]] = queue.Queue()

    def ask() -> None:
        try:
            answers.put((None, HfApi().dataset_info(hub_id, revision=revision, timeout=seconds).sha))
        except Exception as error:  # whatever it is, the hub cannot be used now
            answers.put((f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", None))

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return f"no answer within {seconds:g} s", None


@contextmanager
def _offline(wanted: bool) -> Iterator[None]:
    """Keep datasets away from the network, as HF_HUB_OFFLINE=1 does: it then goes to its cache at once."""
    from datasets import config

    before = config.HF_HUB_OFFLINE
    config.HF_HUB_OFFLINE = before or wanted
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = before


def _explained(error: Exception, problem: str | None, hub_set: HubSet, split: str) -> Exception:
    what = f"{hub_set.hub_id} (configuration {hub_set.config or 'default'}, split {split})"
    reason = f"{type(error).__name__}: {error}"
    if "Unknown split" in str(error):
        return NoSplit(f"{what} does not exist. {error}")
    if "BuilderConfig" in str(error):
        return ValueError(f"{what} does not exist. {error}")
    if "Config name is missing" in str(error):
        listed = " ".join(str(error).split()).partition("Example of usage")[0]
        return ValueError(f"{hub_set.hub_id} has several configurations: name one, as {hub_set.hub_id}:NAME. {listed}")
    if "scripts are no longer supported" in str(error):
        return RuntimeError(f"{what} is published as a Python script, which is never executed. {WAYS_OUT}")
    if problem is not None:
        return RuntimeError(f"{what} is not in the local cache and the hub does not provide it ({problem}). {WAYS_OUT}")
    return RuntimeError(f"{what} could not be loaded ({reason}). {WAYS_OUT}")


def _cached_commit(dataset: Dataset) -> str | None:
    """The commit that a data set was prepared from: datasets names the folder of its files after it."""
    for file in dataset.cache_files:
        folder = Path(file["filename"]).parent.name
        if re.fullmatch("[0-9a-f]{40}", folder):
            return folder
    return None
