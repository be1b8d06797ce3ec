"""What the best of many settings is worth on prompts that did not choose it, and what the data could still hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.gains.influence import half_width, of_ratio
from analysis.intervals import LEVEL, Estimate, ratio
from analysis.replay.result import Totals


@dataclass(frozen=True)
class HeldOut:
    """Of P prompts dealt into two halves, each judged under what the other one chose.

    Speedups and gains are ratios of seconds, paired by prompt.  A single prompt is judged under its own choice, and has
    no intervals.
    """

    constant: str  # the best constant on all prompts
    policy: str  # the best of all that were tried, constants included, on all prompts
    tried: int
    constant_speedup: Estimate  # plain decoding over the best constant
    policy_speedup: Estimate  # plain decoding over the best policy
    gain: Estimate  # best constant over best policy; above 1: the policy is faster
    hidden: float  # no tried policy is more times as fast as the best constant than this, at 95 % for all of them


def held_out(constants: Sequence[Totals], tried: Sequence[Totals], seed: int = 0) -> HeldOut:
    """Judge the best of ``constants`` and the best of ``tried`` (these and others) of one trace and one cost."""
    fixed, every = (np.stack([each.prompt_seconds for each in found]) for found in (constants, tried))
    plain = tried[0].plain_seconds
    fixed_seconds, best_seconds = (_by_the_other_half(found, seed) for found in (fixed, every))
    best_constant = int(fixed.sum(axis=1).argmin())
    return HeldOut(
        constant=constants[best_constant].policy,
        policy=tried[int(every.sum(axis=1).argmin())].policy,
        tried=len(tried),
        constant_speedup=ratio(plain, fixed_seconds),
        policy_speedup=ratio(plain, best_seconds),
        gain=ratio(fixed_seconds, best_seconds),
        hidden=_most(fixed[best_constant], every),
    )


def _by_the_other_half(seconds: np.ndarray, seed: int) -> np.ndarray:
    """Seconds [J, P] under the choice of the half of the prompts that each does not belong to, float [P]."""
    prompts = seconds.shape[1]
    if prompts < 2:
        return seconds[seconds.sum(axis=1).argmin()]
    half = np.zeros(prompts, bool)
    half[np.random.default_rng(seed).permutation(prompts)[: prompts // 2]] = True
    return np.where(half, *(seconds[seconds[:, shown].sum(axis=1).argmin()] for shown in (~half, half)))


def _most(baseline: np.ndarray, seconds: np.ndarray) -> float:
    """Upper end, for all J policies at once, of the ratio of the baseline's seconds [P] to theirs [J, P].

    Bonferroni's: of J upper ends at (1 - LEVEL) / J each the largest one.
    """
    others = [each for each in seconds if not np.array_equal(each, baseline)]
    if not others:
        return 1.0
    level = 1 - 2 * (1 - LEVEL) / len(others)  # of a two-sided interval whose upper end is that
    ends = []
    for each in others:
        found = baseline.sum() / each.sum()
        # On the log, as every interval of a ratio: it is closer to normal there.
        ends.append(found * np.exp(half_width(of_ratio(baseline, each), level) / found))
    return float(max(ends))
