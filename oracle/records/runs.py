"""Measured runs: one row a call of the generator, with its iterations, on disk and in memory.

On disk a run is a directory with ``meta.json`` and Parquet files, one row a call, the iterations as list columns.
Each call is written when it ends, to a file of its own; ``merge`` puts finished files together.  A killed run
leaves whole calls.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.records.folder import Kind, write_whole

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Kind(key="runs_schema", version=1, name="folder of measured runs", command="oracle measure")
PLAIN = "none"  # the policy that decodes without a draft: what the others are compared with
ITERATION_COLUMNS: dict[str, type] = {
    "position": np.int64,  # tokens of the text before the iteration
    "drafted": np.int64,
    "accepted": np.int64,
    "budget": np.int64,  # most tokens that the policy asked for, before the remaining length clips it
    "threshold": np.float64,  # confidence threshold in force; 0 is off, nan in the own loop (a policy object decides)
    "draft_seconds": np.float64,  # the drafting phase
    "verify_seconds": np.float64,  # target pass, choice of tokens and rollback; all of a step without a draft
    "forward_seconds": np.float64,  # the target's forward pass alone
    "rest_seconds": np.float64,  # before the drafting phase, back to the last iteration; the call's start and end too
}
_TYPES = {np.int64: pa.int32(), np.float64: pa.float64()}
SCHEMA = pa.schema(
    [
        ("prompt", pa.int32()),
        ("id", pa.string()),
        ("policy", pa.string()),
        ("repeat", pa.int32()),
        ("order", pa.int32()),
        ("generator", pa.string()),
        ("max_new_tokens", pa.int32()),
        ("prompt_tokens", pa.list_(pa.int32())),
        ("tokens", pa.list_(pa.int32())),
        ("total_seconds", pa.float64()),
        ("prefill_seconds", pa.float64()),
        ("equal", pa.bool_()),
        ("first_difference", pa.int32()),
        ("difference_margin", pa.float64()),
        *((name, pa.list_(_TYPES[kind])) for name, kind in ITERATION_COLUMNS.items()),
    ]
)


@dataclass(frozen=True)
class Call:
    """One call of the generator on one prompt; its iterations are arrays [I] (``ITERATION_COLUMNS``)."""

    prompt: int  # number of the prompt in the run, from 0
    id: str
    policy: str  # as given; "none" is plain decoding
    repeat: int  # from 0
    order: int  # how many calls this run had finished before
    generator: str  # "library", or "loop" for the toolkit's own
    max_new_tokens: int
    prompt_tokens: np.ndarray  # int32 [P]
    tokens: np.ndarray  # int32 [N], the text
    total_seconds: float  # N tokens, prompt included
    prefill_seconds: float  # of it, up to the end of the first target pass; total_seconds where that was the only one
    equal: bool  # the text is that of plain greedy decoding
    first_difference: int | None  # first index where it is not
    difference_margin: float | None  # the target's lead of its first over its second choice there, in logits
    position: np.ndarray
    drafted: np.ndarray
    accepted: np.ndarray
    budget: np.ndarray
    threshold: np.ndarray
    draft_seconds: np.ndarray
    verify_seconds: np.ndarray
    forward_seconds: np.ndarray
    rest_seconds: np.ndarray

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.policy, self.repeat, self.prompt)

    @property
    def seconds(self) -> np.ndarray:
        """Of each iteration, float [I]; they add up to ``total_seconds``."""
        return self.draft_seconds + self.verify_seconds + self.rest_seconds


@dataclass(frozen=True)
class Runs:
    """Measured calls in the order in which they ran, and where and how they were measured."""

    meta: dict
    calls: tuple[Call, ...]

    @staticmethod
    def load(path: str | Path) -> Runs:
        """Read a directory of runs.  Raises ValueError that names what is wrong with it."""
        meta = read_meta(path)
        calls = {call.key: call for file in _files(path) for call in _read(file)}
        if not calls:
            raise ValueError(f"{path}: no finished call yet; `oracle measure {path} --resume` goes on")
        return Runs(meta, tuple(sorted(calls.values(), key=lambda call: call.order)))

    @functools.cached_property
    def policies(self) -> list[str]:
        """Every policy that ran, plain decoding ("none") included, in order of appearance."""
        return list(dict.fromkeys(call.policy for call in self.calls))

    @functools.cached_property
    def repeats(self) -> int:
        return 1 + max(call.repeat for call in self.calls)

    def of(self, policy: str) -> list[Call]:
        """The calls of a policy, by repeat and prompt.  Raises ValueError for one that did not run."""
        found = [call for call in self.calls if call.policy == policy]
        if not found:
            raise ValueError(f"policy {policy!r} was not measured; measured: {', '.join(self.policies)}")
        return sorted(found, key=lambda call: (call.repeat, call.prompt))

    def calls_table(self) -> pd.DataFrame:
        """One row a call."""
        import pandas as pd

        names = [field.name for field in fields(Call) if field.name not in (*ITERATION_COLUMNS, "prompt_tokens")]
        table = pd.DataFrame([{name: getattr(call, name) for name in names} for call in self.calls])
        return table.assign(tokens=[len(call.tokens) for call in self.calls])

    def iterations(self) -> pd.DataFrame:
        """One row an iteration: whose it is, its number, its context (tokens before it), and its columns."""
        import pandas as pd

        size = [len(call.position) for call in self.calls]
        columns = {
            name: np.repeat([getattr(call, name) for call in self.calls], size)
            for name in ("prompt", "policy", "repeat", "generator")
        }
        columns["iteration"] = np.concatenate([np.arange(count) for count in size])
        for name in ITERATION_COLUMNS:
            columns[name] = np.concatenate([getattr(call, name) for call in self.calls])
        columns["context"] = columns["position"] + np.repeat([len(call.prompt_tokens) for call in self.calls], size)
        return pd.DataFrame(columns)


def read_meta(path: str | Path) -> dict:
    """The run's ``meta.json``.  Raises ValueError where there is none, it is not ours, or its schema is unknown."""
    return FOLDER.read_meta(path)


