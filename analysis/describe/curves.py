"""Curves over a trace: acceptance by place in the run, oracle SL by place in the text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.intervals import ratio_bands, share_bands, sum_by, units
from oracle.records.trace import Trace

ALONG = ("iteration", "position")


@dataclass(frozen=True)
class Curve:
    """Values with 95 % bands by ``x``; ``count`` says how many runs or iterations each value rests on."""

    x: np.ndarray  # [J]
    value: np.ndarray  # float [J], NaN where count is 0
    low: np.ndarray  # float [J], NaN where there is no interval
    high: np.ndarray  # float [J]
    count: np.ndarray  # int64 [J]


def hazard(trace: Trace, longest: int = 64) -> Curve:
    """Probability that the next draft token is accepted, after x accepted ones in the same oracle iteration.

    x runs from 0 to ``longest`` - 1, or as far as there are data.  A run that the end of the text cut short counts as
    long as its next token is known.  Flat = i.i.d. acceptance; rising = long runs of easy text.  Bands are Wilson's,
    widened by the clustering in prompts.
    """
    if longest < 1:
        raise ValueError(f"longest must be at least 1 token, not {longest}")
    runs = trace.iterations()
    size = min(longest, int(runs.accepted.max()) + 1)
    unit, length = units(trace.prompts)[runs.prompt.to_numpy()], runs.accepted.to_numpy()
    rows = int(unit.max()) + 1
    reached = _table(unit, np.minimum(length, size), rows, size + 1)[:, ::-1].cumsum(axis=1)[:, ::-1]
    ended = ~runs.censored.to_numpy() & (length < size)
    rejected = _table(unit[ended], length[ended], rows, size)
    accepted = reached[:, 1:]  # runs of at least x + 1, by x
    low, high = share_bands(accepted, accepted + rejected)
    trials = (accepted + rejected).sum(axis=0)
    with np.errstate(invalid="ignore"):
        share = accepted.sum(axis=0) / trials
    known = trials > 0
    x = np.arange(size)
    return Curve(x[known], share[known], low[known], high[known], trials[known].astype(np.int64))


def profile(trace: Trace, along: str = "iteration", bins: int = 20) -> Curve:
    """Mean accepted tokens of the oracle iterations that start in each of ``bins`` equal stretches of the text.

    ``along`` is "iteration" (index within the prompt, 0 = first, 1 = last; the one of the published figure) or
    "position" (start of the iteration over the length of the text).  x is the middle of a stretch, from 0 to 1.
    Raises ValueError for another ``along``.
    """
    if along not in ALONG:
        raise ValueError(f"along must be one of {', '.join(ALONG)}, not {along!r}")
    runs = trace.iterations()
    prompt, accepted = runs.prompt.to_numpy(), runs.accepted.to_numpy(float)
    of_all = np.bincount(prompt)[prompt] - 1 if along == "iteration" else np.diff(trace.offsets)[prompt]
    place = runs[along].to_numpy() / np.maximum(of_all, 1)
    column = np.minimum((place * bins).astype(np.int64), bins - 1)
    cell = units(trace.prompts)[prompt] * bins + column
    rows = int(units(trace.prompts).max()) + 1
    sums = sum_by(cell, np.stack([accepted, np.ones(len(runs))], axis=1), rows * bins)
    tokens, count = sums.reshape(rows, bins, 2).transpose(2, 0, 1)
    # One token more is emitted than accepted, which makes a ratio that is never 0: its interval is moved back by one.
    low, high, value = (edge - 1 for edge in ratio_bands(tokens + count, count))
    return Curve((np.arange(bins) + 0.5) / bins, value, np.maximum(low, 0), high, count.sum(axis=0).astype(np.int64))


def _table(row: np.ndarray, column: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns).astype(float)
