"""What each text costs under rules that differ in their cap only: totals without rows, so that a sweep is quick."""

from __future__ import annotations

import numpy as np

from analysis.cost import CostModel
from analysis.replay.drafts import Book
from analysis.replay.lanes import Natural

_LANES = 2**13  # walked side by side: so many that what they read and write stays in the processor's cache
_EVERY = 8  # iterations between two looks at which lanes have come to their end


class CappedTotals:
    """Totals of one trace at one cost; a lane is a text under one of the caps.

    Each text is followed by an entry where nothing is drafted, nothing is paid and no step goes further, so that a lane
    that has come to its end may go on with the others.
    """

    def __init__(self, book: Book, cost: CostModel, context: np.ndarray) -> None:
        self._cost, self._sizes = cost, np.diff(book.starts, append=book.size)
        texts = np.arange(len(self._sizes))
        self._places = np.arange(book.size) + np.repeat(texts, self._sizes)
        self._first = book.starts + texts
        self._hops = self._spread(book.accepted_run + 1)
        self._context = self._spread(context) if cost.rounds_vary else None

    def seconds(self, scan: Natural, caps: np.ndarray) -> np.ndarray:
        """Price of each text's iterations under each of the ``caps`` (int [caps]), float [caps, P]."""
        # Lengths count from one: 0 is the entry after a text.
        lengths = self._spread(np.minimum(scan.length, int(caps.max())) + 1)
        table = np.append(0.0, self._cost.round(np.arange(int(caps.max()) + 1)))
        texts = max(1, _LANES // len(caps))
        blocks = [self._first[begin : begin + texts] for begin in range(0, len(self._first), texts)]
        found = [self._walk(np.repeat(at, len(caps)), np.tile(caps + 1, len(at)), lengths, table) for at in blocks]
        return np.concatenate(found).reshape(len(self._first), len(caps)).T

    def _walk(self, at: np.ndarray, caps: np.ndarray, lengths: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Total of each lane, float [lanes], from its place ``at`` to the end of its text, summed in that order."""
        total, done, context = np.zeros(len(at)), np.zeros(len(at)), self._context
        lane = np.arange(len(at))
        while len(at):
            for _ in range(_EVERY):
                drafted = np.minimum(lengths[at], caps)
                total += table[drafted] if context is None else self._price(drafted, context[at])
                at += np.minimum(self._hops[at], drafted)
            live = lengths[at] > 0
            done[lane] = total
            at, caps, lane, total = at[live], caps[live], lane[live], total[live]
        return done

    def _price(self, drafted: np.ndarray, context: np.ndarray) -> np.ndarray:
        """The same as from the table where it depends on the context too."""
        return np.where(drafted > 0, self._cost.round(np.maximum(drafted - 1, 0), context), 0.0)

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """One value a position (int [N]) with a 0 after each text, int64 [N + P]."""
        spread = np.zeros(len(values) + len(self._sizes), np.int64)
        spread[self._places] = values
        return spread
