"""Which measured calls belong to which recorded texts."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.belonging import difference
from oracle.records.runs import PLAIN, Call, Runs
from oracle.records.trace import Trace, iter_records


def complete(runs: Runs, policy: str) -> tuple[list[list[Call]], list[list[Call]]]:
    """For each prompt that both arms finished in every repeat: the policy's calls and the plain ones, by repeat.

    A state that carries over needs every prompt before its own, so the list ends with the first that is not complete.
    Raises ValueError where there is none.
    """
    arms = [_by_prompt(runs, arm) for arm in (policy, PLAIN)]
    prompt = 0
    while all(len(arm.get(prompt, ())) == runs.repeats for arm in arms):
        prompt += 1
    if prompt == 0:
        raise ValueError(f"policy {policy!r}: no prompt is finished in every repeat; `oracle measure --resume` goes on")
    calls, plain = ([arm[number] for number in range(prompt)] for arm in arms)
    return calls, plain


def _by_prompt(runs: Runs, arm: str) -> dict[int, list[Call]]:
    found: dict[int, list[Call]] = {}
    for call in runs.of(arm):
        found.setdefault(call.prompt, []).append(call)
    return found


def match(trace: Trace, calls: Sequence[Call]) -> Trace:
    """The part of ``trace`` that belongs to these calls, in order.  Raises ValueError where it holds others."""
    place = {name: number for number, name in enumerate(trace.ids)}
    for call in calls:
        if reason := difference(trace, place.get(call.id), call):
            raise ValueError(reason)
    records = {record.id: record for record in iter_records(trace)}
    return Trace.from_records([records[call.id] for call in calls], trace.meta)
