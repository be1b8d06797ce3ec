"""What a figure of the oracle SL rests on, in numbers and in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from analysis.fit.counts import Counts
from oracle.records.trace import Trace

X_LABEL = {
    "accepted": "accepted tokens per oracle iteration",
    "detect": "draft passes per oracle iteration (accepted + 1)",
}


def values_of(data: Trace | ArrayLike, convention: str) -> tuple[np.ndarray, str]:
    """SL of each iteration, int64 [n], and the sample in words."""
    if convention not in X_LABEL:
        raise ValueError(f"convention must be one of {', '.join(X_LABEL)}, not {convention!r}")
    if isinstance(data, Trace):
        values = data.iterations()[convention].to_numpy()
        return values, in_words(data, len(values))
    values = np.asarray(data)
    least = 0 if convention == "accepted" else 1
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu" or values.min() < least:
        raise ValueError(f"the SL of iterations must be a non-empty list of whole numbers from {least}, not {data!r}")
    return values.astype(np.int64), f"n = {len(values):,} iteration{'s' * (len(values) > 1)}"


def in_words(trace: Trace, iterations: int) -> str:
    """The sample that a figure rests on."""
    return f"n = {iterations:,} iterations, {trace.prompts:,} prompt{'s' * (trace.prompts > 1)}"


def counts_of(trace: Trace) -> Counts:
    """The table of the accepted lengths of all oracle iterations, by prompt."""
    runs = trace.iterations()
    return Counts.from_samples(runs.accepted.to_numpy(), runs.censored.to_numpy(), runs.prompt.to_numpy())
