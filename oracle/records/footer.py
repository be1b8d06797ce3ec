"""What a Parquet file's footer claims, read without Arrow.

Arrow checks a footer when rows are read, and says what is wrong.  But asked for a row group's or a column's claims
alone, pyarrow ends the whole process where they are damaged: nobody catches what its C++ part throws there.  So they
are read here: Thrift's compact protocol, with the field numbers of Parquet's own ``parquet.thrift``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

_DEEPEST = 20  # structs in structs; Parquet's own go 8 deep
_END = 8  # bytes: the footer's length, and PAR1


@dataclass(frozen=True)
class Chunk:
    """A column of a row group."""

    column: str  # the outermost name of its path
    values: int
    unpacked: int  # bytes
    packed: int  # bytes


@dataclass(frozen=True)
class Group:
    """A row group."""

    rows: int
    chunks: tuple[Chunk, ...]


def read_claims(handle: BinaryIO, size: int) -> tuple[int, tuple[Group, ...]]:
    """Rows of the file, and its row groups; ``size`` is the file's, in bytes.

    Raises ValueError for a damaged footer.
    """
    handle.seek(max(size - _END, 0))
    length = int.from_bytes(handle.read(4), "little")
    if length > size - _END:
        raise ValueError("its footer is damaged: longer than the file")
    handle.seek(size - _END - length)
    try:
        file = _Compact(handle.read(length)).struct()
        return _number(file, 3), tuple(_group(group) for group in file[4])
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        raise ValueError("its footer is damaged: not what Parquet describes") from None


def _group(group: dict[int, Any]) -> Group:
    described = [chunk[3] for chunk in group[1]]
    chunks = [Chunk(each[3][0].decode(), _number(each, 5), _number(each, 6), _number(each, 7)) for each in described]
    return Group(_number(group, 3), tuple(chunks))


def _number(struct: dict[int, Any], field: int) -> int:
    if not isinstance(struct[field], int):
        raise TypeError(field)
    return struct[field]


class _Compact:
    """Thrift's compact protocol: structs as {field number: value}, lists, numbers, bytes.

    Raises IndexError at the end.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._depth = data, 0, 0

    def struct(self) -> dict[int, Any]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"its footer is damaged: nested deeper than {_DEEPEST} levels")
        found, field = {}, 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            found[field] = kind == 1 if kind in (1, 2) else self._value(kind)
        self._depth -= 1
        return found

    def _value(self, kind: int) -> Any:
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return self._list()
        if kind == 12:
            return self.struct()
        if kind in (1, 2, 3):  # as an element of a list a flag is a byte
            return self._byte()
        if kind == 7:
            return self._bytes(8)
        raise ValueError(f"its footer is damaged: a value of kind {kind}")  # a map: Parquet has none

    def _list(self) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        if size > len(self._data):  # each takes a byte at least
            raise IndexError(size)
        return [self._value(head & 15) for _ in range(size)]

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise IndexError(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise IndexError(shift)

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
