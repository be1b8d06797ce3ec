"""The trace: what one pass over the data records, and everything that follows from it.

On disk a trace is a directory with ``meta.json`` and ``part-*.parquet`` (one row a prompt, the columns of
``oracle.records.columns``).  In memory it is flat arrays over all tokens with one offset per prompt (Arrow's own
layout), so that array operations run over the whole trace at once.  Nothing derived is stored: run lengths and oracle
iterations are computed from it (``outcomes``), and only there.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.records import columns, parquet
from oracle.records.columns import SIGNALS, Column
from oracle.records.consistency import check_trace
from oracle.records.flat import Flat, Stack, take_rows
from oracle.records.folder import Kind
from oracle.records.meta import TraceMeta, looked_up
from oracle.records.outcomes import Outcomes, chain, chain_runs, next_true
from oracle.records.parts import Part, verify
from oracle.records.parts import write_part as write_table
from oracle.records.selection import select_prompts, which
from oracle.records.shown import Shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "FOLDER", "SCHEMA", "SIGNALS", "Overruns", "Record", "Rounds", "Trace", "chain", "iter_records", "next_true",
    "oracle_positions", "part_files", "read_meta", "to_table", "write_meta", "write_part",
]  # fmt: skip

FOLDER = Kind(
    key="schema",
    version=1,
    name="trace",
    holds="a trace",
    command="oracle collect",
    meta=TraceMeta,
    prefix="part",
    digits=5,
    unit="id",
    units="prompts",
    marks=frozenset({"id", "index", "target_tokens"}),
)
SCHEMA = columns.schema(columns.TRACE)
KINDS = ("chain", "round")
_PART = 500  # prompts in a file, of a trace that is saved whole


@dataclass(frozen=True, kw_only=True, repr=False)
class Record:
    """One prompt's row: T = tokens of the target's text, M = positions where the draft disagrees.

    ``oracle.records.columns`` says what each column means.  One that the source cannot give is None; a column that is
    declared there and has no field here is in ``extra``.
    """

    id: str
    index: int
    finish: str  # "eos" or "length"
    max_new_tokens: int  # the limit in force for this prompt; T equals it when finish is "length"
    prompt_tokens: np.ndarray  # int32 [P]
    target_tokens: np.ndarray  # int32 [T]
    draft_tokens: np.ndarray | None = None  # int32 [T]
    confidence: np.ndarray | None = None  # float32 [T]
    entropy: np.ndarray | None = None  # float32 [T]
    margin: np.ndarray | None = None  # float32 [T]
    target_margin: np.ndarray | None = None  # float32 [T], top-1 minus top-2 logit of the target
    overrun_position: np.ndarray | None = None  # int32 [M], local to the text
    overrun_tokens: Sequence[np.ndarray] | None = None  # M arrays, int32 [<= max_overrun]
    overrun_confidence: Sequence[np.ndarray] | None = None  # M arrays, float32
    overrun_entropy: Sequence[np.ndarray] | None = None
    overrun_margin: Sequence[np.ndarray] | None = None
    draft_top: Sequence[np.ndarray] | None = None  # T arrays, float32 [top_k]
    draft_top_after: Sequence[np.ndarray] | None = None  # M arrays, float32 [tokens of the overrun x top_k]
    run: np.ndarray | None = None  # int32 [T], of a round draft
    round_tokens: Sequence[np.ndarray] | None = None  # T arrays, int32 [<= round_limit]
    round_confidence: Sequence[np.ndarray] | None = None  # T arrays, float32
    round_entropy: Sequence[np.ndarray] | None = None
    round_margin: Sequence[np.ndarray] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Record {self.id!r}: {len(self.target_tokens)} tokens>"


@dataclass(frozen=True, repr=False)
class Overruns:
    """The draft's own text after each of its disagreements, flat; U = number of disagreements in the trace."""

    position: np.ndarray  # int64 [U], index into the trace's flat token arrays
    offsets: np.ndarray  # int64 [U + 1], into the arrays below
    tokens: np.ndarray | None  # int32 [offsets[-1]]; as the others None where the trace lacks it
    confidence: np.ndarray | None  # float32, like tokens
    entropy: np.ndarray | None
    margin: np.ndarray | None


