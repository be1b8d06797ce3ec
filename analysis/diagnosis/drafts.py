"""Which of several drafts: each with its best setting, judged on prompts that did not choose it, paired by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.intervals import Estimate, ratio
from analysis.replay.paired import held_out
from analysis.replay.sweep import sweep
from oracle.records.trace import Trace


@dataclass(frozen=True)
class Judged:
    """One draft on the tuning prompts, its setting for each half of them chosen on the other half."""

    name: str
    speedup: Estimate  # over the target alone; bare where the prompts are too few to judge apart
    relative: np.ndarray  # float [P], seconds of each text over those of all texts without a draft
    ids: tuple[str, ...]  # of the P prompts
    price_variance: float  # of the log of the speedup


@dataclass(frozen=True)
class Rival:
    """A draft that is not the best one, beside it."""

    name: str
    speedup: Estimate
    best_over_it: Estimate  # paired by prompt: above 1 where the best draft is faster

    @property
    def told_apart(self) -> bool:
        """Whether the best draft is known to be faster than this one."""
        return self.best_over_it.low > 1


def judge(name: str, trace: Trace, cost: CostModel) -> Judged:
    """A draft's trace under the library's settings, held out."""
    tried = sweep(trace, cost).results
    found, best = held_out(tried), tried[0]
    seconds, speedup = best.prompt_seconds, best.speedup_estimate().bare()
    if found is not None:
        seconds = found.seconds
        speedup = ratio(best.plain_seconds, seconds, log_variance=best.price_variance())
    # In units of the same texts without a draft: a machine that was slower for one of the drafts favours none.
    return Judged(name, speedup, seconds / best.plain_seconds.sum(), trace.ids, best.price_variance())


def rivals(found: Sequence[Judged]) -> tuple[str, tuple[Rival, ...]]:
    """The name of the best draft, and the others, best first, on the prompts that all of them have."""
    best, *others = sorted(found, key=lambda each: -each.speedup.value)
    return best.name, tuple(Rival(each.name, each.speedup, _over(best, each)) for each in others)


def _over(best: Judged, other: Judged) -> Estimate:
    place = {name: number for number, name in enumerate(other.ids)}
    pairs = [(number, place[name]) for number, name in enumerate(best.ids) if name in place]
    first, second = (list(column) for column in zip(*pairs, strict=True))
    variance = best.price_variance + other.price_variance
    over = ratio(other.relative[second], best.relative[first], log_variance=variance)
    return over.bare() if np.isnan(best.speedup.low) else over
