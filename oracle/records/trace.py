"""The trace: what one pass over the data records, and everything that follows from it.

On disk a trace is a directory with ``meta.json`` and ``part-*.parquet`` (one row a prompt).  In memory it is flat arrays
over all tokens with one offset per prompt (Arrow's own layout), so that array operations run over the whole trace at once.
Nothing derived is stored: agreement, run lengths and oracle iterations are computed here, and only here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.records.folder import Kind, write_whole

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Kind(key="schema", version=1, name="trace", command="oracle collect")
SIGNALS = ("confidence", "entropy", "margin")  # of the draft's next-token distribution, float32
_TOKENS = pa.list_(pa.int32())
_FLOATS = pa.list_(pa.float32())
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("index", pa.int64()),
        ("finish", pa.string()),
        ("max_new_tokens", pa.int32()),
        ("prompt_tokens", _TOKENS),
        ("target_tokens", _TOKENS),
        ("draft_tokens", _TOKENS),
        ("confidence", _FLOATS),
        ("entropy", _FLOATS),
        ("margin", _FLOATS),
        ("target_margin", _FLOATS),
        ("overrun_position", _TOKENS),
        ("overrun_tokens", pa.list_(_TOKENS)),
        ("overrun_confidence", pa.list_(_FLOATS)),
        ("overrun_entropy", pa.list_(_FLOATS)),
        ("overrun_margin", pa.list_(_FLOATS)),
    ]
)


@dataclass(frozen=True)
class Record:
    """One prompt's row: T = tokens of the target's text, M = positions where the draft disagrees.

    ``draft_tokens[t]`` is the draft's choice given the prompt and the target's text before t, and ``confidence``,
    ``entropy`` (nats) and ``margin`` (top-1 minus top-2 probability) describe the draft's distribution there.
    ``overrun_tokens[m]`` continues the draft's own text after its wrong token at ``overrun_position[m]``.
    """

    id: str
    index: int
    finish: str  # "eos" or "length"
    max_new_tokens: int  # the limit in force for this prompt; T equals it when finish is "length"
    prompt_tokens: np.ndarray  # int32 [P]
    target_tokens: np.ndarray  # int32 [T]
    draft_tokens: np.ndarray  # int32 [T]
    confidence: np.ndarray  # float32 [T]
    entropy: np.ndarray  # float32 [T]
    margin: np.ndarray  # float32 [T]
    target_margin: np.ndarray  # float32 [T], top-1 minus top-2 logit of the target
    overrun_position: np.ndarray  # int32 [M], local to the text
    overrun_tokens: Sequence[np.ndarray]  # M arrays, int32 [<= max_overrun]
    overrun_confidence: Sequence[np.ndarray]  # M arrays, float32
    overrun_entropy: Sequence[np.ndarray]
    overrun_margin: Sequence[np.ndarray]


@dataclass(frozen=True)
class Overruns:
    """The draft's own text after each of its disagreements, flat; U = number of disagreements in the trace."""

    position: np.ndarray  # int64 [U], index into the trace's flat token arrays
    offsets: np.ndarray  # int64 [U + 1], into the arrays below
    tokens: np.ndarray  # int32 [offsets[-1]]
    confidence: np.ndarray  # float32, like tokens
    entropy: np.ndarray
    margin: np.ndarray