@dataclass(frozen=True, repr=False)
class Rounds:
    """What a round draft proposes from each of the N positions, flat."""

    run: np.ndarray  # int64 [N], accepted tokens if drafting never stopped, at most ``limit``
    limit: int  # most tokens recorded of a round
    offsets: np.ndarray | None = None  # int64 [N + 1], into the arrays below; None where there is none of them
    tokens: np.ndarray | None = None  # int32 [offsets[-1]]; as the others None where the trace lacks it
    confidence: np.ndarray | None = None  # float32, like tokens
    entropy: np.ndarray | None = None
    margin: np.ndarray | None = None


@dataclass(frozen=True, repr=False)
class Trace(Shown):
    """A loaded trace of P prompts and N tokens; ``offsets`` says which tokens are whose.

    What its source could not give is None (``lacks`` names it); ``need`` refuses it by name.
    """

    meta: dict
    ids: tuple[str, ...]  # P
    index: np.ndarray  # int64 [P], row number in the data set
    finish: np.ndarray  # str [P], "eos" or "length"
    max_new_tokens: np.ndarray  # int64 [P]
    prompt_offsets: np.ndarray  # int64 [P + 1]
    prompt_tokens: np.ndarray  # int32 [prompt_offsets[-1]]
    offsets: np.ndarray  # int64 [P + 1]
    target_tokens: np.ndarray  # int32 [N]
    draft_tokens: np.ndarray | None = None  # int32 [N]
    confidence: np.ndarray | None = None  # float32 [N]
    entropy: np.ndarray | None = None  # float32 [N]
    margin: np.ndarray | None = None  # float32 [N]
    target_margin: np.ndarray | None = None  # float32 [N]
    overruns: Overruns | None = None  # of a chain draft
    rounds: Rounds | None = None  # of a round draft
    extra: Mapping[str, Flat] = field(default_factory=dict)  # declared columns without a field here; a row is a prompt
    unfinished: str | None = None  # what to say of a run that has not ended: what is missing, and how to go on

    @staticmethod
    def load(path: str | Path) -> Trace:
        """Read a trace directory.  Raises ValueError that names what is wrong with it.

        A run that was interrupted is no error: its trace holds what was finished, and ``unfinished`` says so.
        """
        meta = _checked(read_meta(path), f"{path}/meta.json")
        parts = FOLDER.parts(path, meta)
        if not parts:
            raise ValueError(f"{path}: the trace holds no finished part yet; run {FOLDER.resume_line(path)}")
        stack, first = Stack(), None
        for part in parts:
            piece = _read_part(part, meta)
            first = piece.keys() if first is None else first
            if missing := sorted(first ^ piece.keys()):
                raise ValueError(f"{part.file} and {parts[0].file.name} differ in column {missing[0]}; collect again")
            stack.add(piece)
        trace = _in_memory(_in_order(stack.done()), meta, path)
        unfinished = FOLDER.unfinished(path, trace.prompts, meta.get("prompts_planned"))
        return dataclasses.replace(trace, unfinished=unfinished)

    @staticmethod
    def from_records(records: Sequence[Record], meta: dict) -> Trace:
        """A trace in memory, as if it had been written and loaded."""
        meta = _checked(meta, "meta")
        try:
            found = parquet.from_rows(records, _columns_of(meta))
            check_trace(found, meta)
        except parquet.Refused as error:
            raise ValueError(f"records: damaged trace: {error}; collect it again") from None
        return _in_memory(found, meta, "records")

    def save(self, path: str | Path) -> Path:
        """Write it to a folder that is not there yet; its path.  Raises ValueError where something is there."""
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} is there already; name a folder that is not")
        folder.mkdir(parents=True, exist_ok=True)
        planned = {"prompts_planned": self.prompts} if "prompts_planned" in self.meta else {}
        write_meta(folder, self.meta | planned)
        records = list(iter_records(self))
        for number, first in enumerate(range(0, len(records), _PART)):
            write_part(folder, number, records[first : first + _PART])
        return folder

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: int | str | slice) -> Record | Trace:
        """One prompt's record, by its number or id; of a slice the trace of those prompts.

        Raises IndexError for a number and KeyError for an id that is not there.
        """
        if isinstance(which, slice):
            return self.select(which)
        if isinstance(which, str):
            if which not in self.ids:
                raise KeyError(f"no prompt has the id {which!r}; the first ids here: {', '.join(self.ids[:5])}")
            which = self.ids.index(which)
        number = operator.index(which)
        if not -self.prompts <= number < self.prompts:
            raise IndexError(f"prompt {number} is not there; the trace has {self.prompts:,}, from 0 on")
        mask = np.zeros(self.prompts, bool)
        mask[number] = True
        return next(iter_records(self.select(mask)))

    def in_short(self) -> str:
        models = " + ".join(_name(self.meta.get(role)) for role in ("target", "draft"))
        lacks = f", lacks {', '.join(self.lacks)}" if self.lacks else ""
        return f"{models}, {self.dataset}: {self.prompts:,} prompts, {self.tokens:,} tokens{lacks}"

    def to_frame(self) -> pd.DataFrame:
        """One row a token of the texts.

        Columns: prompt (its id), position, target_token, accepted (= run length r from there), censored, and of a chain
        draft draft_token, agrees and its signals where they were recorded.
        """
        import pandas as pd

        sizes = np.diff(self.offsets)
        found = {
            "prompt": np.repeat(np.array(self.ids, object), sizes),
            "position": np.arange(self.tokens) - np.repeat(self.offsets[:-1], sizes),
            "target_token": self.target_tokens,
            "accepted": self.accepted_run,
            "censored": self.censored,
        }
        if self.rounds is None:
            found["agrees"] = self.agrees
        own = {"draft_token": self.draft_tokens, "confidence": self.confidence, "entropy": self.entropy}
        own |= {"margin": self.margin, "target_margin": self.target_margin}
        return pd.DataFrame(found | {name: value for name, value in own.items() if value is not None})

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
        """Most tokens recorded after a disagreement; 0 where overruns are lacking."""
        return 0 if self.overruns is None else int(self.meta.get("max_overrun", 0))

    @property
    def draft_kind(self) -> str:
        """ "chain": the draft's choice depends on the text before it alone; "round": on where the round began too."""
        return self.meta.get("draft_kind", "chain")

    @property
    def mute(self) -> bool:
        """Whether the draft gives no probabilities by its nature: n-gram lookup copies tokens."""
        return looked_up(self.meta)

    # --- what is there ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def lacks(self) -> tuple[str, ...]:
        """Names of the optional columns of this kind of draft that the trace lacks; "overruns" for all of those."""
        missing = [
            column.name
            for column in _columns_of(self.meta)
            if column.optional and not column.on_request and self._value(column) is None
        ]
        if self.overruns is None and self.draft_kind == "chain":
            missing = [name for name in missing if not name.startswith("overrun_")] + ["overruns"]
        return tuple(missing)

    def need(self, name: str, *, for_: str) -> Any:
        """The array of an optional column (``Overruns`` for "overruns", ``Rounds`` for "rounds").

        Raises ValueError where the trace lacks it; the message says that it is needed by ``for_`` and what to do.
        """
        known = columns.by_name(columns.TRACE)
        if name in ("overruns", "rounds"):
            found, meaning = getattr(self, name), f"its {name}"
        elif name in known:
            found, meaning = self._value(known[name]), known[name].meaning.rstrip(".")
        else:
            raise ValueError(f"{name!r} is no column of a trace; legal: {', '.join([*known, 'overruns', 'rounds'])}")
        if found is None:
            why = "" if self.draft_kind == "chain" else f" (its draft is of kind {self.draft_kind})"
            record = "n-gram lookup cannot give it: " if self.mute else "record it with `oracle collect`, or "
            raise ValueError(
                f"this trace has no {name}{why}: needed by {for_} ({meaning}); {record}choose what does without {name}"
            )
        return found

    def _value(self, column: Column) -> Any:
        """The column's array in memory; None where it is lacking."""
        owner, key = _home(column)
        if owner:
            return getattr(getattr(self, owner), key, None)
        return getattr(self, key) if key in _FIELDS else self.extra.get(key)

    # --- what follows -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def outcomes(self) -> Outcomes:
        """What becomes of a draft from each position, whatever kind of draft it is."""
        return Outcomes(
            offsets=self.offsets,
            run=chain_runs(self.agrees, self.offsets) if self.rounds is None else self.rounds.run,
            max_new_tokens=self.max_new_tokens,
            prompt_lengths=np.diff(self.prompt_offsets),
            most=None if self.rounds is None else self.rounds.limit,
        )

    @property
    def prompt_of(self) -> np.ndarray:
        return self.outcomes.prompt_of

    @property
    def end(self) -> np.ndarray:
        return self.outcomes.end

    @property
    def context(self) -> np.ndarray:
        return self.outcomes.context

    @property
    def budget(self) -> np.ndarray:
        return self.outcomes.budget

    @property
    def run(self) -> np.ndarray:
        return self.outcomes.run

    @property
    def accepted_run(self) -> np.ndarray:
        return self.outcomes.accepted

    @property
    def censored(self) -> np.ndarray:
        return self.outcomes.censored

    @functools.cached_property
    def agrees(self) -> np.ndarray:
        """Whether a chain draft's choice equals the target's token, bool [N]."""
        if self.draft_tokens is not None:
            return self.draft_tokens == self.target_tokens
        agrees = np.ones(self.tokens, bool)
        agrees[self.need("overruns", for_="a replay position by position").position] = False
        return agrees

    @functools.cached_property
    def draft_ends(self) -> np.ndarray:
        """Whether the draft's choice is EOS, bool [N]: a draft stops there."""
        return np.isin(self.need("draft_tokens", for_="finding where a draft ends"), self.eos_token_ids)

    @functools.cached_property
    def overrun_ends(self) -> np.ndarray:
        """The same for the flat tokens of the overruns, bool [offsets[-1]]."""
        return np.isin(self.need("overrun_tokens", for_="finding where a draft ends"), self.eos_token_ids)

    @functools.cached_property
    def overrun_of(self) -> np.ndarray:
        """Row in ``overruns`` of every disagreement, int64 [N]; -1 where the draft agrees."""
        rows = np.full(self.tokens, -1, dtype=np.int64)
        position = self.need("overruns", for_="reading on after a disagreement").position
        rows[position] = np.arange(len(position))
        return rows

    @functools.cached_property
    def next_overrun(self) -> np.ndarray:
        """Row in ``overruns`` of the first disagreement at or after each position, int64 [N]; -1 where none is left."""
        first = np.arange(self.tokens) + self.run
        missed = first < self.end
        return np.where(missed, self.overrun_of[np.where(missed, first, 0)], -1)

    def iterations(self) -> pd.DataFrame:
        """The oracle's iterations: draft until the draft disagrees, in order of prompts and positions.

        Columns: prompt, iteration (within the prompt), position (within the text), accepted (= run length r),
        detect (= r + 1, the draft pass that disagrees counted too), censored.
        """
        import pandas as pd

        found = self.outcomes
        at = found.starts
        prompt = found.prompt_of[at]
        first = np.searchsorted(prompt, np.arange(self.prompts))  # row of each prompt's first iteration
        return pd.DataFrame(
            {
                "prompt": prompt,
                "iteration": np.arange(len(at)) - first[prompt],
                "position": at - self.offsets[prompt],
                "accepted": found.accepted[at],
                "detect": found.accepted[at] + 1,
                "censored": found.censored[at],
            }
        )

    # --- parts of it --------------------------------------------------------------------------------------------------

    def select(self, keep: np.ndarray | Sequence[str] | slice) -> Trace:
        """The trace of some prompts in their order here: a mask (bool [P]), their ids, or a slice of their numbers.

        Raises ValueError for ids that are not there, a mask of another shape, or where nothing is left.
        """
        return select_prompts(self, which(self.ids, keep))

    def columns(self) -> dict[str, Flat]:
        """The columns as they are written, a row a prompt; what the trace lacks is left out.  Arrays are not copied."""
        found: dict[str, Flat] = {}
        for column in _columns_of(self.meta):
            values = self._value(column)
            if isinstance(values, Flat):
                found[column.name] = values
            elif values is not None:
                found[column.name] = self._as_written(column, values)
        return found

    def with_columns(self, found: Mapping[str, Flat], /) -> Trace:
        """A trace of other rows under the same ``meta``."""
        return _assemble(found, self.meta)

    def _as_written(self, column: Column, values: Any) -> Flat:
        if not column.axis:
            return Flat(np.array(values, object) if column.dtype is object else values)
        if column.axis == "prompt_token":
            return Flat(values, (self.prompt_offsets,))
        if column.axis == "token":
            inner = (self.need("rounds", for_=column.name).offsets,) if column.inner else ()
            return Flat(values, (self.offsets, *inner))
        over = self.need("overruns", for_=column.name)
        outer = np.searchsorted(over.position, self.offsets)
        if column.inner:
            return Flat(values, (outer, over.offsets))
        local = values - np.repeat(self.offsets[:-1], np.diff(outer))
        return Flat(local.astype(column.dtype), (outer,))


