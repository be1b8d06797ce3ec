"""Everything that a diagnosis rests on, as numbers; `settled` draws the conclusion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from analysis.diagnosis.causes import Causes
from analysis.diagnosis.check import Check
from analysis.diagnosis.drafts import Rival
from analysis.diagnosis.whatif import WhatIf
from analysis.intervals import Estimate
from analysis.verdict import NO_DRAFT

Answer = Literal["faster", "slower", "undecided"]


@dataclass(frozen=True)
class Tuning:
    """What replaying many settings on the tuning prompts found (``analysis.tune``)."""

    policy: str  # what it speaks for; "none": no draft
    constant: str  # the best fixed length
    speedup: Estimate  # of ``policy`` over no draft, on prompts that did not choose it
    over_constant: Estimate  # of the best of all that was tried, likewise
    group: tuple[str, ...]  # settings that are not distinguishable from the best
    simplest: str
    optimism: float
    tried: int
    prompts: int
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Of the best draft; speedups that were measured are of whole calls, the reading of the prompt included."""

    draft: str
    default: str  # what the library does by itself
    now: Estimate  # its speedup over no draft, on every prompt that was clocked
    now_prompts: int
    causes: Causes  # of the library's default
    tuning: Tuning
    ran_as: str  # what the tuned policy was measured as; the best constant where that is no draft
    check: Check
    what_if: WhatIf
    cut: float  # share of the recorded texts that the limit cut short
    max_new_tokens: int
    budget: float  # seconds
    rivals: tuple[Rival, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)  # draft -> why it is left out
    exhausted: bool = False  # every prompt that there is was used
    parted: int = 0  # texts of the check that are not those of plain decoding


def answer(speedup: Estimate) -> Answer:
    """Whether something is faster than what it is compared with; one number without an interval decides nothing."""
    return "faster" if speedup.low > 1 else "slower" if speedup.high < 1 else "undecided"


def settled(found: Found) -> str:
    """The policy to use: what the tuning spoke for, unless the measured check speaks against it.

    Where it spoke for no draft, the best fixed length is used that was measured to be faster than none; where a setting
    was measured to be slower, the library's default if that was measured to be faster than no draft, else none.
    """
    mine, spoken = found.check.arm(found.ran_as), found.tuning.policy != NO_DRAFT
    measured = answer(mine.speedup)
    if measured == "slower" or (not spoken and measured != "faster"):
        return found.default if answer(found.check.arm(found.default).speedup) == "faster" else NO_DRAFT
    if answer(mine.over_default) == "slower":
        return found.default
    return found.tuning.policy if spoken else found.ran_as


def outcome(found: Found) -> Answer:
    """Whether what is to be used was measured to be faster than no draft; "slower" where that is no draft itself."""
    use = settled(found)
    if use == NO_DRAFT:
        return "slower"
    return answer(found.check.arm(found.default if use == found.default else found.ran_as).speedup)
