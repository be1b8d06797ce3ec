"""The measured check of a setting, on prompts that had no part in choosing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.intervals import Estimate, ratio
from analysis.measured.against import clocked, faster
from analysis.measured.speedups import measured
from analysis.replay.enough import prompts_for, within
from analysis.validation.validate import Budget, validate
from oracle.records.runs import PLAIN, Runs
from oracle.records.trace import Trace

CLOSER = (0.05, 0.02, 0.01)  # how closely a speedup is wanted, the first of them that is not known yet


@dataclass(frozen=True)
class Arm:
    """One way of decoding, whole calls, the reading of the prompt included."""

    role: str  # "no draft", "the library's default", ...
    policy: str
    ms_per_token: float
    speedup: Estimate  # over no draft
    over_default: Estimate  # over the library's default, paired by prompt


@dataclass(frozen=True)
class Check:
    """All arms on the same prompts, in turns, and how far one of them is from what its replay foretold."""

    prompts: int
    repeats: int
    arms: tuple[Arm, ...]  # no draft first
    judged: str  # the policy whose prediction is judged
    predicted: Estimate  # its speedup, decoding alone: the replay of these prompts, at prices measured on others
    decoding: Estimate  # the same, measured
    error: Estimate  # predicted / measured - 1, paired by prompt
    verdict: str | None  # of the error under the validation budget: "pass", "fail", "undecided"; None: not judged
    within: float  # the judged speedup of whole calls is known to within this share; NaN for one prompt
    closer: tuple[float, int] | None  # a share that is wanted, and how many prompts would give it

    def arm(self, policy: str) -> Arm:
        """The arm of a policy.  Raises KeyError for one that did not run."""
        return {each.policy: each for each in reversed(self.arms)}[policy]


def check(
    trace: Trace, runs: Runs, cost: CostModel, roles: Mapping[str, str], judged: str, budget: Budget | None = None
) -> Check:
    """Compare runs of the policies in ``roles`` (policy -> role, the default first), and ``judged`` with its replay.

    The replay is of ``trace``, the same prompts, at the ``cost`` of other runs.  Raises ValueError where they do not
    belong together.
    """
    base = clocked(runs, next(iter(roles)))
    arms = [_arm(runs, PLAIN, "no draft", faster(base, clocked(runs, PLAIN)))]
    arms += [_arm(runs, policy, role, faster(base, clocked(runs, policy))) for policy, role in roles.items()]
    found = validate(trace, runs, cost, policies=[judged], budget=budget)
    if not found.rows:
        raise RuntimeError("; ".join(found.not_replayed))
    row, plain, mine = found.rows[0], clocked(runs, PLAIN), clocked(runs, judged)
    known = within(measured(runs, judged).total)
    return Check(
        prompts=len(plain.ids),
        repeats=runs.repeats,
        arms=tuple(arms),
        judged=judged,
        predicted=row.simulated,
        decoding=row.measured,
        error=row.error,
        verdict=row.verdict(found.budget),
        within=known,
        closer=_closer(known, plain.seconds, mine.seconds),
    )


def over_all(several: Sequence[Runs], policy: str) -> tuple[Estimate, int]:
    """The speedup of ``policy``, whole calls, over the prompts of all runs together, and how many these are."""
    above, below = [], []
    for runs in several:
        mine, plain = clocked(runs, policy), clocked(runs, PLAIN)
        plain = plain.only(mine.ids)
        above.append(plain.seconds * mine.tokens / plain.tokens)
        below.append(mine.seconds)
    first, second = np.concatenate(above), np.concatenate(below)
    return ratio(first, second), len(first)


def _arm(runs: Runs, policy: str, role: str, over: Estimate) -> Arm:
    calls = clocked(runs, policy)
    total = Estimate(1.0, 1.0, 1.0) if policy == PLAIN else measured(runs, policy).total
    return Arm(role, policy, 1000 * float(calls.seconds.sum() / calls.tokens.sum()), total, over)


def _closer(known: float, plain: np.ndarray, mine: np.ndarray) -> tuple[float, int] | None:
    for share in CLOSER:
        if not known <= share and (count := prompts_for(plain, mine, share)) is not None:
            return share, count
    return None
