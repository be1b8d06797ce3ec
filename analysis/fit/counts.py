"""The table of accepted lengths that every fit works on: its size does not depend on the number of iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.intervals import Estimate, share

Rows = NDArray[np.int64]

MAX_LENGTH = 10_000_000  # a table has an entry for each length up to the largest


@dataclass(frozen=True)
class Clusters:
    """The runs of a table by the prompt that they are from, in M rows: so many of a prompt, of a length, cut or not.

    Runs of one prompt resemble each other, so it is prompts that say how far an estimate may be off.
    """

    prompts: int  # that have runs
    prompt: Rows  # [M], 0 .. prompts - 1
    length: Rows  # [M]
    cut: NDArray[np.bool_]  # [M]
    count: Rows  # [M]

    @classmethod
    def of(cls, prompt: NDArray, length: Rows, cut: NDArray[np.bool_]) -> Clusters:
        """From one entry a run, [n] each; prompts have any numbers."""
        names, number = np.unique(prompt, return_inverse=True)
        lengths = int(length.max(initial=0)) + 1
        row, count = np.unique((number * lengths + length) * 2 + cut, return_counts=True)
        return cls(len(names), row // 2 // lengths, row // 2 % lengths, row % 2 == 1, count)

    def sums(self, of_row: NDArray) -> NDArray[np.float64]:
        """Sum over the runs of each prompt, [P], of what is given for a run of each row, [M]."""
        return np.bincount(self.prompt, self.count * of_row, self.prompts).astype(np.float64)

    def cut_at(self, limit: int) -> Clusters:
        """See `Counts.cut_at`."""
        return Clusters(
            self.prompts, self.prompt, np.minimum(self.length, limit), self.cut | (self.length >= limit), self.count
        )


@dataclass(frozen=True)
class Counts:
    """How often each length was seen.

    ``events[k]`` counts the runs that ended at k, ``censored[k]`` the runs cut short, of which only SL >= k is known.
    Without ``clusters`` every run is taken as independent of all others, which makes intervals too narrow where several
    are from one prompt.
    """

    events: NDArray[np.int64]  # [K + 1]
    censored: NDArray[np.int64]  # [K + 1]
    clusters: Clusters | None = None

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
    def from_samples(
        cls, values: ArrayLike, censored: ArrayLike | None = None, prompts: ArrayLike | None = None
    ) -> Counts:
        """Table of ``values`` [n], whole numbers >= 0; ``censored`` [n] is true where a value is only a lower bound.

        ``prompts`` [n]: which prompt each is from, by any numbers or names.
        """
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
        of_prompt = None if prompts is None else np.asarray(prompts)
        if of_prompt is not None and of_prompt.shape != whole.shape:
            raise ValueError(f"prompts must name one for each of the {whole.size} values, not {of_prompt.shape}")
        clusters = None if of_prompt is None else Clusters.of(of_prompt, whole, cut)
        return cls(np.bincount(whole[~cut], minlength=size), np.bincount(whole[cut], minlength=size), clusters)

    @property
    def n(self) -> int:
        """Number of observations, censored ones included."""
        return int(self.events.sum() + self.censored.sum())

    @property
    def accepted(self) -> int:
        """All accepted tokens together."""
        return int(((self.events + self.censored) * np.arange(self.events.size)).sum())

    @property
    def prompts(self) -> int | None:
        """Number of prompts that the runs are from; None where it is not known."""
        return None if self.clusters is None else self.clusters.prompts

    @property
    def telling(self) -> int | None:
        """Number of prompts with an accepted token or a rejection; None where it is not known whose the runs are."""
        if self.clusters is None:
            return None
        return int(np.count_nonzero(self.clusters.sums((self.clusters.length > 0) | ~self.clusters.cut)))

    @property
    def independent(self) -> int:
        """Number of units that may be taken as independent: prompts, or runs where it is not known whose they are."""
        return self.n if self.clusters is None else self.clusters.prompts

    @property
    def acceptance(self) -> Estimate:
        """Accepted tokens over accepted ones and rejections, with the interval over prompts; needs ``clusters``."""
        if self.clusters is None:
            raise ValueError("the acceptance has an interval over prompts where the prompts are known; give them")
        return share(self.clusters.sums(self.clusters.length), self.clusters.sums(~self.clusters.cut))

    def cut_at(self, limit: int) -> Counts:
        """The same runs as seen by someone who stops looking at ``limit``: longer ones become censored there."""
        if self.events.size <= limit:
            return self
        events, censored = np.append(self.events[:limit], 0), self.censored[: limit + 1].copy()
        censored[limit] = self.events[limit:].sum() + self.censored[limit:].sum()
        return Counts(events, censored, None if self.clusters is None else self.clusters.cut_at(limit))
