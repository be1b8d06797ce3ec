"""Rows of a local .jsonl, .json or .parquet file. Knows nothing about what the fields mean; never uses the network."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from oracle.records.typed import is_deep
from oracle.words import did_you_mean

ENDINGS = (".jsonl", ".json", ".parquet")


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
    objects. .parquet: a table. Text is UTF-8, with or without a byte order mark. Raises ValueError, naming file and
    line, for a path that is no such file, for broken content and for a file without rows.
    """
    check_path(path)
    data = _read_bytes(path)
    reader = {".jsonl": _read_lines, ".json": _read_array, ".parquet": _read_parquet}[path.suffix.lower()]
    rows, numbers, blank_lines = reader(path, data)
    unit = "line" if path.suffix.lower() == ".jsonl" else "row"
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
    rows, numbers, blank = [], [], 0
    # Not str.splitlines(): it also breaks at U+2028 and U+0085, which may stand inside a JSON string.
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    for number, line in enumerate(lines, start=1):
        text = _decode(line, f"{path}, line {number}").strip()
        if not text:
            blank += 1
            continue
        rows.append(_parse(text, f"{path}, line {number}", "Correct or delete this line: each holds one JSON object"))
        numbers.append(number)
    return rows, numbers, blank


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
        rows = pq.ParquetFile(pa.BufferReader(data)).read().to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # a column of text is not checked when it is read
        raise ValueError(f"{path}: not a readable Parquet file ({error}). Write or download it again.") from error
    return rows, range(1, len(rows) + 1), 0


def _decode(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = f"byte {error.start + 1}: {error.reason}"
        raise ValueError(f"{place}: not UTF-8 text ({at}). Save the file as UTF-8.") from error


def _parse(text: str, place: str, remedy: str) -> object:
    try:
        if is_deep(value := json.loads(text)):
            raise RecursionError
        return value
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{place}: not valid JSON ({error.msg} at {at}). {remedy}.") from error
    except RecursionError as error:
        raise ValueError(f"{place}: JSON nested too deeply to read. {remedy}, with text in its fields.") from error
    except ValueError as error:  # a number of thousands of digits
        raise ValueError(f"{place}: cannot be read ({error}). {remedy}.") from error
