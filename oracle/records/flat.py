"""Columns in memory: flat values, and the offsets of each level of lists (Arrow's own layout)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, repr=False)
class Flat:
    """A column of R rows.  Without lists ``values`` has R entries; else ``offsets[0]`` is int64 [R + 1]."""

    values: np.ndarray
    offsets: tuple[np.ndarray, ...] = ()  # outermost level first

    def __len__(self) -> int:
        return len(self.offsets[0]) - 1 if self.offsets else len(self.values)

    def lengths(self, level: int = 0) -> np.ndarray:
        """Entries of each list of a level, int64."""
        return np.diff(self.offsets[level])

    def row_of(self, at: int) -> int:
        """Row that holds the value at flat index ``at``."""
        for ends in reversed(self.offsets):
            at = int(np.searchsorted(ends, at, side="right")) - 1
        return at

    def row(self, number: int) -> Any:
        """One row: a value, an array (a view), or a list of arrays."""
        if not self.offsets:
            return self.values[number]
        first, last = self.offsets[0][number : number + 2].tolist()
        if len(self.offsets) == 1:
            return self.values[first:last]
        ends = self.offsets[1][first : last + 1].tolist()
        return [self.values[start:stop] for start, stop in zip(ends[:-1], ends[1:], strict=True)]

    def select(self, keep: np.ndarray) -> Flat:
        """The rows where ``keep`` (bool [R]) holds."""
        kept = []
        for ends in self.offsets:
            size = np.diff(ends)
            kept.append(ends_of(size[keep]))
            keep = np.repeat(keep, size)
        return Flat(self.values[keep], tuple(kept))

    def rows(self, first: int, last: int) -> Flat:
        """The rows from ``first`` up to ``last``; their values are a view."""
        cut = []
        for ends in self.offsets:
            piece = ends[first : last + 1]
            first, last = int(piece[0]), int(piece[-1])
            cut.append(piece - first)
        return Flat(self.values[first:last], tuple(cut))

    def take(self, rows: np.ndarray) -> Flat:
        """The rows of these numbers (int64), in this order."""
        taken = []
        for ends in self.offsets:
            size = np.diff(ends)[rows]
            taken.append(ends_of(size))
            rows = _spread(ends[:-1][rows], size)
        return Flat(self.values[rows], tuple(taken))


def _spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The indices of every entry of lists that begin at ``starts`` and have these lengths, int64."""
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def ends_of(lengths: np.ndarray) -> np.ndarray:
    """Offsets of lists of these lengths, int64 [len + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


class Stack:
    """Columns put below each other, piece by piece, without ever holding everything twice."""

    def __init__(self) -> None:
        self._values: dict[str, _Growing] = {}
        self._offsets: dict[tuple[str, int], _Growing] = {}  # by the column that owns them, and the level
        self._owners: dict[str, tuple[str, ...]] = {}  # of each column's levels: columns of equal lengths share them

    def add(self, piece: Mapping[str, Flat]) -> None:
        """Every piece has the same columns, and shares offsets between the same ones."""
        first: dict[int, str] = {}
        for name, flat in piece.items():
            self._owners[name] = tuple(first.setdefault(id(ends), name) for ends in flat.offsets)
            if name not in self._values:
                self._values[name] = _Growing(flat.values)
            else:
                self._values[name].add(flat.values)
            for level, ends in enumerate(flat.offsets):
                key = (name, level)
                if self._owners[name][level] == name and key not in self._offsets:
                    self._offsets[key] = _Growing(ends)
                elif key in self._offsets:
                    self._offsets[key].add_offsets(ends)

    def done(self) -> dict[str, Flat]:
        ends = {key: growing.done() for key, growing in self._offsets.items()}
        return {
            name: Flat(growing.done(), tuple(ends[owner, level] for level, owner in enumerate(self._owners[name])))
            for name, growing in self._values.items()
        }


class _Growing:
    """An array that grows at its end.  In place: the system moves large arrays without copying them."""

    def __init__(self, first: np.ndarray) -> None:
        # Taken as it is: a trace of one part is not copied.  Others may hold it, so it never grows itself.
        self._data, self._size, self._ours = first, len(first), False

    def add(self, values: np.ndarray) -> None:
        size = self._size + len(values)
        if not self._ours:
            self._data, self._ours = self._data.copy(), True
        if size > len(self._data):
            self._data.resize(size + size // 8, refcheck=False)
        self._data[self._size : size] = values
        self._size = size

    def add_offsets(self, ends: np.ndarray) -> None:
        self.add(ends[1:] + self._data[self._size - 1])

    def done(self) -> np.ndarray:
        if self._ours:
            self._data.resize(self._size, refcheck=False)
        return self._data


def select_rows(columns: Mapping[str, Flat], keep: np.ndarray) -> dict[str, Flat]:
    """Every column's rows where ``keep`` (bool [R]) holds."""
    return {name: column.select(keep) for name, column in columns.items()}


def take_rows(columns: Mapping[str, Flat], rows: np.ndarray) -> dict[str, Flat]:
    """Every column's rows of these numbers (int64), in this order."""
    return {name: column.take(rows) for name, column in columns.items()}
