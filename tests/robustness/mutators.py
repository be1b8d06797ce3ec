"""Mutators: bytes, JSON, Arrow tables and words, each changed a little by a seeded generator."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from oracle.records.typed import is_deep

FRAGMENTS = (
    b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"1.9", b"99999999999999999999", b'"', b"\\", b"{}",
    b"[]", b",", b":", b"\xff", b"\x00", b"\xef\xbb\xbf", b"\n", b"\r", b"\xe2\x80\xa8", b"\\ud800",
    b"\x1b]52;c;AA\x07", b"[" * 3000, b"9" * 5000, b"a" * 5000,
)  # fmt: skip
TEXTS = (
    "", " ", "\n", "x" * 5000, "\x1b]52;c;QUJD\x07", "\x1b[2J", "\u202eabc", "$\\frac{", "\ud800", "\x00", "null",
    "nan", "p0", "none", "eos", "length", "oracle:detect", "dynamic", "=1+1", "~", "..", "'; echo", "\u2028", "é" * 300,
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 1, 2, 1.9, -0.5, 0.1, 1e-320, 1e9, 1e308, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**400,
    math.nan, math.inf, -math.inf, [], {}, [[]], [None], [0.1], [True], {"a": 1}, [1, 2, 3], *TEXTS,
)  # fmt: skip
TYPES = (
    pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.int8(), pa.int64(), pa.uint64(), pa.float16(),
    pa.float32(), pa.float64(), pa.null(), pa.timestamp("us"), pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.int64()), pa.large_list(pa.int32()), pa.list_(pa.list_(pa.float32())), pa.list_(pa.int32(), 2),
    pa.struct([("a", pa.int32())]),
)  # fmt: skip


def nested(depth: int) -> Any:
    """Lists in lists."""
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def odd(random: Random) -> Any:
    """A value that nobody expected."""
    return nested(random.choice((50, 200, 600))) if random.random() < 0.02 else copy.deepcopy(random.choice(VALUES))


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """``data`` after one to four changes."""
    found = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(found) + 1)
        size = random.choice((1, 1, 2, 4, 16, 200))
        match random.randrange(8):
            case 0 if at < len(found):
                found[at] ^= 1 << random.randrange(8)
            case 1 if at < len(found):
                found[at] = random.randrange(256)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = random.randbytes(size)
            case 4:
                found[at:at] = random.choice(FRAGMENTS)
            case 5:
                found[at:at] = found[at : at + size]
            case 6 if random.random() < 0.3:
                del found[at:]
            case 7:
                other = random.randrange(len(found) + 1)
                found[at : at + size] = found[other : other + size]
    return bytes(found)


def mutated_json(value: Any, random: Random) -> Any:
    """A copy of a tree of JSON's types after one to three changes somewhere in it."""
    found = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if not (isinstance(found, (dict, list)) and found):
            return odd(random)
        holder, key = _place(found, random)
        match random.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice((*TEXTS, *list(holder)))] = holder.pop(key)
            case 2:
                holder[key] = [holder[key]]
            case 3 if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
                holder[key] = random.choice((-holder[key], holder[key] + 1, holder[key] * 1000, str(holder[key])))
            case 4 if isinstance(holder, list) and not is_deep(holder[key]):
                holder.append(copy.deepcopy(holder[key]))
            case 5 if isinstance(holder, dict):
                holder[random.choice((*TEXTS, "zz"))] = odd(random)
            case _:
                holder[key] = odd(random)
    return found


def dumped(value: Any, random: Random) -> bytes:
    """As a program would write it; halves of characters, infinities and numbers of any size included."""
    return json.dumps(value, ensure_ascii=random.random() < 0.7, indent=random.choice((None, 1))).encode(
        "utf-8", "surrogatepass"
    )


def mutated_table(table: pa.Table, random: Random) -> pa.Table:
    """A table after one or two changes of its columns, rows or values; one that Parquet cannot hold stays as it was."""
    changed = table
    for _ in range(random.choice((1, 1, 2))):
        changed = _changed_table(changed, random)
    return changed if all(map(_storable, changed.schema.types)) else table


def _storable(kind: pa.DataType) -> bool:
    """Whether Parquet can hold a column of this type: it has nothing for a record without fields."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_storable(kind.field(at).type) for at in range(kind.num_fields))
    return not pa.types.is_list(kind) or _storable(kind.value_type)


def mutated_text(text: str, random: Random, pieces: Sequence[str]) -> str:
    """Text after one to three changes; ``pieces`` are what such texts are made of."""
    for _ in range(random.randint(1, 3)):
        at, size = random.randrange(len(text) + 1), random.choice((1, 1, 2, 5))
        match random.randrange(5):
            case 0:
                text = text[:at] + text[at + size :]
            case 1:
                text = text[:at] + random.choice(pieces) + text[at:]
            case 2:
                text = text[:at] + random.choice(pieces) + text[at + size :]
            case 3:
                text = text[:at] + text[at : at + size] + text[at:]
            case 4:
                text = text[:at] + text[at : at + size].swapcase() + text[at + size :]
    return text


def _place(tree: Any, random: Random) -> tuple[Any, Any]:
    """A holder and the key in it of some entry of a tree that is not empty."""
    while True:
        key = random.choice(list(tree)) if isinstance(tree, dict) else random.randrange(len(tree))
        inner = tree[key]
        if not (isinstance(inner, (dict, list)) and inner) or random.random() < 0.3:
            return tree, key
        tree = inner


def _changed_table(table: pa.Table, random: Random) -> pa.Table:
    if not table.num_columns:
        return table
    at = random.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    match random.randrange(10):
        case 0:
            return table.remove_column(at)
        case 1:
            return _with(table, at, _cast(column, random.choice(TYPES)))
        case 2:
            return table.take(
                pa.array([random.randrange(max(table.num_rows, 1)) for _ in range(table.num_rows)], pa.int64())
            )
        case 3:
            return pa.concat_tables([table, table.slice(random.randrange(table.num_rows + 1))])
        case 4:
            return table.slice(random.randrange(table.num_rows + 1))
        case 5:
            return table.append_column(random.choice((name, "zz", *TEXTS[:4])), column)
        case 6:
            names = list(table.column_names)
            names[at] = random.choice((*names, "zz"))
            return table.rename_columns(names)
        case _:
            rows = column.to_pylist()
            changed = mutated_json(rows, random) if rows else rows
            size = table.num_rows
            if not isinstance(changed, list) or len(changed) != size:
                changed = (changed if isinstance(changed, list) else [changed])[:size]
                changed = changed + [None] * (size - len(changed))
            return _with(table, at, _array(changed, column.type))


def _with(table: pa.Table, at: int, column: Any) -> pa.Table:
    return table if column is None else table.set_column(at, table.column_names[at], column)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    try:
        return column.cast(kind)
    except (pa.ArrowException, TypeError, ValueError):
        return _array(column.to_pylist(), kind)


def _array(values: list, kind: pa.DataType) -> Any:
    """The values in that type, else in the one that fits them; None where Arrow has no place for them."""
    for wanted in (kind, None):
        try:
            return pa.array(values, wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError):
            continue
    return None
