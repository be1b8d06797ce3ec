"""Calls that something else on the machine disturbed."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from oracle.records.runs import Runs

LIMIT = 1.5  # times the median of the same call in all repeats, when its neighbours were not slow as well


def disturbed(runs: Runs) -> frozenset[tuple[str, int, int]]:
    """Keys (policy, repeat, prompt) of the calls that were slow alone.

    A call's slowness is its seconds over the median of the same call in all repeats; it is disturbed if that exceeds
    ``LIMIT`` times the median slowness of the calls on the same prompt in the same repeat, which ran around it.  A
    machine that is slow for all of them drifts, and disturbs nobody.  Prices are means, as speedups are ratios of
    totals, and a mean must not hang on the one call in which a backup ran.  With one or two repeats nothing says which
    call was disturbed, and none is.
    """
    repeats, neighbours = defaultdict(list), defaultdict(list)
    for call in runs.calls:
        repeats[call.policy, call.prompt].append(call.total_seconds)
    slowness = {
        call.key: call.total_seconds / float(np.median(repeats[call.policy, call.prompt]))
        for call in runs.calls
        if len(repeats[call.policy, call.prompt]) > 2
    }
    for (_, repeat, prompt), value in slowness.items():
        neighbours[repeat, prompt].append(value)
    return frozenset(
        key for key, value in slowness.items() if value > LIMIT * max(1.0, float(np.median(neighbours[key[1:]])))
    )
