"""Degenerate texts: a model that repeats itself to the end makes acceptance look better than it is.

A text **repeats itself** when its tail (a final end-of-text token left aside) repeats a cycle of at most 32 tokens for
at least 3 full periods and at least 24 tokens: with period p and tail length L, y[t] == y[t + p] throughout the tail
and L >= max(3 p, 24).  The numbers are a convention; they catch repeated lines and words, and leave lists and tables
alone.
"""

from __future__ import annotations

import numpy as np

from oracle.records.trace import Trace

MAX_PERIOD = 32  # tokens
MIN_PERIODS = 3
MIN_TOKENS = 24
_WINDOW = MAX_PERIOD * MIN_PERIODS
_BLOCK = 16_384  # texts looked at together: bounds the memory


def repeating(trace: Trace) -> np.ndarray:
    """Which texts end in repeated text, bool [P]."""
    return _periods(trace) > 0


def repeat_starts(trace: Trace) -> np.ndarray:
    """Position in its text at which each text's final repetition begins, int64 [P]; -1 for texts without one."""
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
    """Shortest period of each text's final repetition, int64 [P]; 0 where there is none."""
    starts, ends = trace.offsets[:-1], _text_ends(trace)
    blocks = [slice(first, first + _BLOCK) for first in range(0, trace.prompts, _BLOCK)]
    return np.concatenate([_shortest_period(trace.target_tokens, starts[block], ends[block]) for block in blocks])


def _shortest_period(tokens: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The same for the texts ``tokens[start:end]``, int64 [starts]."""
    at = ends[:, None] - 1 - np.arange(_WINDOW)  # flat index, last token first, int64 [texts, window]
    # Every filler differs from every other and from every token, so that nothing outside the text ever matches.
    tail = np.where(at >= starts[:, None], tokens[np.maximum(at, 0)].astype(np.int64), -1 - np.arange(_WINDOW))
    found = np.zeros(len(starts), dtype=np.int64)
    for period in range(MAX_PERIOD, 0, -1):
        need = max(MIN_PERIODS * period, MIN_TOKENS)
        found[(tail[:, : need - period] == tail[:, period:need]).all(axis=1)] = period
    return found
