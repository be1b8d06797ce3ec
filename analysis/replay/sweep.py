"""Which settings of transformers' assisted generation do best on a trace."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.cost import CostModel
from analysis.replay.drafts import NotRecorded
from analysis.replay.paired import HeldOut, held_out, may_be_best
from analysis.replay.result import SimulationResult, Totals
from analysis.replay.simulate import simulate, simulate_totals
from oracle.policies import parse
from oracle.policies.library import fixed_length
from oracle.records.trace import Trace

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)
CAPS = (5, 10, 20)
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Sweep:
    """What many library policies cost on one trace, best first."""

    trace: Trace
    cost: CostModel
    results: tuple[Totals, ...]
    left_out: tuple[str, ...]  # policies that read what the trace does not hold

    @functools.cached_property
    def best(self) -> SimulationResult:
        return simulate(self.trace, self.results[0].policy, self.cost)

    @functools.cached_property
    def may_be_best(self) -> tuple[Totals, ...]:
        """Those that these prompts do not tell apart from the best one, best first."""
        return may_be_best(self.results)

    def constants(self) -> list[Totals]:
        """Those of fixed lengths, best first."""
        return [result for result in self.results if fixed_length(parse(result.policy)) is not None]

    def best_constant(self) -> Totals:
        """The best of the fixed lengths."""
        found = self.constants()
        if not found:
            raise ValueError("no policy of a fixed length was swept; add one, such as constant:tokens=5")
        return found[0]


def constants() -> list[str]:
    """The policies of a fixed length that are tried."""
    return [f"constant:tokens={tokens}" for tokens in LENGTHS]


def library_policies() -> list[str]:
    """The constants, heuristics and thresholds that are tried."""
    return [
        *constants(),
        *(f"{name}:tokens=5" for name in ("heuristic", "heuristic_transient")),
        *(f"dynamic:threshold={threshold},tokens={cap}" for cap in CAPS for threshold in THRESHOLDS),
    ]


def sweep(trace: Trace, cost: CostModel, policies: Sequence[str] | None = None) -> Sweep:
    """Simulate ``policies`` (default: `library_policies`) and order them by speedup.  ValueError for an unknown one."""
    tried = library_policies() if policies is None else list(policies)
    numbered = dict(simulate_totals(trace, tried, cost))
    found = {policy: numbered[number] for number, policy in enumerate(tried)}
    results = [result for result in found.values() if not isinstance(result, NotRecorded)]
    left_out = tuple(policy for policy, result in found.items() if isinstance(result, NotRecorded))
    return Sweep(trace, cost, tuple(sorted(results, key=lambda result: -result.speedup)), left_out)


@dataclass(frozen=True)
class Baseline:
    """What other policies are compared with."""

    totals: Totals
    tried: int  # constant lengths of which it is the best on these prompts; 0: it was named, or no constant is recorded
    held_out: HeldOut | None  # the best of them on prompts that did not choose it; None: too few, or named

    @property
    def policy(self) -> str:
        return self.totals.policy


def baseline(trace: Trace, cost: CostModel, policy: str | None = None) -> Baseline:
    """``policy``, by default the best of `constants` on this trace.

    Plain decoding where the record is too short for every one of them.  Raises ValueError for an unknown policy,
    `NotRecorded` for one that reads what the trace does not hold.
    """
    found = () if policy is not None else sweep(trace, cost, constants()).results
    if not found:
        return Baseline(simulate(trace, policy or "none", cost).totals, 0, None)
    return Baseline(found[0], len(found), held_out(found))
