"""The walk of a policy in plain numbers: prompt after prompt, a few microseconds an iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from analysis.replay.drafts import Book
from oracle.policies.contract import Prices
from oracle.policies.in_order import InOrder, Seen


def walk_in_numbers(
    book: Book, policy: InOrder, cost: Prices | None, lengths: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(at, drafted), int64 each, of drafts that end after ``lengths[rule]`` tokens (int64 [N] each) at the latest.

    What is not recorded is not a number to the policy, as in arrays: that the record was outrun shows in the rows.
    """
    tables = [np.ascontiguousarray(length).data for length in lengths]
    run, numbers = np.ascontiguousarray(book.accepted_run).data, policy.first(cost)
    most, playing, look, after = policy.most, policy.playing, policy.look, policy.after
    values_of = _reader(book, policy) if policy.signal else None
    table, several = tables[0], len(tables) > 1
    seen: Seen = ()
    visited: list[int] = []
    rows: list[int] = []
    for at, end in zip(book.starts.tolist(), book.end[book.starts].tolist(), strict=True):
        while at < end:
            if several:
                table = tables[playing(numbers)]
            drafted, budget = table[at], most(numbers)
            if drafted > budget:
                drafted = budget
            if values_of is not None:
                length, seen = look(numbers, values_of(at, drafted))
                drafted = length or drafted
            accepted = run[at]
            if accepted > drafted:
                accepted = drafted
            visited.append(at)
            rows.append(drafted)
            numbers = after(numbers, drafted, accepted, seen)
            at += accepted + 1
    return np.array(visited, dtype=np.int64), np.array(rows, dtype=np.int64)


def _reader(book: Book, policy: InOrder) -> Callable[[int, int], list[float]]:
    """The policy's signal of the first ``size`` tokens of the draft from ``at``, as `Book.address` finds them."""
    column: Any = book.column(policy.signal, policy).data
    text, over, recorded = (np.ascontiguousarray(part).data for part in (book.text, book.over, book.recorded))

    def values(at: int, size: int) -> list[float]:
        inside = text[at]
        if size <= inside:
            return column[at : at + size].tolist()
        first, known = over[at], recorded[at]
        found = column[at : at + inside].tolist() + column[first + inside : first + min(size, known)].tolist()
        return found if size <= known else found + [math.nan] * (size - known)

    return values
