"""A trace with some of its prompts left out, or taken in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from oracle.records.flat import Flat, select_rows

PART = 1_000_000  # tokens; what is derived from so many takes some 200 MB


class _Rows(Protocol):
    """What has one row a prompt."""

    def columns(self) -> dict[str, Flat]: ...

    def with_columns(self, found: Mapping[str, Flat], /) -> Any: ...


T = TypeVar("T", bound=_Rows)


def select_prompts(trace: T, keep: np.ndarray) -> T:
    """The trace of the prompts where ``keep`` (bool [P]) holds, in the same order.  ValueError when none is left."""
    found = trace.columns()
    prompts = len(found["id"])
    if keep.shape != (prompts,) or keep.dtype != bool:
        raise ValueError(f"keep must be bool of shape ({prompts},), not {keep.dtype} {keep.shape}")
    if not keep.any():
        raise ValueError(f"none of the {prompts} prompts is kept; a trace needs at least one")
    return trace.with_columns(select_rows(found, keep))


def parts(trace: T, tokens: int = PART) -> Iterator[T]:
    """The trace in traces of consecutive prompts, each of at most ``tokens`` tokens or one prompt: views if possible.

    What a part derives (runs, contexts, ...) goes with it, so that a walk over the parts needs the memory of one.
    """
    found = trace.columns()
    ends = found["target_tokens"].offsets[0]
    first = 0
    while first < len(ends) - 1:
        last = max(int(np.searchsorted(ends, ends[first] + tokens, side="right")) - 1, first + 1)
        yield trace.with_columns({name: column.rows(first, last) for name, column in found.items()})
        first = last


def which(ids: Sequence[str], keep: np.ndarray | Sequence[str] | slice) -> np.ndarray:
    """``keep`` as bool [P]: itself, the prompts of these ids, or those of a slice of their numbers.

    Raises ValueError for ids that are not there.
    """
    if isinstance(keep, slice):
        mask = np.zeros(len(ids), bool)
        mask[keep] = True
        return mask
    if isinstance(keep, np.ndarray) and keep.dtype.kind not in "OU":
        return keep
    if isinstance(keep, str):
        raise ValueError(f"keep is the text {keep!r}; give a list of ids")
    wanted = list(keep)
    if unknown := [each for each in wanted if each not in set(ids)]:
        raise ValueError(f"no prompt has the id {unknown[0]!r}; the first ids here: {', '.join(ids[:5])}")
    return np.isin(np.array(ids, object), wanted) if wanted else np.zeros(len(ids), bool)
