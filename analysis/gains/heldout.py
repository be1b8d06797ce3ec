"""What the best of many settings is worth on prompts that did not choose it, and what the data could still hide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.intervals import Estimate, ratio
from analysis.replay.paired import held_out as judged_apart
from analysis.replay.paired import simultaneous
from analysis.replay.result import Totals

# Prompts that a gain over the best constant needs for an interval: halves of fewer choose what all of them would not.
FEWEST = 10


@dataclass(frozen=True)
class HeldOut:
    """The best constant and the best of all settings, each half of the prompts judged under what the other chose.

    Speedups and gains are ratios of seconds, paired by prompt.  Too few prompts to judge apart
    (``analysis.replay.paired``) are judged under their own choice, and have no intervals; below `FEWEST` the gain has
    none.
    """

    constant: str  # the best constant on all prompts
    policy: str  # the best of all that were tried, constants included, on all prompts
    tried: int
    constant_speedup: Estimate  # plain decoding over the best constant
    policy_speedup: Estimate  # plain decoding over the best policy
    gain: Estimate  # best constant over best policy; above 1: the policy is faster
    hidden: float  # no tried policy is more times as fast as the best constant than this, at 95 % for all of them


def best_held_out(constants: Sequence[Totals], tried: Sequence[Totals], seed: int = 0) -> HeldOut:
    """Judge the best of ``constants`` and the best of ``tried`` (these and others), both best first, of one trace.

    ``seed`` deals the prompts into halves.
    """
    constant, policy = constants[0], tried[0]
    fixed, best = judged_apart(constants, seed=seed), judged_apart(tried, seed=seed)
    others = [each for each in tried if not np.array_equal(each.prompt_seconds, constant.prompt_seconds)]
    hidden = max([1.0, *(each.high for each in simultaneous(constant, others))])  # the constant itself gains nothing
    if fixed is None or best is None:
        gain, hidden = _hindsight(constant.prompt_seconds, policy.prompt_seconds), math.nan
        speedups = [_hindsight(each.plain_seconds, each.prompt_seconds) for each in (constant, policy)]
    else:
        gain = ratio(fixed.seconds, best.seconds, log_variance=policy.price_variance(constant))
        if len(constant.prompt_seconds) < FEWEST:
            gain = gain.bare()
        speedups = [
            ratio(each.plain_seconds, found.seconds, log_variance=each.price_variance())
            for each, found in ((constant, fixed), (policy, best))
        ]
    return HeldOut(constant.policy, policy.policy, len(tried), speedups[0], speedups[1], gain, hidden)


def _hindsight(above: np.ndarray, below: np.ndarray) -> Estimate:
    return Estimate(float(above.sum() / below.sum()), math.nan, math.nan)
