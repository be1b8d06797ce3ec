"""Rows of a local file. Knows nothing about what the fields mean, but for .txt, whose lines are prompts.

Never uses the network.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.prompts.fields import shown
from oracle.records.typed import is_deep
from oracle.words import did_you_mean


@dataclass(frozen=True)
class RowFile:
    """What a data file holds: `rows` in file order and, for messages, where each of them is (`numbers`, from 1)."""

    path: Path
    rows: tuple[dict, ...]
    numbers: tuple[int, ...]
    unit: str  # what `numbers` counts: "line" or "row"
    sha256: str
    blank_lines: int = 0

    def place(self, index: int) -> str:
        return f"{self.path}, {self.unit} {self.numbers[index]}"


def read_rows(path: Path) -> RowFile:
    """Read every row of a data file.

    .jsonl: one JSON object a line, lines end at "\\n" only, blank lines are left out and counted. .json: one array of
    objects. .parquet: a table. .csv (commas, else semicolons or tabs) and .tsv: a table of texts, the first line names
    the columns. .txt: one prompt a line, as it stands, blank lines left out and counted. Text is UTF-8, with or without
    a byte order mark. Raises ValueError, naming file and line, for a path that is no such file, for broken content (a
    column or field that is there twice too) and for a file without rows.
    """
    check_path(path)
    data = _read_bytes(path)
    rows, numbers, blank_lines = _READERS[path.suffix.lower()](path, data)
    unit = "line" if path.suffix.lower() in (".jsonl", ".txt", ".csv", ".tsv") else "row"
    found = RowFile(path, tuple(rows), tuple(numbers), unit, hashlib.sha256(data).hexdigest(), blank_lines)
    if not rows:
        raise ValueError(f"{path} holds no rows. Give a file with at least one prompt.")
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ValueError(
                f"{found.place(index)}: expected an object with named fields, got {type(row).__name__}. "
                'Write each prompt as {"prompt": "..."}, one a line in .jsonl or in one array in .json.'
            )
    return found


def check_path(path: Path) -> None:
    """Raise ValueError unless `path` is an existing file with one of the legal endings."""
    if os.path.isdir(path):
        files = sorted(entry.name for entry in path.iterdir() if entry.suffix.lower() in ENDINGS)
        inside = f"Name one of its files: {', '.join(files[:5])}." if files else f"It holds no {_legal()} file."
        raise ValueError(f"{path} is a directory; prompts come from one file. {inside}")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"{path}: unknown ending {path.suffix!r}. Legal endings: {_legal()}.{did_you_mean(path.suffix, ENDINGS)}"
        )
    if not os.path.exists(path):
        beside = os.listdir(path.parent) if os.path.isdir(path.parent) else []
        raise ValueError(f"There is no file {path}.{did_you_mean(path.name, beside)}")


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}). Check its permissions.") from error


def _legal() -> str:
    return ", ".join(ENDINGS)


def _read_lines(path: Path, data: bytes) -> tuple[list, list[int], int]:
    lines, numbers, blank = _filled_lines(path, data)
    remedy = "Correct or delete this line: each holds one JSON object"
    rows = [_parse(line.strip(), f"{path}, line {at}", remedy) for at, line in zip(numbers, lines, strict=True)]
    return rows, numbers, blank


def _read_text(path: Path, data: bytes) -> tuple[list, list[int], int]:
    lines, numbers, blank = _filled_lines(path, data)
    return [{"prompt": line.removesuffix("\r")} for line in lines], numbers, blank


def _filled_lines(path: Path, data: bytes) -> tuple[list[str], list[int], int]:
    """Lines with something in them, their numbers, and how many have nothing.

    Not str.splitlines(): it also breaks at U+2028 and U+0085, which may stand inside a text.
    """
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    texts = [_decode(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]
    filled = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    return [text for _, text in filled], [number for number, _ in filled], len(texts) - len(filled)


def _read_table(path: Path, data: bytes) -> tuple[list, list[int], int]:
    text = _decode(data, str(path))
    separator = "\t" if path.suffix.lower() == ".tsv" else _separator(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, numbers, names, blank, begin = [], [], [], 0, 1
    with _cells_of_any_length(), _csv_errors(path, lines):
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                blank += 1
            elif not names:
                names = _column_names(cells, f"{path}, line {begin}")
            elif len(cells) != len(names):
                raise ValueError(
                    f"{path}, line {begin}: {len(cells)} cells, but {len(names)} columns "
                    f"({', '.join(map(shown, names[:10]))}). Put a text that holds {separator!r} in quotes."
                )
            else:
                rows.append(dict(zip(names, cells, strict=True)))
                numbers.append(begin)
            begin = lines.line_num + 1
    return rows, numbers, blank


def _separator(text: str) -> str:
    """What stands between the names in the first filled line: a comma, or what programs write where that is no comma.

    Where a comma is the decimal sign, tables are exported with semicolons.
    """
    bare = re.sub(r'"[^"]*"', "", text[:65_536]).lstrip("\r\n ").partition("\n")[0]
    return next((one for one in (",", ";", "\t") if one in bare), ",")


def _column_names(cells: list[str], place: str) -> list[str]:
    """The names in the first line; a column without one (a table's row numbers) is called by its place."""
    names = [cell.strip() or f"column {number}" for number, cell in enumerate(cells, start=1)]
    _expect_once(names, place)
    return names


def _expect_once(names: list[str], place: str) -> None:
    """Refuse a table that has two columns of one name: only one of them could be read."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{place}: two columns are named {shown(twice)!r}. Give each a name of its own.")


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """The csv module reads 131,072 characters a cell unless it is told otherwise, for the whole process."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


@contextmanager
def _csv_errors(path: Path, lines: Any) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {lines.line_num}: no readable table ({error}). Close each quote, and double those in a text."
        ) from error


