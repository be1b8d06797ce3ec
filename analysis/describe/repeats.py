"""Degenerate texts: a model that repeats itself to the end makes acceptance look better than it is.

A text is a **loop** when its tail (a final end-of-text token left aside) repeats a cycle of at most 32 tokens for at
least 3 full periods and at least 24 tokens: with period p and tail length L, y[t] == y[t + p] throughout the tail and
L >= max(3 p, 24).  The numbers are a convention; they catch repeated lines and words, and leave lists and tables alone.
"""

from __future__ import annotations

import numpy as np

from oracle.records.trace import Trace

MAX_PERIOD = 32  # tokens
MIN_PERIODS = 3
MIN_TOKENS = 24
_WINDOW = MAX_PERIOD * MIN_PERIODS


def looping(trace: Trace) -> np.ndarray:
    """Which texts end in a loop, bool [P]."""
    return _periods(trace) > 0


def loop_starts(trace: Trace) -> np.ndarray:
    """Position in its text at which each text's final loop begins, int64 [P]; -1 for texts without one."""
    period, ends = _periods(trace), _text_ends(trace)
    starts = np.full(trace.prompts, -1, dtype=np.int64)
    for prompt in np.flatnonzero(period):
        text = trace.target_tokens[trace.offsets[prompt] : ends[prompt]]
        broken = np.flatnonzero(text[: -period[prompt]] != text[period[prompt] :])
        starts[prompt] = broken[-1] + 1 if len(broken) else 0
    return starts


def _text_ends(trace: Trace) -> np.ndarray:
    """Flat index after the last token of each text that is not a final end-of-text token, int64 [P]."""
    last = trace.offsets[1:] - 1
    return trace.offsets[1:] - np.isin(trace.target_tokens[last], trace.eos_token_ids)


def _periods(trace: Trace) -> np.ndarray:
    """Shortest period of each text's final loop, int64 [P]; 0 where there is none."""
    ends = _text_ends(trace)
    at = ends[:, None] - 1 - np.arange(_WINDOW)  # flat index, last token first, int64 [P, window]
    inside = at >= trace.offsets[:-1, None]
    # Every filler differs from every other and from every token, so that nothing outside the text ever matches.
    tail = np.where(inside, trace.target_tokens[np.maximum(at, 0)].astype(np.int64), -1 - np.arange(_WINDOW))
    found = np.zeros(trace.prompts, dtype=np.int64)
    for period in range(MAX_PERIOD, 0, -1):
        need = max(MIN_PERIODS * period, MIN_TOKENS)
        same = (tail[:, : need - period] == tail[:, period:need]).all(axis=1)
        found[same] = period
    return found
