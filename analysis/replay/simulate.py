"""Exact replay: walk each text as the real generator would under a policy, and price every iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from analysis.belonging import together
from analysis.cost import DEFAULT_DRAFT, CostModel
from analysis.replay.drafts import Book, NotRecorded
from analysis.replay.lanes import Rows, walk
from analysis.replay.oracles import OPTIMAL, ORACLES, is_oracle
from analysis.replay.result import SimulationResult
from analysis.replay.together import walk_all
from oracle.policies import POLICIES, USUAL, Policy, as_policy
from oracle.policies.counting import Plain
from oracle.policies.names import name_of, suggest
from oracle.records.trace import Trace, chain

__all__ = [
    "USUAL",
    "NotRecorded",
    "SimulationResult",
    "check_policies",
    "known_policies",
    "replay",
    "simulate",
    "simulate_all",
    "simulate_each",
]


def simulate(trace: Trace, policy: str | Policy | Callable, cost: CostModel | None = None) -> SimulationResult:
    """Replay ``policy`` over every text of ``trace`` and price it with ``cost`` (default: a draft step of 0.1).

    ``policy`` is its text (``dynamic:threshold=0.4``, ``oracle:detect``, ``my.py:MyRule:tokens=3``), an object, or a function
    ``stop(signals)``.  Raises ValueError for a policy that is not known or reads what the trace does not hold, and for prices
    of another pair; `NotRecorded` where it would need more overrun than the trace recorded.
    """
    found = simulate_all(trace, [policy], cost)[0]
    if isinstance(found, NotRecorded):
        raise found
    return found


def simulate_all(
    trace: Trace, policies: Sequence[str | Policy | Callable], cost: CostModel | None = None
) -> list[SimulationResult | NotRecorded]:
    """`simulate` of each policy, in order; of those that the record is too short for, the error."""
    found = dict(simulate_each(trace, policies, cost))
    return [found[number] for number in range(len(policies))]


def simulate_each(
    trace: Trace, policies: Sequence[str | Policy | Callable], cost: CostModel | None = None
) -> Iterator[tuple[int, SimulationResult | NotRecorded]]:
    """The same one by one, as (place in ``policies``, result) in any order: a large sweep need not hold every row.

    Policies that judge tokens alike share a scan of the trace, and of those the ones that differ in their cap only share
    a walk: a sweep of settings costs a fraction of as many calls of `simulate`.
    """
    pricing = _Pricing(trace, CostModel(draft=DEFAULT_DRAFT) if cost is None else cost)
    names = [name_of(policy) for policy in policies]
    oracles = {
        number: name for number, name in enumerate(names) if isinstance(policies[number], str) and is_oracle(name)
    }
    rules = {number: as_policy(policy) for number, policy in enumerate(policies) if number not in oracles}
    for number, name in oracles.items():
        yield number, pricing.result(name, _walk_oracle(trace, name, pricing.cost), None)
    for number, rows in walk_all(Book.of(trace), rules, pricing.cost):
        failed = isinstance(rows, NotRecorded)
        yield number, rows if failed else pricing.result(names[number], rows, type(rules[number]))


def replay(trace: Trace, policy: Policy, cost: CostModel | None = None) -> Rows:
    """The iterations of ``policy``, unpriced."""
    return walk(Book.of(trace), policy, cost)


def known_policies() -> list[str]:
    """Every name that ``simulate`` takes."""
    return [*POLICIES, *ORACLES]


def check_policies(policies: Sequence[str]) -> None:
    """Raise ValueError for a text that ``simulate`` does not take, before anything is computed."""
    for text in policies:
        if is_oracle(text.strip()):
            _check_oracle(text.strip())
        else:
            as_policy(text)


def _check_oracle(name: str) -> None:
    if name not in ORACLES:
        raise ValueError(f"unknown oracle {name!r}{suggest(name, ORACLES)}; legal: {', '.join(ORACLES)}")


def _walk_oracle(trace: Trace, name: str, cost: CostModel) -> Rows:
    _check_oracle(name)
    length = ORACLES[name](trace, cost)
    at = chain(trace.offsets, np.minimum(length, trace.accepted_run) + 1)
    return Rows(at, length[at], length[at], 0)


class _Pricing:
    """Prices of one trace, what does not depend on the policy worked out once."""

    def __init__(self, trace: Trace, cost: CostModel) -> None:
        together(trace, cost=cost).expect()
        self._trace, self.cost = trace, cost
        self._context, read = trace.context, np.diff(trace.prompt_offsets)
        self._step = np.asarray(cost.step(self._context))
        self._plain = np.bincount(trace.prompt_of, weights=self._step, minlength=trace.prompts)
        self._read, self._read_draft = read * cost.target_prefill, read * cost.draft_prefill

    def result(self, name: str, rows: Rows, kind: type[Policy] | None) -> SimulationResult:
        """``kind`` is the policy's class, None for an oracle."""
        trace, plain = self._trace, kind is Plain
        prompt = trace.prompt_of[rows.at]
        accepted = np.minimum(rows.drafted, trace.accepted_run[rows.at])
        seconds = self._step[rows.at] if plain else self.cost.round(rows.drafted, self._context[rows.at], rows.passes)
        if name == OPTIMAL:
            seconds = np.where(rows.drafted == 0, np.minimum(seconds, self._step[rows.at]), seconds)
        return SimulationResult(
            policy=name,
            cost=self.cost,
            prompt=prompt,
            position=rows.at - trace.offsets[prompt],
            drafted=rows.drafted,
            accepted=accepted,
            seconds=seconds,
            plain_seconds=self._plain,
            prefill_seconds=np.stack([self._read + (0 if plain else self._read_draft), self._read], axis=1),
            passes=rows.passes,
            unrecorded=rows.unrecorded,
        )
