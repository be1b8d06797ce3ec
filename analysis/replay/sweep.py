"""Which settings of transformers' assisted generation do best on a trace, and the lines that set them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.cost import CostModel
from analysis.replay.simulate import SimulationResult, simulate
from oracle.policies.rules import Constant, Dynamic, Heuristic, HeuristicTransient, Policy, parse
from oracle.records.trace import Trace

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20)
CAPS = (5, 10, 20)
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# The library's schedules by the policy that replays them; the threshold works under each of them.
SCHEDULES = {
    Constant: "constant",
    Dynamic: "constant",
    Heuristic: "heuristic",
    HeuristicTransient: "heuristic_transient",
}


@dataclass(frozen=True)
class Sweep:
    """The results of many library policies on one trace, best first."""

    results: tuple[SimulationResult, ...]
    left_out: tuple[str, ...]  # policies that read what the trace does not hold

    @property
    def best(self) -> SimulationResult:
        return self.results[0]

    def best_constant(self) -> SimulationResult:
        """The best of the plain constant lengths."""
        return next(result for result in self.results if result.policy.startswith("constant"))


def library_policies() -> list[str]:
    """The constants, heuristics and thresholds that are tried."""
    return [
        *(f"constant:tokens={tokens}" for tokens in LENGTHS),
        *(f"{name}:tokens=5" for name in ("heuristic", "heuristic_transient")),
        *(f"dynamic:threshold={threshold},tokens={cap}" for cap in CAPS for threshold in THRESHOLDS),
    ]


def sweep(trace: Trace, cost: CostModel, policies: Sequence[str] | None = None) -> Sweep:
    """Simulate ``policies`` (default: `library_policies`) and order them by speedup.  ValueError for an unknown one."""
    results, left_out = [], []
    for policy in library_policies() if policies is None else policies:
        rule = parse(policy)
        try:
            results.append(dataclasses.replace(simulate(trace, rule, cost), policy=policy))
        except ValueError:  # all that a policy once parsed can meet: it reads what the trace does not hold
            left_out.append(policy)
    return Sweep(tuple(sorted(results, key=lambda result: -result.speedup)), tuple(left_out))


def assistant_settings(policy: Policy) -> str:
    """Python lines that make transformers' assisted generation follow ``policy``, one of `SCHEDULES`' kinds.

    The library reads these from the draft's generation_config only; given to ``generate`` they are ignored.  A
    threshold of None means 0.4 there, so 0.0 is written out.
    """
    if type(policy) not in SCHEDULES:
        names = ", ".join(kind.__name__ for kind in SCHEDULES)
        raise ValueError(f"{policy} is not a policy of transformers' own; those are {names}")
    return "\n".join(
        f"assistant_model.generation_config.{name} = {value!r}"
        for name, value in (
            ("num_assistant_tokens", policy.tokens),
            ("num_assistant_tokens_schedule", SCHEDULES[type(policy)]),
            ("assistant_confidence_threshold", float(policy.threshold)),
        )
    )
