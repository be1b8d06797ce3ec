"""Parquet files read and written by the declared columns: types, nulls, lengths and values are checked, and only here.

A file may come from anywhere: what it claims to hold is compared with its size before anything is unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.records.columns import Column
from oracle.records.flat import Flat, ends_of
from oracle.records.footer import Group, read_claims

_AT_ONCE = 2**24  # bytes of a file whose columns are read together; of a larger one column by column, to save memory
_UNPACKED = (2**29, 100)  # bytes that a file may unpack to: so many, and so many times its size
_SHOWN = 200  # characters of somebody else's message, or of a value


class Refused(ValueError):
    """A row that does not hold what its columns promise; the message names row, column and value."""


def _unverified(table: pa.Table) -> None:
    """Nothing says what was written."""


def read(file: Path, columns: Sequence[Column], verify: Callable[[pa.Table], None] = _unverified) -> dict[str, Flat]:
    """The file's columns in memory, those left out that it lacks and may lack; unknown ones are left aside.

    ``verify`` sees every table as it was read, and raises ValueError where it is not what was written.  Raises
    ValueError (``Refused`` for a wrong value) that does not yet name the file.
    """
    # Opened here: pyarrow would take a:b for a place on the network, and a folder called a=b for a partition.
    with open(file, "rb") as handle:
        try:
            return _read(handle, columns, verify)
        except Refused:
            raise
        except (pa.ArrowException, KeyError, ValueError, OSError, MemoryError, OverflowError) as error:
            raise ValueError(_short(error)) from None


def from_rows(rows: Sequence[Any], columns: Sequence[Column]) -> dict[str, Flat]:
    """Rows (objects with the columns as attributes) as if they had been written and read."""
    table = to_table(rows, columns)
    return _flatten_all(_present(table.schema, columns), lambda names: table.select(names))


def to_table(rows: Sequence[Any], columns: Sequence[Column]) -> pa.Table:
    """The rows as an Arrow table.  An optional column that is None everywhere is left out."""
    arrays = {}
    for column in columns:
        cells = [_cell(row, column) for row in rows]
        missing = sum(cell is None for cell in cells)
        if column.optional and missing == len(cells):
            continue
        if missing and not column.nullable:
            at = next(number for number, cell in enumerate(cells) if cell is None)
            raise ValueError(f"row {at} has no {column.name}, others have; all rows of a file hold the same columns")
        arrays[column.name] = _array(column, cells)
    return pa.table(arrays)


# --- writing ---------------------------------------------------------------------------------------------------------


def _cell(row: Any, column: Column) -> Any:
    found = getattr(row, column.name, None)
    return getattr(row, "extra", {}).get(column.name) if found is None else found


def _array(column: Column, cells: Sequence[Any]) -> pa.Array:
    if not column.depth:
        return pa.array(cells, column.type)
    inner: list[Any] = [entry for cell in cells for entry in cell] if column.depth == 2 else list(cells)
    filled = [np.asarray(entry) for entry in inner if len(entry)]
    values = _typed(pa.array(np.concatenate(filled) if filled else np.zeros(0, column.dtype)), column.scalar, column)
    levels = [[len(cell) for cell in cells], *([[len(entry) for entry in inner]] if column.depth == 2 else [])]
    for lengths in reversed(levels):
        values = pa.ListArray.from_arrays(pa.array(ends_of(np.array(lengths, np.int64)), pa.int32()), values)
    return values


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(handle: BinaryIO, columns: Sequence[Column], verify: Callable[[pa.Table], None]) -> dict[str, Flat]:
    size = os.fstat(handle.fileno()).st_size
    limits: dict[str, Any] = {"thrift_string_size_limit": max(size, 1), "thrift_container_size_limit": max(size, 1)}
    file = pq.ParquetFile(handle, pre_buffer=False, page_checksum_verification=True, **limits)
    _expect_plausible(*read_claims(handle, size), size, {column.name for column in columns})
    present = _present(file.schema_arrow, columns)

    def fetch(names: list[str]) -> pa.Table:
        table = file.read(columns=names).replace_schema_metadata()
        verify(table)
        return table

    if size <= _AT_ONCE:
        whole = fetch([column.name for column in present])
        return _flatten_all(present, lambda names: whole.select(names))
    return _flatten_all(present, fetch)


def _expect_plausible(rows: int, groups: Sequence[Group], size: int, names: set[str]) -> None:
    """Refuse a file that claims far more than one of its size can hold."""
    leaves = [leaf for group in groups for leaf in group.chunks if leaf.column in names]
    counts = [rows, *(group.rows for group in groups)]
    sizes = [leaf.unpacked for leaf in leaves]
    values = [leaf.values for leaf in leaves]
    packed = [leaf.packed for leaf in leaves]
    if min(counts + sizes + values + packed) < 0 or sum(packed) > size:
        raise ValueError("its own list of what it holds is damaged")
    if rows != sum(counts[1:]):
        raise ValueError(f"it claims {rows} rows, its parts {sum(counts[1:])}")
    most = _UNPACKED[0] + _UNPACKED[1] * size
    if max(sum(sizes), 8 * sum(values)) > most or rows > most:
        raise ValueError(f"it claims {sum(values):,} values in {rows:,} rows, far too many for {size:,} bytes")


def _present(found: pa.Schema, columns: Sequence[Column]) -> list[Column]:
    for column in columns:
        if column.name not in found.names and not column.optional:
            raise ValueError(f"column {column.name} is missing")
    return [column for column in columns if column.name in found.names]


def _flatten_all(columns: Sequence[Column], fetch: Callable[[list[str]], pa.Table]) -> dict[str, Flat]:
    """The columns of ``fetch(names) -> pa.Table``, and their lengths compared."""
    names = [column.name for column in columns]
    flats = {name: _flatten(fetch([name]).column(0), column) for name, column in zip(names, columns, strict=True)}
    leaders = {}
    for column in columns:
        groups = [(0, column.axis), (1, column.inner)][: column.depth]
        shared = tuple(leaders.setdefault(group, column.name) for group in groups)
        for level, leader in enumerate(shared):
            _expect_same_lengths(flats, leader, column.name, level)
        # One array for equal offsets: of several copies the others would only take memory.
        ends = tuple(flats[leader].offsets[level] for level, leader in enumerate(shared))
        flats[column.name] = Flat(flats[column.name].values, ends)
    return flats


def _expect_same_lengths(flats: Mapping[str, Flat], leader: str, name: str, level: int) -> None:
    ours, theirs = flats[name].offsets[level], flats[leader].offsets[level]
    if np.array_equal(ours, theirs):
        return
    size = min(len(ours), len(theirs))
    row = max(int(np.flatnonzero(np.append(ours[:size] != theirs[:size], True))[0]) - 1, 0)
    if level:
        row = Flat(ours, (flats[leader].offsets[0],)).row_of(row)
    raise Refused(f"row {row}: column {name} has other lengths than {leader}")


def _flatten(data: pa.ChunkedArray, column: Column) -> Flat:
    chunks: list[pa.Array] = [_typed(chunk, column.type, column) for chunk in data.chunks]
    offsets: list[np.ndarray] = []
    for _ in range(column.depth):
        _expect_no_null(chunks, column, offsets)
        lengths = [np.diff(chunk.offsets.to_numpy()) for chunk in chunks]
        offsets.append(ends_of(np.concatenate([*lengths, np.zeros(0, np.int64)])))
        chunks = [chunk.flatten() for chunk in chunks]
    if not column.nullable:
        _expect_no_null(chunks, column, offsets)
    flat = Flat(_values(chunks, column), tuple(offsets))
    _expect_legal(flat, column)
    return flat


def _values(chunks: Sequence[pa.Array], column: Column) -> np.ndarray:
    if column.nullable or column.dtype is object:
        listed = [value for chunk in chunks for value in chunk.to_pylist()]
        values = np.empty(len(listed), object)
        values[:] = listed
        return values
    arrays = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate([np.zeros(0, column.dtype), *arrays], dtype=column.dtype)


def _expect_no_null(chunks: Iterable[pa.Array], column: Column, offsets: Sequence[np.ndarray]) -> None:
    before = 0
    for chunk in chunks:
        if chunk.null_count:
            at = before + int(np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))[0])
            raise Refused(f"row {Flat(np.zeros(0), tuple(offsets)).row_of(at)}: column {column.name} holds null")
        before += len(chunk)


def _expect_legal(flat: Flat, column: Column) -> None:
    values, known = flat.values, None
    if column.nullable:
        known = np.flatnonzero([value is not None for value in values])
        values = values[known].astype(column.dtype)
    at = column.illegal(values)
    if at is None:
        return
    value = repr(values[at].item() if isinstance(values[at], np.generic) else values[at])
    row = flat.row_of(at if known is None else int(known[at]))
    raise Refused(f"row {row}: column {column.name} holds {_short(value)}; legal: {column.legal}")


def _typed(array: pa.Array, wanted: pa.DataType, column: Column) -> pa.Array:
    """``array`` as the declared type; widths may differ, kinds may not.  Raises ValueError where they do."""
    if not _same_kind(array.type, wanted):
        raise ValueError(f"column {column.name} is of type {_short(array.type)}, not {wanted}")
    return array if array.type.equals(wanted) else array.cast(wanted)


def _same_kind(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_list(wanted):
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(found) for test in lists) and _same_kind(found.value_type, wanted.value_type)
    if pa.types.is_string(wanted):
        return pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    # Nothing but nulls has a type of its own; whether they are legal is another question.
    return pa.types.is_null(found) or any(test(found) and test(wanted) for test in tests)


def _short(message: object) -> str:
    text = " ".join(str(message).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