def _read_array(path: Path, data: bytes) -> tuple[list, range, int]:
    text = _decode(data, str(path))
    rows = _parse(text, str(path), "The file must be one JSON array of objects; name it .jsonl if it has one a line")
    if not isinstance(rows, list):
        raise ValueError(f"{path}: expected one JSON array of objects, got {type(rows).__name__}. Put it in [ ].")
    return rows, range(1, len(rows) + 1), 0


def _read_parquet(path: Path, data: bytes) -> tuple[list, range, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # ParquetFile reads this file alone; read_table would add columns from folder names such as "split=test".
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        _expect_once(table.column_names, str(path))
        rows = table.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # a column of text is not checked when it is read
        raise ValueError(f"{path}: not a readable Parquet file ({error}). Write or download it again.") from error
    return rows, range(1, len(rows) + 1), 0


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's fields.  Python would keep the last of two that have one name, and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {shown(twice)!r} is there twice in one object")
    return found


def _decode(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = f"byte {error.start + 1}: {error.reason}"
        raise ValueError(f"{place}: not UTF-8 text ({at}). Save the file as UTF-8.") from error


def _parse(text: str, place: str, remedy: str) -> object:
    try:
        if is_deep(value := json.loads(text, object_pairs_hook=_fields)):
            raise RecursionError
        return value
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{place}: not valid JSON ({error.msg} at {at}). {remedy}.") from error
    except RecursionError as error:
        raise ValueError(f"{place}: JSON nested too deeply to read. {remedy}, with text in its fields.") from error
    except ValueError as error:  # a number of thousands of digits, a field twice
        raise ValueError(f"{place}: cannot be read ({error}). {remedy}.") from error


_READERS = {
    ".jsonl": _read_lines,
    ".json": _read_array,
    ".parquet": _read_parquet,
    ".csv": _read_table,
    ".tsv": _read_table,
    ".txt": _read_text,
}
ENDINGS = tuple(_READERS)
