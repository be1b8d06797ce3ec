"""The table of accepted lengths that every fit works on: its size does not depend on the number of iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_LENGTH = 10_000_000  # a table has an entry for each length up to the largest


@dataclass(frozen=True)
class Counts:
    """How often each length was seen.

    ``events[k]`` counts the runs that ended at k, ``censored[k]`` the runs cut short, of which only SL >= k is known.
    """

    events: NDArray[np.int64]  # [K + 1]
    censored: NDArray[np.int64]  # [K + 1]

    def __post_init__(self) -> None:
        for name in ("events", "censored"):
            table = np.asarray(getattr(self, name))
            if table.ndim != 1 or (table.size and (table.dtype.kind not in "iu" or table.min() < 0)):
                raise ValueError(f"{name} must be a one-dimensional array of whole numbers >= 0, not {table!r}")
            object.__setattr__(self, name, table.astype(np.int64))
        if self.events.size != self.censored.size:
            raise ValueError(
                f"events has {self.events.size} entries and censored {self.censored.size}; give one each per length"
            )

    @classmethod
    def from_samples(cls, values: ArrayLike, censored: ArrayLike | None = None) -> Counts:
        """Table of ``values`` [n], whole numbers >= 0; ``censored`` [n] is true where a value is only a lower bound."""
        values = np.asarray(values)
        cut = np.zeros(values.shape, bool) if censored is None else np.asarray(censored, dtype=bool)
        if values.dtype.kind not in "iuf":
            raise ValueError(f"accepted lengths must be numbers, not of type {values.dtype}")
        if values.ndim != 1 or cut.shape != values.shape:
            raise ValueError(
                f"values and censored must be one-dimensional and equally long, not {values.shape} and {cut.shape}"
            )
        bad = (
            values[~((values >= 0) & (values <= MAX_LENGTH) & (values == np.floor(values)))] if values.size else values
        )
        if bad.size:
            raise ValueError(
                f"accepted length {bad[0]} is not a whole number from 0 to {MAX_LENGTH:,}; check what you count"
            )
        whole = values.astype(np.int64)
        size = int(whole.max(initial=-1)) + 1
        return cls(np.bincount(whole[~cut], minlength=size), np.bincount(whole[cut], minlength=size))

    @property
    def n(self) -> int:
        """Number of observations, censored ones included."""
        return int(self.events.sum() + self.censored.sum())

    @property
    def accepted(self) -> int:
        """All accepted tokens together."""
        return int(((self.events + self.censored) * np.arange(self.events.size)).sum())

    def cut_at(self, limit: int) -> Counts:
        """The same runs as seen by someone who stops looking at ``limit``: longer ones become censored there."""
        if self.events.size <= limit:
            return self
        events, censored = np.append(self.events[:limit], 0), self.censored[: limit + 1].copy()
        censored[limit] = self.events[limit:].sum() + self.censored[limit:].sum()
        return Counts(events, censored)
