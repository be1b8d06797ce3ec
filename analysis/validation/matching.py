"""Which measured calls belong to which recorded texts, and whether both come from the same pair of models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oracle.records.runs import PLAIN, Call, Runs
from oracle.records.trace import Trace, iter_records

_SAME = ("weights_sample_sha256", "dtype")  # of target and draft


def check_same_models(trace: Trace, runs: Runs) -> None:
    """Raise ValueError where trace and runs are known to come from different weights or dtypes."""
    for role in ("target", "draft"):
        for name in _SAME:
            recorded, measured = ((meta.get(role) or {}).get(name) for meta in (trace.meta, runs.meta))
            if recorded and measured and recorded != measured:
                raise ValueError(
                    f"the trace is of a {role} with {name} {recorded}, the runs with {measured}; "
                    "collect and measure the same pair in the same dtype"
                )


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
    records = {record.id: record for record in iter_records(trace)}
    chosen = []
    for call in calls:
        record = records.get(call.id)
        if record is None:
            raise ValueError(
                f"prompt {call.id!r} was measured but is not in the trace; collect and measure the same prompts"
            )
        if not np.array_equal(record.prompt_tokens, call.prompt_tokens):
            raise ValueError(f"prompt {call.id!r} has other tokens in the trace than in the runs; collect it again")
        if record.max_new_tokens != call.max_new_tokens:
            limits = f"{record.max_new_tokens} in the trace, {call.max_new_tokens} in the runs"
            raise ValueError(f"prompt {call.id!r}: max_new_tokens is {limits}; collect and measure with the same limit")
        chosen.append(record)
    return Trace.from_records(chosen, trace.meta)
