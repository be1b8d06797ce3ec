"""How many prompts are enough: how well a sample of them tells a speedup, and how many would tell it better."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.intervals import NORMAL_975, Estimate, t_975, weighed
from analysis.replay.drafts import NotRecorded
from analysis.replay.paired import paired
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate_totals
from analysis.replay.sweep import baseline as best_constant
from oracle.records.trace import Trace

ALONE = (0.05, 0.03)  # how closely a speedup is wanted: to within 5 %, 3 %
BESIDE = 0.01  # how closely the ratio of two policies is
MOST = 10_000_000  # prompts that are ever said to be needed


@dataclass(frozen=True)
class Enough:
    """How well the prompts that there are tell the speedup of a policy, and its ratio to a baseline."""

    policy: str
    prompts: int  # that there are
    within: float  # its speedup is known to within this share: .08 is 8 %; NaN for one prompt
    needs: dict[float, int | None]  # share -> prompts that would tell the speedup to within it; None: no number would
    baseline: str | None  # None where there is no other policy to compare with
    paired_within: float
    paired_needs: dict[float, int | None]

    @property
    def sentence(self) -> str:
        """The same in words, a full stop at the end."""
        if math.isnan(self.within):
            return "One prompt tells nothing about others: no interval, and no number of prompts that would be enough."
        alone = f"{self.policy} is known to within {percent(self.within)}; {_needed(self.needs)}"
        if self.baseline is None:
            return f"{alone}."
        beside = f"{percent(self.paired_within)}, and {_needed(self.paired_needs)}"
        return f"{alone}. Against {self.baseline}, paired by prompt, it is known to within {beside}."


def enough(found: Totals, baseline: Totals | None = None) -> Enough:
    """How many prompts like these are enough for the speedup of ``found``, and for its ratio to ``baseline``."""
    other = None if baseline is None or baseline.policy == found.policy else baseline
    plain, seconds = found.plain_seconds, found.prompt_seconds
    needs = {share: prompts_for(plain, seconds, share, found.price_variance()) for share in ALONE}
    beside = paired(other, found) if other is not None else Estimate(math.nan, math.nan, math.nan)
    paired_needs = {}
    if other is not None:
        paired_needs[BESIDE] = prompts_for(other.prompt_seconds, seconds, BESIDE, found.price_variance(other))
    return Enough(
        policy=found.policy,
        prompts=len(seconds),
        within=within(found.speedup_estimate()),
        needs=needs,
        baseline=None if other is None else other.policy,
        paired_within=within(beside),
        paired_needs=paired_needs,
    )


def enough_of(trace: Trace, cost: CostModel) -> Enough:
    """How many prompts like those of ``trace`` are enough for `dynamic` and its ratio to the best constant length.

    For that constant alone where the trace lacks what `dynamic` reads.
    """
    baseline = best_constant(trace, cost).totals
    ((_, dynamic),) = simulate_totals(trace, ["dynamic"], cost)
    return enough(baseline) if isinstance(dynamic, NotRecorded) else enough(dynamic, baseline)


def within(found: Estimate) -> float:
    """How far the interval reaches from the number, as a share of it: .08 for "to within 8 %"; NaN without interval."""
    return max(found.high / found.value - 1, found.value / found.low - 1)


def prompts_for(above: np.ndarray, below: np.ndarray, share: float, log_variance: float = 0.0) -> int | None:
    """How many prompts like these (seconds, float [P] each) give a ratio of totals to `within` that ``share``.

    From the spread of the linearised log ratio over the prompts that there are; ``log_variance`` is that of the prices,
    which no prompt makes smaller.  None for a single prompt, whose spread is not known, and where no number up to
    `MOST` is enough.
    """
    prompts = len(above)
    if prompts < 2:
        return None
    shares = above / above.sum(), below / below.sum()
    variance, free = weighed((shares[0] - shares[1])[:, None], ((shares[0] + shares[1]) / 2)[:, None])
    spread, even = float(np.sqrt(prompts * variance[0])), float(free[0] + 1) / prompts  # 1 where prompts are alike
    room = math.log1p(share) ** 2 - NORMAL_975**2 * log_variance

    def suffices(count: int) -> bool:
        return (float(t_975(max(even * count - 1, 1.0))) * spread) ** 2 <= room * count

    most = 2
    while not suffices(most):
        most *= 2
        if most > MOST:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if suffices(middle) else (middle, most)
    return most


def percent(share: float) -> str:
    """A share with its sign either way: ±8 %, ±0.4 %."""
    points = 100 * share
    return f"±{points:.0f} %" if points >= 9.5 else f"±{round(points, 3):.2g} %"  # what is less is rounding


def _needed(needs: dict[float, int | None]) -> str:
    """Begins with a whole clause; those that follow leave out what repeats."""
    texts = []
    for share, count in needs.items():
        if count is None:
            texts.append(f"no number of prompts gives {percent(share)}, the prices being known no better")
        else:
            texts.append(f"{percent(share)} {f'{count:,}' if texts else f'takes about {count:,} prompts'}")
    return ", ".join(texts)
