"""Parts: Parquet files that say whose they are, what they hold, and whether it is still what was written.

A part's schema metadata holds a seal: the run's id, what tells the part's rows apart (prompt ids, numbers of calls),
and a checksum of every column's values.  Values, not bytes: whoever rewrites a part with another compression leaves it
whole.  Parts of traces that are older than the seal have none; they are read as they are.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.records.typed import check
from oracle.records.whole import write_whole

_KEY = b"oracle_part"
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)


@dataclass(frozen=True)
class Seal:
    """What a part says of itself."""

    run_id: str
    units: list[str | int]  # what tells its rows apart, in their order
    checksums: dict[str, str]  # of each column's values


@dataclass(frozen=True)
class Part:
    """A part on disk: its seal, and the units of its rows."""

    file: Path
    seal: Seal | None
    units: tuple[str | int, ...]


class Unreadable(ValueError):
    """A file that is no part, or no longer one; the text says why, without the file's name."""


def write_part(file: Path, table: pa.Table, unit: str, run_id: str | None) -> None:
    """Write ``table`` whole, sealed where its run has an id; ``unit`` is the column that tells its rows apart."""
    if run_id is not None:
        sums = {name: checksum(table.column(name)) for name in table.column_names}
        text = json.dumps({"run_id": run_id, "units": table.column(unit).to_pylist(), "checksums": sums})
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: text.encode()})

    def write(temporary: Path) -> None:
        # Opened here: pyarrow would take a name such as s3:x for a URI.
        with temporary.open("wb") as handle:
            pq.write_table(table, handle, compression="zstd", write_page_checksum=True)

    write_whole(file, write)


def read_part(file: Path, unit: str) -> Part:
    """Read a part's seal, or where it has none its units.  Raises Unreadable."""
    _, seal = _footer(file)
    return Part(file, seal, tuple(_units(file, unit) if seal is None else seal.units))


def read_seal(file: Path) -> tuple[set[str], Seal | None]:
    """The names of the columns, and the seal.  Raises Unreadable."""
    schema, seal = _footer(file)
    return set(schema.names), seal


def read_column(part: Part, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    """A column, checked against the seal.  Raises Unreadable."""
    return read_table(part, pa.schema([(name, kind)])).column(name)


def read_table(part: Part, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema``, checked against the seal.  Raises Unreadable."""
    table = _read(part.file, schema.names)
    verify(part, table)
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise Unreadable(_reason(error)) from None


def verify(part: Part, table: pa.Table) -> None:
    """Compare columns of the part, as they were read, with its seal.  Raises Unreadable where one was changed."""
    for name, known in (part.seal.checksums if part.seal else {}).items():
        if name in table.column_names and checksum(table.column(name)) != known:
            raise Unreadable(f"column {name} is not what was written: its checksum differs")


def checksum(column: pa.ChunkedArray) -> str:
    """Of the values: how they are cut into chunks and buffers does not matter."""
    state = hashlib.sha256()
    _feed(state, column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return state.hexdigest()


def _feed(state: hashlib._Hash, array: pa.Array | pa.ChunkedArray) -> None:
    if isinstance(array, pa.ChunkedArray):  # combining may give chunks where one would be too large
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    state.update(f"{len(array)} {array.null_count} ".encode())
    if array.null_count:
        state.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).data)
        array = array.drop_null()
    if pa.types.is_list(array.type):
        state.update(np.diff(array.offsets.to_numpy()).astype("<i8").data)
        _feed(state, array.flatten())
    elif pa.types.is_string(array.type):
        state.update(json.dumps(array.to_pylist()).encode())
    elif not any(holds(array.type) for holds in _NUMBERS):  # of times, say, NumPy gives no bytes
        raise Unreadable(f"a column of type {str(array.type)[:60]}, which no part of ours holds")
    else:
        values = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
        state.update(values.astype(values.dtype.newbyteorder("<"), copy=False).data)


def _units(file: Path, name: str) -> list[str | int]:
    column = _read(file, [name]).column(name)
    if pa.types.is_nested(column.type):
        raise Unreadable(f"column {name} tells rows apart, and holds {str(column.type)[:60]}")
    return column.to_pylist()


def _footer(file: Path) -> tuple[pa.Schema, Seal | None]:
    try:
        with file.open("rb") as handle:
            schema = pq.ParquetFile(handle).schema_arrow
        text = (schema.metadata or {}).get(_KEY)
        return schema, None if text is None else check(Seal, json.loads(text), "its seal")
    except (pa.ArrowException, ValueError, OSError, RecursionError) as error:
        raise Unreadable(_reason(error)) from None


def _read(file: Path, names: list[str]) -> pa.Table:
    try:
        # Read as a file of its own: pyarrow would take a folder called a=b for a partition.
        with file.open("rb") as handle:
            table = pq.ParquetFile(handle).read(columns=names).select(names).replace_schema_metadata()
            table.validate(full=True)  # reading does not look whether text is UTF-8
            return table
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise Unreadable(_reason(error)) from None


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(text.split())[:200]