_FIELDS = frozenset(Trace.__dataclass_fields__)
_NESTED = {"overrun_": "overruns", "round_": "rounds"}


def _home(column: Column) -> tuple[str, str]:
    """Where a column lives in memory: the attribute that holds it ("" for the trace itself), and its name there."""
    if column.name == "run":
        return "rounds", "run"
    for prefix, owner in _NESTED.items():
        if column.name.startswith(prefix):
            return owner, column.name.removeprefix(prefix)
    return "", {"id": "ids"}.get(column.name, column.name)


def _columns_of(meta: Mapping) -> list[Column]:
    """The columns that a trace with this ``meta`` may have."""
    return [column for column in columns.TRACE if column.kind in ("", meta.get("draft_kind", "chain"))]


def _name(described: object) -> str:
    return str(described.get("model") or "?").rstrip("/") if isinstance(described, dict) else str(described or "?")


def nothing_after(trace: Trace) -> Overruns:
    """Overruns of a trace that has none: the draft's disagreements, and nothing recorded after any of them."""
    position, none = np.flatnonzero(~trace.agrees), np.zeros(0, np.float32)
    ends = np.zeros(len(position) + 1, np.int64)
    return Overruns(position, ends, none.astype(np.int32), none, none, none)


def oracle_positions(trace: Trace) -> np.ndarray:
    """Flat positions at which the oracle's iterations start, int64."""
    return trace.outcomes.starts