@dataclass(frozen=True)
class Trace:
    """A loaded trace of P prompts and N tokens; ``offsets`` says which tokens are whose."""

    meta: dict
    ids: tuple[str, ...]  # P
    index: np.ndarray  # int64 [P], row number in the data set
    finish: np.ndarray  # str [P], "eos" or "length"
    max_new_tokens: np.ndarray  # int64 [P]
    prompt_offsets: np.ndarray  # int64 [P + 1]
    prompt_tokens: np.ndarray  # int32 [prompt_offsets[-1]]
    offsets: np.ndarray  # int64 [P + 1]
    target_tokens: np.ndarray  # int32 [N]
    draft_tokens: np.ndarray  # int32 [N]
    confidence: np.ndarray  # float32 [N]
    entropy: np.ndarray  # float32 [N]
    margin: np.ndarray  # float32 [N]
    target_margin: np.ndarray  # float32 [N]
    overruns: Overruns

    @staticmethod
    def load(path: str | Path) -> Trace:
        """Read a trace directory.  Raises ValueError that names what is wrong with it."""
        meta = read_meta(path)
        parts = part_files(path)
        if not parts:
            raise ValueError(f"{path}: the trace holds no finished part yet; run `oracle collect {path} --resume`")
        return _from_columns(lambda name: _read_column(parts, name), meta, str(path))

    @staticmethod
    def from_records(records: Sequence[Record], meta: dict) -> Trace:
        """A trace in memory, as if it had been written and loaded."""
        return _from_columns(_to_table(records).column, meta, "records")

    @property
    def dataset(self) -> str:
        """Name of the data set that the prompts are from, as it was given."""
        return str((self.meta.get("prompts") or {}).get("dataset") or "prompts")

    @property
    def prompts(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> int:
        return len(self.target_tokens)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return tuple(self.meta["eos_token_ids"])

    @property
    def max_overrun(self) -> int:
        return int(self.meta["max_overrun"])

    @functools.cached_property
    def prompt_of(self) -> np.ndarray:
        """Prompt number of every token, int64 [N]."""
        return np.repeat(np.arange(self.prompts), np.diff(self.offsets))

    @functools.cached_property
    def end(self) -> np.ndarray:
        """Flat index just after the text that each token belongs to, int64 [N]."""
        return self.offsets[1:][self.prompt_of]

    @functools.cached_property
    def context(self) -> np.ndarray:
        """Tokens before each position, prompt included, int64 [N]: the context length at which it is predicted."""
        local = np.arange(self.tokens) - self.offsets[self.prompt_of]
        return np.diff(self.prompt_offsets)[self.prompt_of] + local

    @functools.cached_property
    def budget(self) -> np.ndarray:
        """Most tokens that a drafter may propose from each position, int64 [N]: max_new_tokens - emitted - 1."""
        local = np.arange(self.tokens) - self.offsets[self.prompt_of]
        return self.max_new_tokens[self.prompt_of] - local - 1

    @functools.cached_property
    def agrees(self) -> np.ndarray:
        """Whether the draft's choice equals the target's token, bool [N]."""
        return self.draft_tokens == self.target_tokens

    @functools.cached_property
    def run(self) -> np.ndarray:
        """Leading tokens from each position on which the draft agrees, end of text included, int64 [N] (0 .. T - t)."""
        return np.minimum(next_true(~self.agrees), self.end) - np.arange(self.tokens)

    @functools.cached_property
    def accepted_run(self) -> np.ndarray:
        """Tokens accepted from each position if drafting never stopped, int64 [N].

        At most T - t - 1: the last token of a text always comes from the target (an accepted EOS counts as the bonus, and
        under a length limit the budget leaves room for one token of the target's).
        """
        return np.minimum(self.run, self.end - np.arange(self.tokens) - 1)

    @functools.cached_property
    def censored(self) -> np.ndarray:
        """Whether the end of the text cut the run from each position short, bool [N].

        The rule looks at the text's length only, never at the draft's last choice, so that it does not select the runs
        that it keeps: a run that reaches the last position is known to be at least ``accepted_run`` long, no more.
        """
        return np.arange(self.tokens) + self.accepted_run == self.end - 1

    @functools.cached_property
    def draft_ends(self) -> np.ndarray:
        """Whether the draft's choice is EOS, bool [N]: a draft stops there."""
        return np.isin(self.draft_tokens, self.eos_token_ids)

    @functools.cached_property
    def overrun_ends(self) -> np.ndarray:
        """The same for the flat tokens of the overruns, bool [offsets[-1]]."""
        return np.isin(self.overruns.tokens, self.eos_token_ids)

    @functools.cached_property
    def overrun_of(self) -> np.ndarray:
        """Row in ``overruns`` of every disagreement, int64 [N]; -1 where the draft agrees."""
        rows = np.full(self.tokens, -1, dtype=np.int64)
        rows[self.overruns.position] = np.arange(len(self.overruns.position))
        return rows

    @functools.cached_property
    def next_overrun(self) -> np.ndarray:
        """Row in ``overruns`` of the first disagreement at or after each position, int64 [N]; -1 where the text has none left."""
        first = np.arange(self.tokens) + self.run
        missed = first < self.end
        return np.where(missed, self.overrun_of[np.where(missed, first, 0)], -1)

    def iterations(self) -> pd.DataFrame:
        """The oracle's iterations: draft until the draft disagrees, in order of prompts and positions.

        Columns: prompt, iteration (within the prompt), position (within the text), accepted (= run length r),
        detect (= r + 1, the draft pass that disagrees counted too), censored.
        """
        import pandas as pd

        at = oracle_positions(self)
        prompt = self.prompt_of[at]
        first = np.searchsorted(prompt, np.arange(self.prompts))  # row of each prompt's first iteration
        return pd.DataFrame(
            {
                "prompt": prompt,
                "iteration": np.arange(len(at)) - first[prompt],
                "position": at - self.offsets[prompt],
                "accepted": self.accepted_run[at],
                "detect": self.accepted_run[at] + 1,
                "censored": self.censored[at],
            }
        )


def next_true(flags: np.ndarray) -> np.ndarray:
    """For each index the smallest index >= it where ``flags`` (bool [N]) is true, else N; int64 [N]."""
    size = len(flags)
    marked = np.where(flags, np.arange(size), size)
    return np.minimum.accumulate(marked[::-1])[::-1]


def chain(offsets: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Positions visited when every text is walked from its start by ``step`` (int [N], >= 1), int64.

    Following pointers is sequential by nature; over plain Python integers it costs some 50 ns a step.
    """
    following = (np.arange(len(step)) + step).tolist()
    visited: list[int] = []
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        at = start
        while at < end:
            visited.append(at)
            at = following[at]
    return np.array(visited, dtype=np.int64)


def oracle_positions(trace: Trace) -> np.ndarray:
    """Flat positions at which the oracle's iterations start, int64: each text's first, and those after a disagreement."""
    starts = np.concatenate([[True], ~trace.agrees[:-1]])
    starts[trace.offsets[:-1]] = True
    return np.flatnonzero(starts)


# --- reading and writing ---------------------------------------------------------------------------------------------


def read_meta(path: str | Path) -> dict:
    """The trace's ``meta.json``.  Raises ValueError where there is none, it is not ours, or its schema is unknown."""
    return FOLDER.read_meta(path)


def write_meta(path: str | Path, meta: dict) -> None:
    """Write ``meta.json`` (schema version added) so that a reader never sees half of it."""
    FOLDER.write_meta(path, meta)


def part_files(path: str | Path) -> list[Path]:
    """The finished parts in order.  Raises ValueError when one in the middle is missing."""
    parts = sorted(Path(path).glob("part-?????.parquet"))
    for number, part in enumerate(parts):
        if part.name != f"part-{number:05d}.parquet":
            raise ValueError(f"{path}: part-{number:05d}.parquet is missing but later parts are there; collect again")
    return parts


def write_part(path: str | Path, number: int, records: Sequence[Record]) -> None:
    """Write one part (``number`` from 0) to a temporary name and rename it: a killed run leaves only whole parts."""
    target = Path(path) / f"part-{number:05d}.parquet"
    table = _to_table(records)
    write_whole(target, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def _to_table(records: Sequence[Record]) -> pa.Table:
    def cell(value):
        if isinstance(value, np.ndarray):
            return value.tolist()
        return [item.tolist() for item in value] if isinstance(value, (list, tuple)) else value

    rows = [{name: cell(getattr(record, name)) for name in SCHEMA.names} for record in records]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _read_column(parts: Sequence[Path], name: str) -> pa.ChunkedArray:
    """One column of all parts.  Column by column, so that loading never holds the whole trace twice."""
    kind = SCHEMA.field(name).type
    chunks = []
    for part in parts:
        try:
            # Columns that a later version added are left aside: optional columns are how the trace grows.
            # Read as a file of its own: pyarrow would take a folder called a=b for a partition.
            chunks.extend(pq.ParquetFile(part).read(columns=[name]).column(name).cast(kind).chunks)
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            advice = "delete it and the parts after it, then `oracle collect --resume`"
            raise ValueError(f"{part}: not a readable part of a trace ({error}); {advice}") from None
    return pa.chunked_array(chunks, type=kind)


def _from_columns(column: Callable[[str], pa.ChunkedArray], meta: dict, name: str) -> Trace:
    offsets, target = _flatten(column("target_tokens"))
    prompt_offsets, prompt = _flatten(column("prompt_tokens"))
    per_token = {}
    for key in ("draft_tokens", *SIGNALS, "target_margin"):
        ends, per_token[key] = _flatten(column(key))
        _expect(np.array_equal(ends, offsets), name, f"column {key} has other lengths than target_tokens")
    finish = np.array(column("finish").to_pylist())
    limit = column("max_new_tokens").to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    _expect(len(lengths) > 0 and lengths.min() >= 1, name, "a prompt without a single target token")
    _expect(set(finish) <= {"eos", "length"}, name, f"finish must be eos or length, not {sorted(set(finish))}")
    _expect(bool(np.all(lengths <= limit)), name, "a text is longer than its max_new_tokens")
    trace = Trace(
        meta=meta,
        ids=tuple(column("id").to_pylist()),
        index=column("index").to_numpy(),
        finish=finish,
        max_new_tokens=limit,
        prompt_offsets=prompt_offsets,
        prompt_tokens=prompt,
        offsets=offsets,
        target_tokens=target,
        overruns=_overruns(column, offsets, name),
        **per_token,
    )
    expected = np.flatnonzero(~trace.agrees)
    _expect(np.array_equal(trace.overruns.position, expected), name, "overruns and disagreements do not match")
    return trace


def _overruns(column: Callable[[str], pa.ChunkedArray], offsets: np.ndarray, name: str) -> Overruns:
    miss_offsets, local = _flatten(column("overrun_position"))
    position = local.astype(np.int64) + np.repeat(offsets[:-1], np.diff(miss_offsets))
    values = {}
    inner = None
    for key in ("tokens", *SIGNALS):
        outer, chunk = _flatten(column(f"overrun_{key}"))
        ends, values[key] = _flatten(chunk)
        inner = ends if inner is None else inner
        same = np.array_equal(outer, miss_offsets) and np.array_equal(ends, inner)
        _expect(same, name, f"column overrun_{key} has other lengths than overrun_position")
    return Overruns(position=position, offsets=inner, **values)


def _flatten(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, np.ndarray | pa.Array]:
    """Offsets int64 [rows + 1] and flat values of a list column; values stay Arrow where they are lists themselves."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    lengths = [np.diff(chunk.offsets.to_numpy()) for chunk in chunks]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.zeros(0, int)]))]).astype(np.int64)
    values = [chunk.flatten() for chunk in chunks]
    if pa.types.is_list(column.type.value_type):
        return offsets, pa.chunked_array(values, type=column.type.value_type)
    empty = np.zeros(0, column.type.value_type.to_pandas_dtype())
    return offsets, np.concatenate([empty, *[value.to_numpy(zero_copy_only=False) for value in values]])


def _expect(holds: bool, name: str, problem: str) -> None:
    if not holds:
        raise ValueError(f"{name}: damaged trace: {problem}; collect it again")


def iter_records(trace: Trace) -> Iterator[Record]:
    """The trace's rows again, one Record a prompt (views, not copies)."""
    over = trace.overruns
    for number, name in enumerate(trace.ids):
        text = slice(trace.offsets[number], trace.offsets[number + 1])
        first, last = np.searchsorted(over.position, [text.start, text.stop])
        pieces = [slice(over.offsets[row], over.offsets[row + 1]) for row in range(first, last)]
        yield Record(
            id=name,
            index=int(trace.index[number]),
            finish=str(trace.finish[number]),
            max_new_tokens=int(trace.max_new_tokens[number]),
            prompt_tokens=trace.prompt_tokens[trace.prompt_offsets[number] : trace.prompt_offsets[number + 1]],
            overrun_position=(over.position[first:last] - text.start).astype(np.int32),
            **{f"overrun_{key}": [getattr(over, key)[piece] for piece in pieces] for key in ("tokens", *SIGNALS)},
            **{key: getattr(trace, key)[text] for key in ("target_tokens", "draft_tokens", *SIGNALS, "target_margin")},
        )
