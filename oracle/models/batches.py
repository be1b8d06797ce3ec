"""Rows of token ids of different length in one rectangle, and what is read from them put back row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

Columns = dict[str, np.ndarray]  # name -> one value a token
MOST_LOGITS = 2**25  # held at once: 128 MB in float32, and a few temporary copies of that


def narrow(lengths: Sequence[int], more: Sequence[int], most: int | None) -> list[list[int]]:
    """Row numbers in groups: the longest of ``lengths`` and the most of ``more`` in a group are ``most`` together.

    Padding must not make a batch wider than any row of it may become: some models have tables with a place for every
    column, not only for every position.  A row that is too long by itself makes a group by itself.
    """
    if most is None or max(lengths) + max(more) <= most:
        return [list(range(len(lengths)))]
    groups: list[list[int]] = []
    room = 0  # for what follows, in the last group
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if groups and more[row] <= room:
            groups[-1].append(row)
        else:
            groups.append([row])
            room = most - lengths[row]
    return [sorted(group) for group in groups]


def left_padded(rows: Sequence[np.ndarray], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids int64 and mask bool, both [rows, longest]."""
    width = max(len(row) for row in rows)
    return _padded(rows, [slice(width - len(row), width) for row in rows], width, device)


def right_padded(rows: Sequence[np.ndarray], width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids int64 and mask bool, both [rows, width]."""
    return _padded(rows, [slice(len(row)) for row in rows], width, device)


def _padded(
    rows: Sequence[np.ndarray], places: Sequence[slice], width: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    ids = np.zeros((len(rows), width), np.int64)
    mask = np.zeros((len(rows), width), bool)
    for number, (row, place) in enumerate(zip(rows, places, strict=True)):
        ids[number, place] = row
        mask[number, place] = True
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    """Position of every column within its own row, int64 like ``mask``; 0 under left padding."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


class Collected:
    """Values that arrive step by step for changing sets of rows, put back together row by row."""

    def __init__(self) -> None:
        self._owners: list[np.ndarray] = []
        self._values: dict[str, list[np.ndarray]] = {}

    def add(self, owners: torch.Tensor, values: dict[str, torch.Tensor]) -> None:
        """One step: the row numbers (int64 [A]) and a value for each of them in every column."""
        self._owners.append(owners.cpu().numpy())
        for name, column in values.items():
            self._values.setdefault(name, []).append(column.cpu().numpy())

    def split(self, rows: int) -> list[Columns]:
        """For each row its columns in order of arrival; rows that nothing was added for have no columns."""
        if not self._owners:
            return [{} for _ in range(rows)]
        owners = np.concatenate(self._owners)
        order = np.argsort(owners, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=rows))[:-1]
        columns = {name: np.split(np.concatenate(parts)[order], ends) for name, parts in self._values.items()}
        return [{name: column[row] for name, column in columns.items()} for row in range(rows)]