# --- reading and writing ---------------------------------------------------------------------------------------------


def read_meta(path: str | Path) -> dict:
    """The trace's ``meta.json``.  Raises ValueError where there is none, it is not ours, or its schema is unknown."""
    return FOLDER.read_meta(path)


def write_meta(path: str | Path, meta: dict) -> None:
    """Write ``meta.json`` (schema version added) so that a reader never sees half of it."""
    FOLDER.write_meta(path, meta)


def part_files(path: str | Path) -> list[Path]:
    """The finished parts in order.  Raises ValueError for one that does not belong to the trace."""
    return [part.file for part in FOLDER.parts(path, read_meta(path))]


def write_part(path: str | Path, number: int, records: Sequence[Record]) -> None:
    """Write one part (``number`` from 0) whole: a killed run leaves only whole parts.

    It belongs to the run that ``meta.json`` names, where that names one.
    """
    run_id = read_meta(path).get("run_id")
    write_table(Path(path) / FOLDER.part_name(number, run_id), to_table(records), FOLDER.unit, run_id)


def to_table(records: Sequence[Record]) -> pa.Table:
    """One row a record, in the columns that are declared."""
    return parquet.to_table(records, columns.TRACE)


def _checked(meta: dict, name: str) -> dict:
    """``meta`` if what the columns are read by is legal there."""
    eos, kind = meta.get("eos_token_ids"), meta.get("draft_kind", "chain")
    if not isinstance(eos, list | tuple) or not all(_is_count(token) for token in eos):
        raise ValueError(f"{name}: eos_token_ids is {_shown(eos)}; it must be a list of whole numbers from 0 on")
    if kind not in KINDS:
        raise ValueError(f"{name}: draft_kind is {_shown(kind)}; legal: {', '.join(KINDS)}")
    # A source without overruns need not say how far they go.
    key, low, usual = ("max_overrun", 0, 0) if kind == "chain" else ("round_limit", 1, None)
    value = meta.get(key, usual)
    if not _is_count(value) or value < low:
        raise ValueError(f"{name}: {key} is {_shown(value)}; it must be a whole number from {low} on")
    return meta


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _shown(value: object) -> str:
    return repr(value)[:100]


