"""A pair run for real and replayed from its trace, iteration by iteration, whatever drafts and whichever loop runs."""

from __future__ import annotations

import numpy as np

from analysis.replay.simulate import replay
from oracle.collect import collect
from oracle.generate import assisted, library_settings
from oracle.loop import draft_and_verify
from oracle.policies import parse
from oracle.policies.contract import after_prompt
from oracle.policies.library import state_left
from oracle.records.trace import Trace
from oracle.timing import Clock

COLUMNS = ("position", "drafted", "accepted")


def recorded(pair, folder, prompts, limit):
    collect(pair, prompts, folder, max_new_tokens=limit, max_overrun=64)
    return Trace.load(folder)


def ran(pair, trace, text):
    """(prompt, position, drafted, accepted) of every iteration of a real run, by the library wherever it can.

    Asserts on the way that each text is the trace's.
    """
    policy = parse(text)
    state, rows = policy.start(1), []
    for number in range(trace.prompts):
        prompt = trace.prompt_tokens[trace.prompt_offsets[number] : trace.prompt_offsets[number + 1]]
        options = {"max_new_tokens": int(trace.max_new_tokens[number]), "clock": Clock()}
        settings = library_settings(pair, policy, state)
        if settings is None:
            seen, state = draft_and_verify(pair, prompt, policy, state, **options)
        else:
            seen = assisted(pair, prompt, settings, **options)
            state = state_left(policy, state, seen.tokens_after, len(seen.iterations["drafted"]))
        state = after_prompt(policy, state)
        assert seen.tokens.tolist() == trace.target_tokens[trace.offsets[number] : trace.offsets[number + 1]].tolist()
        rows += [(number, *row) for row in zip(*(seen.iterations[name].tolist() for name in COLUMNS), strict=True)]
    return rows


def replayed(trace, text):
    """The same rows from the trace alone."""
    at, drafted, _, _ = replay(trace, parse(text))
    prompt = trace.prompt_of[at]
    columns = (prompt, at - trace.offsets[prompt], drafted, np.minimum(drafted, trace.accepted_run[at]))
    return list(zip(*(column.tolist() for column in columns), strict=True))
