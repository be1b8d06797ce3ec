"""A trace with some of its prompts left out, or taken in parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from oracle.records.trace import SIGNALS, Overruns, Trace

PART = 1_000_000  # tokens; what is derived from so many takes some 200 MB
_PER_TOKEN = ("target_tokens", "draft_tokens", *SIGNALS, "target_margin")


def select_prompts(trace: Trace, keep: np.ndarray) -> Trace:
    """The trace of the prompts where ``keep`` (bool [P]) holds, in the same order.  ValueError when none is left."""
    if keep.shape != (trace.prompts,) or keep.dtype != bool:
        raise ValueError(f"keep must be bool of shape ({trace.prompts},), not {keep.dtype} {keep.shape}")
    if not keep.any():
        raise ValueError(f"none of the {trace.prompts} prompts is kept; a trace needs at least one")
    tokens = np.repeat(keep, np.diff(trace.offsets))  # bool [N]
    return dataclasses.replace(
        trace,
        ids=tuple(name for name, kept in zip(trace.ids, keep.tolist(), strict=True) if kept),
        index=trace.index[keep],
        finish=trace.finish[keep],
        max_new_tokens=trace.max_new_tokens[keep],
        prompt_offsets=_offsets(np.diff(trace.prompt_offsets)[keep]),
        prompt_tokens=trace.prompt_tokens[np.repeat(keep, np.diff(trace.prompt_offsets))],
        offsets=_offsets(np.diff(trace.offsets)[keep]),
        overruns=_select_overruns(trace.overruns, tokens),
        **{name: getattr(trace, name)[tokens] for name in _PER_TOKEN},
    )


def parts(trace: Trace, tokens: int = PART) -> Iterator[Trace]:
    """The trace in traces of consecutive prompts, each of at most ``tokens`` tokens or one prompt: views, not copies.

    What a part derives (runs, contexts, ...) goes with it, so that a walk over the parts needs the memory of one.
    """
    first = 0
    while first < trace.prompts:
        last = int(np.searchsorted(trace.offsets, trace.offsets[first] + tokens, side="right")) - 1
        last = max(last, first + 1)
        yield _consecutive(trace, slice(first, last))
        first = last


def _consecutive(trace: Trace, prompts: slice) -> Trace:
    ends = slice(prompts.start, prompts.stop + 1)
    text = slice(*(int(trace.offsets[end]) for end in (prompts.start, prompts.stop)))
    asked = slice(*(int(trace.prompt_offsets[end]) for end in (prompts.start, prompts.stop)))
    over = trace.overruns
    rows = slice(*np.searchsorted(over.position, [text.start, text.stop]).tolist())
    inside = slice(int(over.offsets[rows.start]), int(over.offsets[rows.stop]))
    return dataclasses.replace(
        trace,
        ids=trace.ids[prompts],
        index=trace.index[prompts],
        finish=trace.finish[prompts],
        max_new_tokens=trace.max_new_tokens[prompts],
        prompt_offsets=trace.prompt_offsets[ends] - asked.start,
        prompt_tokens=trace.prompt_tokens[asked],
        offsets=trace.offsets[ends] - text.start,
        overruns=Overruns(
            position=over.position[rows] - text.start,
            offsets=over.offsets[rows.start : rows.stop + 1] - inside.start,
            **{name: getattr(over, name)[inside] for name in ("tokens", *SIGNALS)},
        ),
        **{name: getattr(trace, name)[text] for name in _PER_TOKEN},
    )


def _select_overruns(overruns: Overruns, tokens: np.ndarray) -> Overruns:
    keep = tokens[overruns.position]  # bool [U]
    inside = np.repeat(keep, np.diff(overruns.offsets))
    moved = np.cumsum(tokens) - 1  # where each kept token went
    return Overruns(
        position=moved[overruns.position[keep]],
        offsets=_offsets(np.diff(overruns.offsets)[keep]),
        **{name: getattr(overruns, name)[inside] for name in ("tokens", *SIGNALS)},
    )


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
