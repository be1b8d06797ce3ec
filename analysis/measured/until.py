"""When enough prompts are measured: the intervals of paired ratios are as narrow as was asked for.

Whoever looks at an interval again and again and stops when it is narrow stops too often where it is narrow by chance.
So it is looked at seldom (after 10 prompts, then after half as many again each time) and at a higher level, which
keeps the 95 % at the moment of stopping: simulated, 3 to 4 % of the intervals miss where the prompts' logs of the ratio
are symmetric about it (normal, t with 5 degrees of freedom), whatever width was asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.intervals import Estimate
from analysis.measured.against import clocked, drafts_a_fixed_length, faster
from analysis.replay.enough import within
from oracle.records.runs import PLAIN, Call, Runs

FIRST, GROWTH = 10, 1.5  # prompts before the first look; how many times as many before each further one
LEVEL = 0.97  # of the interval that is looked at


@dataclass(frozen=True)
class Until:
    """Go on until the ratio of every policy's seconds to the baseline's is known to within ``share`` (.02: 2 %).

    ``baseline`` has to be among what is measured; by default it is the first policy of a fixed length, plain decoding
    where there is none or nothing else.  It is settled before anything runs, so that it is not picked for its luck.
    """

    share: float
    baseline: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.share, bool) or not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share!r}; legal: above 0 and at most 1 (0.02 is 2 %)")

    def settle(self, policies: Sequence[str]) -> Until:
        """The same with its baseline settled.  Raises ValueError for one that leaves nothing to compare."""
        drafting = [policy for policy in policies if policy != PLAIN]
        if self.baseline is None:
            fixed = filter(drafts_a_fixed_length, drafting) if len(drafting) > 1 else ()
            return replace(self, baseline=next(iter(fixed), PLAIN))
        if self.baseline not in policies:
            raise ValueError(f"baseline {self.baseline!r} is not measured; measured: {', '.join(policies)}")
        if drafting == [self.baseline]:
            raise ValueError(f"baseline {self.baseline!r} is the only policy: name another one to compare with it")
        return self

    def describe(self) -> dict[str, Any]:
        """What a run under it is bound to."""
        return {"share": self.share, "baseline": self.baseline, "level": LEVEL, "first": FIRST, "growth": GROWTH}

    def looks(self, prompts: int) -> list[int]:
        """After how many of ``prompts`` prompts it is looked; the last time after all."""
        found = [FIRST]
        while found[-1] < prompts:
            found.append(math.ceil(found[-1] * GROWTH))
        return [*(count for count in found if count < prompts), prompts]

    def enough(self, calls: Sequence[Call]) -> bool:
        """Whether what is measured tells every ratio so closely."""
        return all(within(found) <= self.share for found in self.ratios(Runs({}, tuple(calls))).values())

    def ratios(self, runs: Runs) -> dict[str, Estimate]:
        """By policy the ratio of the baseline's seconds to its own, at the level of a look; the policies that draft."""
        policies = [policy for policy in runs.policies if policy not in (PLAIN, self.baseline)]
        seconds = functools.cache(lambda policy: clocked(runs, policy))
        base = seconds(self.settle(runs.policies).baseline or PLAIN)
        return {policy: faster(base, seconds(policy), LEVEL) for policy in policies}
