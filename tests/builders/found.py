"""A diagnosis made of numbers written by hand."""

import dataclasses

from analysis.diagnosis.causes import Causes, Stops
from analysis.diagnosis.check import Arm, Check
from analysis.diagnosis.found import Found, Tuning
from analysis.diagnosis.whatif import WhatIf
from analysis.gains.loss import BreakEven, Iteration
from analysis.intervals import Estimate


def estimate(value, by=0.1):
    """A number that is known to within ``by`` of it, to both sides."""
    return Estimate(value, value / (1 + by), value * (1 + by))


ONE = Estimate(1.0, 1.0, 1.0)
TUNING = Tuning(
    policy="constant:tokens=3",
    constant="constant:tokens=3",
    speedup=estimate(1.3),
    over_constant=ONE,
    group=("constant:tokens=3",),
    simplest="constant:tokens=3",
    optimism=0.01,
    tried=574,
    prompts=20,
)


def found(now=1.2, best=1.3, over=1.1, by=0.02, **changes):
    """Of a draft whose default gives ``now``, and whose tuned constant gives ``best`` and ``over`` the default."""
    default, policy = "dynamic", "constant:tokens=3"
    arms = (
        Arm("no draft", "none", 20.0, ONE, estimate(1 / now, by)),
        Arm("library's default", default, 20 / now, estimate(now, by), ONE),
        Arm("recommended", policy, 20 / best, estimate(best, by), estimate(over, by)),
    )
    check = Check(
        prompts=12,
        repeats=1,
        arms=arms,
        judged=policy,
        predicted=estimate(best * 1.01),
        decoding=estimate(best),
        error=Estimate(0.01, -0.02, 0.04),
        verdict="pass",
        within=by,
        closer=(0.01, 48),
    )
    even = BreakEven(draft_cost=0.3, draft_cost_needed=0.45, by="constant:tokens=2", acceptance_needed=0.6)
    base = Found(
        draft="org/small",
        default=default,
        now=estimate(now, by),
        now_prompts=32,
        causes=Causes(
            iteration=Iteration(default, tokens=3.0, draft=1.2, wasted=0.6, verification=1.1, overhead=0.1),
            stops=Stops(early=0.2, missed=2.5, late=0.5, wasted=4.0),
            acceptance=0.8,
            accepted_share=0.55,
            speedup=estimate(now),
            ceiling=estimate(1.9),
        ),
        tuning=TUNING,
        ran_as=policy,
        check=check,
        what_if=WhatIf(
            now=estimate(best),
            twice_as_fast=estimate(1.6),
            more_accurate=estimate(1.5),
            acceptance=0.8,
            acceptance_then=0.88,
            break_even=even,
        ),
        cut=0.0,
        max_new_tokens=64,
        budget=600.0,
    )
    return dataclasses.replace(base, **changes)