def _read_part(part: Part, meta: dict) -> dict[str, Flat]:
    try:
        found = parquet.read(part.file, _columns_of(meta), functools.partial(verify, part))
        check_trace(found, meta)
    except (ValueError, OSError) as error:
        raise FOLDER.unreadable(part.file, error) from None
    return found


def _in_order(found: Mapping[str, Flat]) -> Mapping[str, Flat]:
    """The rows in the order of the data set; as they are where the numbers do not say it.

    Parts are written in any order.  A trace that was put together from several has numbers twice, and keeps its order.
    """
    index = found["index"].values
    if np.all(np.diff(index) >= 0) or len(np.unique(index)) < len(index):
        return found
    return take_rows(found, np.argsort(index))


def _in_memory(found: Mapping[str, Flat], meta: dict, name: object) -> Trace:
    ids = found["id"].values
    if not len(ids):
        raise ValueError(f"{name}: damaged trace: not a single prompt; collect it again")
    seen: dict[str, int] = {}
    for row, each in enumerate(ids.tolist()):
        if seen.setdefault(each, row) != row:
            rows = f"rows {seen[each]} and {row} of all parts"
            raise ValueError(f"{name}: damaged trace: {rows} have the same id {_shown(each)}; collect it again")
    return _assemble(found, meta)


