import dataclasses

import numpy as np
import pytest
from builders.runs import fake_runs, some_trace

from analysis.measured.against import best_constant, clocked, faster
from analysis.measured.speedups import summary
from oracle.records.runs import Runs


def stretched(seconds):
    """Runs of three prompts whose calls take what ``seconds[policy]`` says, float [prompt][repeat]."""
    runs = fake_runs(some_trace(3, size=20), [name for name in seconds if name != "none"], repeats=3)
    calls = tuple(
        dataclasses.replace(call, total_seconds=float(seconds[call.policy][call.prompt][call.repeat]))
        for call in runs.calls
    )
    return dataclasses.replace(runs, calls=calls)


SECONDS = {
    "none": [[9, 9, 9]] * 3,
    "constant:tokens=2": [[4, 4, 40], [2, 2, 2], [6, 6, 6]],  # one call was disturbed: the median is 4
    "dynamic": [[2, 2, 2], [1, 1, 1], [3, 9, 3]],
}


def test_two_policies_are_compared_by_each_prompts_median_over_the_repeats():
    runs = stretched(SECONDS)
    found = faster(clocked(runs, "constant:tokens=2"), clocked(runs, "dynamic"))
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))
    assert best_constant(summary(runs)) == "constant:tokens=2"


def test_plain_decoding_is_the_baseline_where_no_constant_ran():
    runs = fake_runs(some_trace(), ["dynamic", "heuristic"])
    assert best_constant(summary(runs)) == "none"
    mine = dataclasses.replace(summary(runs)[0], policy="my file.py:Rule")
    assert best_constant([mine]) == "none"


def test_only_prompts_that_both_have_finished_are_compared():
    runs = stretched(SECONDS)
    fewer = Runs(runs.meta, tuple(c for c in runs.calls if (c.policy, c.prompt, c.repeat) != ("dynamic", 2, 1)))
    assert clocked(fewer, "dynamic").ids == ("p0", "p1")
    assert faster(clocked(fewer, "constant:tokens=2"), clocked(fewer, "dynamic")).value == 2
    none = Runs(runs.meta, tuple(call for call in runs.calls if call.repeat != 1))
    with pytest.raises(ValueError, match="no prompt is finished in every repeat"):
        clocked(none, "dynamic")
    first = clocked(fewer, "dynamic").only(["p0"])
    with pytest.raises(ValueError, match="no prompt is finished by both"):
        faster(first, clocked(fewer, "dynamic").only(["p1"]))


def test_texts_of_different_length_are_compared_by_the_token():
    """Twice the tokens in the same seconds: twice as fast."""
    one = clocked(stretched(SECONDS), "dynamic")
    longer = dataclasses.replace(one, tokens=2 * one.tokens)
    assert faster(one, longer).value == pytest.approx(2)
    assert np.array_equal(longer.only(one.ids).seconds, one.seconds)
