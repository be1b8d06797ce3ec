"""A trace with some of its prompts left out."""

from __future__ import annotations

import dataclasses

import numpy as np

from oracle.records.trace import SIGNALS, Overruns, Trace

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