def _assemble(found: Mapping[str, Flat], meta: dict) -> Trace:
    """A trace of columns that are known to be sound."""
    plain = {}
    for column in _columns_of(meta):
        owner, key = _home(column)
        if not owner and column.name in found and column.name != "id":
            flat = found[column.name]
            plain[key] = flat.values if key in _FIELDS else flat
    extra = {key: plain.pop(key) for key in list(plain) if key not in _FIELDS}
    return Trace(
        meta=meta,
        ids=tuple(found["id"].values.tolist()),
        offsets=found["target_tokens"].offsets[0],
        prompt_offsets=found["prompt_tokens"].offsets[0],
        overruns=_overruns(found),
        rounds=_rounds(found, meta),
        extra=extra,
        **plain | {"finish": plain["finish"].astype(str)},
    )


def _overruns(found: Mapping[str, Flat]) -> Overruns | None:
    position = found.get("overrun_position")
    if position is None:
        return None
    start = np.repeat(found["target_tokens"].offsets[0][:-1], position.lengths())
    values, offsets = _nested(found, "overrun_")
    none = np.zeros(len(position.values) + 1, np.int64)
    return Overruns(position.values + start, none if offsets is None else offsets, **values)


def _rounds(found: Mapping[str, Flat], meta: dict) -> Rounds | None:
    if "run" not in found:
        return None
    values, offsets = _nested(found, "round_")
    return Rounds(found["run"].values, meta["round_limit"], offsets, **values)


def _nested(found: Mapping[str, Flat], prefix: str) -> tuple[dict[str, np.ndarray | None], np.ndarray | None]:
    """The flat values of the columns of lists of lists under a prefix, and the offsets that they share."""
    lists = {key: found.get(f"{prefix}{key}") for key in ("tokens", *SIGNALS)}
    offsets = next((flat.offsets[1] for flat in lists.values() if flat is not None), None)
    return {key: None if flat is None else flat.values for key, flat in lists.items()}, offsets


def iter_records(trace: Trace) -> Iterator[Record]:
    """The trace's rows again, one Record a prompt (views, not copies)."""
    found = trace.columns()
    fields = {name: flat for name, flat in found.items() if name in Record.__dataclass_fields__}
    extra = {name: flat for name, flat in found.items() if name not in fields}
    for number in range(trace.prompts):
        row: dict[str, Any] = {name: flat.row(number) for name, flat in fields.items()}
        row |= {"finish": str(row["finish"]), **{name: int(row[name]) for name in ("index", "max_new_tokens")}}
        yield Record(**row, extra={name: flat.row(number) for name, flat in extra.items()})
