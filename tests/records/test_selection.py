"""A trace taken in parts is the trace."""

import numpy as np
import pytest
from builders.runs import some_trace

from oracle.records.selection import parts
from oracle.records.trace import chain, iter_records, oracle_positions


@pytest.mark.parametrize("tokens", [1, 60, 100, 10_000])
def test_parts_hold_the_same_records_in_order(tokens):
    whole = some_trace(prompts=5)  # texts of 60, 57, 54, 51 and 48 tokens
    cut = list(parts(whole, tokens))
    assert [part.prompts for part in cut] == {1: [1] * 5, 60: [1] * 5, 100: [1, 1, 1, 2], 10_000: [5]}[tokens]
    again = [record for part in cut for record in iter_records(part)]
    for one, other in zip(iter_records(whole), again, strict=True):
        for name, value in vars(one).items():
            if name.startswith("overrun_") and name != "overrun_position":
                assert len(value) == len(getattr(other, name)) and all(map(np.array_equal, value, getattr(other, name)))
            else:
                assert np.array_equal(value, getattr(other, name)), name


def test_parts_are_views():
    whole = some_trace(prompts=3)
    for part in parts(whole, 60):
        assert np.shares_memory(part.target_tokens, whole.target_tokens)
        assert np.shares_memory(part.overruns.tokens, whole.overruns.tokens)


@pytest.mark.parametrize("hits", [0.0, 0.5, 0.9, 1.0])
def test_oracle_iterations_begin_after_each_disagreement(hits):
    trace = some_trace(prompts=4, size=30, hits=hits)
    assert oracle_positions(trace).tolist() == chain(trace.offsets, trace.accepted_run + 1).tolist()
