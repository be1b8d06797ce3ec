"""Which prompts a trace is about, in a form that can be kept and compared."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np

from oracle.records.trace import Trace

DIGITS = 16


def digests(trace: Trace) -> tuple[str, ...]:
    """A name for each prompt that only its tokens decide: `DIGITS` digits from 0 to f."""
    tokens = np.ascontiguousarray(trace.prompt_tokens, "<i4")
    ends = itertools.pairwise(trace.prompt_offsets.tolist())
    return tuple(hashlib.sha256(tokens[a:b].tobytes()).hexdigest()[:DIGITS] for a, b in ends)