def write_meta(path: str | Path, meta: dict) -> None:
    """Write ``meta.json`` (schema version added) so that a reader never sees half of it."""
    FOLDER.write_meta(path, meta)


def write_call(path: str | Path, call: Call) -> None:
    """Add one finished call."""
    _write(Path(path) / f"call-{call.order:06d}.parquet", [call])


def merge(path: str | Path) -> None:
    """Put all finished calls into one file.  Killed in between, it leaves calls twice; a reader takes one."""
    files = _files(path)
    calls = {call.key: call for file in files for call in _read(file)}
    _write(Path(path) / "calls.parquet", list(calls.values()))
    for file in files:
        if file.name != "calls.parquet":
            file.unlink()


def clear(path: str | Path) -> None:
    """Remove all calls."""
    for file in _files(path):
        file.unlink()


def finished(path: str | Path) -> tuple[Call, ...]:
    """The calls written so far, in order; none is not an error."""
    calls = {call.key: call for file in _files(path) for call in _read(file)}
    return tuple(sorted(calls.values(), key=lambda call: call.order))


def _files(path: str | Path) -> list[Path]:
    merged = Path(path) / "calls.parquet"
    return [*([merged] if merged.is_file() else []), *sorted(Path(path).glob("call-*.parquet"))]


def _write(file: Path, calls: Iterable[Call]) -> None:
    rows = [{name: _plain(getattr(call, name)) for name in SCHEMA.names} for call in calls]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    write_whole(file, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def _plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read(file: Path) -> list[Call]:
    kinds = ITERATION_COLUMNS | {"prompt_tokens": np.int32, "tokens": np.int32}
    try:
        # Read as a file of its own: pyarrow would take the folder's name for a partition.
        rows = pq.ParquetFile(file).read(columns=SCHEMA.names).cast(SCHEMA).to_pylist()
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise ValueError(f"{file}: not readable ({error}); delete it, then `oracle measure --resume`") from None
    return [Call(**row | {name: np.array(row[name], kind) for name, kind in kinds.items()}) for row in rows]
