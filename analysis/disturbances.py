"""Calls that something else on the machine disturbed: which ones, and what is left without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oracle.runs import Call

LIMIT = 1.5  # times the median of the same call in all repeats


def undisturbed(calls: Sequence[Call]) -> list[Call]:
    """The calls, in their order, that took at most ``LIMIT`` times the median of their policy and prompt.

    Prices are means, as speedups are ratios of totals; a mean must not hang on the one call in which a backup ran.
    Calls that were made once or twice always stay: nothing says which one was disturbed.
    """
    seconds: dict[tuple[str, int], list[float]] = {}
    for call in calls:
        seconds.setdefault((call.policy, call.prompt), []).append(call.total_seconds)
    median = {key: float(np.median(values)) if len(values) > 2 else np.inf for key, values in seconds.items()}
    return [call for call in calls if call.total_seconds <= LIMIT * median[call.policy, call.prompt]]
