"""Measured runs: one row a call of the generator, with its iterations, on disk and in memory.

On disk a run is a directory with ``meta.json`` and Parquet files, one row a call, the iterations as list columns.
Each call is written when it ends, to a file of its own; when all have ended they are put together.  A killed run
leaves whole calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.records import columns, parquet
from oracle.records.consistency import check_runs
from oracle.records.folder import Kind
from oracle.records.meta import RunsMeta, looked_up
from oracle.records.parts import Part, verify, write_part
from oracle.records.shown import Shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FOLDER = Kind(
    key="runs_schema",
    version=1,
    name="folder of measured runs",
    holds="measured runs",
    command="oracle measure",
    meta=RunsMeta,
    prefix="call",
    digits=6,
    unit="order",
    units="calls",
    marks=frozenset({"prompt", "policy", "repeat", "order", "drafted", "verify_seconds"}),
    merged="calls.parquet",
)
PLAIN = "none"  # the policy that decodes without a draft: what the others are compared with
ITERATION_COLUMNS = {column.name: column.dtype for column in columns.RUNS if column.axis == "iteration"}
SCHEMA = columns.schema(columns.RUNS)


@dataclass(frozen=True, repr=False)
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
    passes: np.ndarray
    budget: np.ndarray
    threshold: np.ndarray
    draft_seconds: np.ndarray
    verify_seconds: np.ndarray
    forward_seconds: np.ndarray
    rest_seconds: np.ndarray

    def __repr__(self) -> str:
        return f"<Call {self.policy}, repeat {self.repeat}, prompt {self.id!r}: {len(self.tokens)} tokens>"

    @property
    def key(self) -> tuple[str, int, int]:
        return (self.policy, self.repeat, self.prompt)

    @property
    def seconds(self) -> np.ndarray:
        """Of each iteration, float [I]; they add up to ``total_seconds``."""
        return self.draft_seconds + self.verify_seconds + self.rest_seconds


@dataclass(frozen=True, repr=False)
class Runs(Shown):
    """Measured calls in the order in which they ran, and where and how they were measured."""

    meta: dict
    calls: tuple[Call, ...]
    unfinished: str | None = None  # what to say of runs that have not ended: what is missing, and how to go on

    @staticmethod
    def load(path: str | Path) -> Runs:
        """Read a directory of runs.  Raises ValueError that names what is wrong with it."""
        meta = read_meta(path)
        calls = read_calls(FOLDER.parts(path, meta), meta)
        if not calls:
            raise ValueError(f"{path}: no finished call yet; {FOLDER.resume_line(path)} goes on")
        return Runs(meta, calls, FOLDER.unfinished(path, len(calls), planned_calls(meta)))

    def in_short(self) -> str:
        models = " + ".join(str((self.meta.get(role) or {}).get("model", "?")) for role in ("target", "draft"))
        prompts, tokens = len({call.prompt for call in self.calls}), sum(len(call.tokens) for call in self.calls)
        data = (self.meta.get("prompts") or {}).get("dataset") or "prompts"
        return f"{models}, {data}: {prompts:,} prompts, {len(self.calls):,} calls, {tokens:,} tokens"

    def to_frame(self) -> pd.DataFrame:
        """`iterations`: one row an iteration."""
        return self.iterations()

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
    """Add one finished call.  It belongs to the run that ``meta.json`` names, where that names one."""
    run_id = read_meta(path).get("run_id")
    write_part(Path(path) / FOLDER.part_name(call.order, run_id), to_table([call]), FOLDER.unit, run_id)


def read_calls(parts: Iterable[Part], meta: dict) -> tuple[Call, ...]:
    """The calls of finished parts, in the order in which they ran."""
    return latest(call for part in parts for call in _read(part, clipped=not looked_up(meta)))


def latest(calls: Iterable[Call]) -> tuple[Call, ...]:
    """The calls in order; of one that its run made twice the later.

    A policy that learns starts an unfinished repeat again: what it has learned is not in the record.
    """
    found = {call.key: call for call in sorted(calls, key=lambda call: call.order)}
    return tuple(sorted(found.values(), key=lambda call: call.order))


def planned_calls(meta: dict) -> int | None:
    """How many calls the run makes in all; None where its meta does not say."""
    sizes = (meta.get("prompts_planned"), meta.get("repeats"), len(meta.get("policies") or ()))
    return math.prod(size for size in sizes if size) if all(sizes) else None


def to_table(calls: Iterable[Call]) -> pa.Table:
    """One row a call, in the columns that are declared."""
    return parquet.to_table(list(calls), columns.RUNS)


def _read(part: Part, clipped: bool) -> list[Call]:
    try:
        found = parquet.read(part.file, columns.RUNS, functools.partial(verify, part))
        # Written before a policy could drop tokens that it had drafted.
        found.setdefault("passes", found["drafted"])
        check_runs(found, clipped)
    except (ValueError, OSError) as error:
        raise FOLDER.unreadable(part.file, error) from None
    return [Call(**{name: _plain(flat.row(row)) for name, flat in found.items()}) for row in range(len(found["id"]))]


def _plain(value: Any) -> Any:
    """A numpy scalar as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
