"""Totals of a sweep, walked without rows, against the rows of every policy."""

import dataclasses

import numpy as np
import pytest
from builders.reference import random_trace
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.replay.drafts import NotRecorded
from analysis.replay.paired import may_be_best
from analysis.replay.simulate import simulate_all, simulate_totals
from analysis.replay.sweep import baseline, sweep
from oracle.policies import Policy

CURVE = ((1, 1.0), (4, 1.3), (9, 2.9))
COSTS = {
    "flat": CostModel(draft=0.1),
    "a curve": CostModel(0.1, draft_first=0.3, verify=CURVE, iteration=0.07, draft_prefill=0.2, target_prefill=0.4),
    "context": CostModel(0.1, draft_context=0.003, verify=CURVE, verify_context=0.007, plain=0.9),
}
TRACES = {
    "one text": dict(prompts=1, longest=200),
    "many": dict(prompts=40),
    "more lanes than one block": dict(prompts=700, longest=5),
    "short record": dict(prompts=25, longest=30, overrun=3),
}
POLICIES = [
    *(f"dynamic:threshold={threshold},tokens={cap}" for cap in (1, 2, 3, 5, 8, 13) for threshold in (0.0, 0.3, 0.7)),
    *(f"constant:tokens={cap}" for cap in range(1, 14)),
    *("kangaroo", "heuristic", "roc", "p-min:n_max=3", "none", "oracle:detect", "oracle:optimal"),
]


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("shape", TRACES.values(), ids=TRACES)
def test_totals_equal_the_rows_to_the_last_bit(shape, cost):
    t = random_trace(4, **shape)
    totals = dict(simulate_totals(t, POLICIES, cost))
    for number, expected in enumerate(simulate_all(t, POLICIES, cost)):
        found = totals.pop(number)
        if isinstance(expected, NotRecorded):
            assert isinstance(found, NotRecorded) and str(found) == str(expected)
            continue
        assert found.policy == expected.policy == POLICIES[number]
        for name in ("prompt_seconds", "plain_seconds", "prefill_seconds"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), (POLICIES[number], name)
        assert (found.speedup, found.total_speedup) == (expected.speedup, expected.total_speedup)
    assert not totals


def test_totals_by_hand():
    # "++-+" under a cap of two, sixteen texts: two drafted and accepted, then one left, drafted by none: 1.2 + 1.
    t = trace(*(pattern("++-+", index=index) for index in range(16)))
    (_, found), (_, other) = simulate_totals(t, ["constant:tokens=2", "constant:tokens=1"])
    assert found.prompt_seconds.tolist() == [1.2 + 1.0] * 16
    # One drafted and accepted, then one drafted and refused, then the last: 1.1 + 1.1 + 1.
    assert other.prompt_seconds.tolist() == [1.1 + 1.1 + 1.0] * 16
    assert found.speedup == pytest.approx(4 / 2.2)


def test_a_policy_of_ones_own_under_a_cap_is_not_mistaken_for_the_toolkits():
    from oracle.policies.thresholds import Below

    @dataclasses.dataclass(frozen=True)
    class Halved(Below):
        def send(self, passes, stopped, state):
            return passes // 2

    @dataclasses.dataclass(frozen=True)
    class Three(Policy):
        def budget(self, state):
            return 3

    t = random_trace(1, prompts=30)
    policies = [Halved(8, 0.2), "dynamic:threshold=0.2,tokens=8", Three()]
    totals = dict(simulate_totals(t, policies))
    for number, expected in enumerate(simulate_all(t, policies)):
        assert np.array_equal(totals[number].prompt_seconds, expected.prompt_seconds)
    assert totals[0].speedup != totals[1].speedup


def test_the_best_of_a_sweep_has_its_rows():
    t = random_trace(2, prompts=30, overrun=20)
    found = sweep(t, CostModel(draft=0.1))
    assert found.best.policy == found.results[0].policy and found.best.speedup == found.results[0].speedup
    assert found.best.tokens == t.tokens


def test_a_sweep_names_the_group_that_may_be_the_best():
    """Half the settings change nothing here, so one winner would be drawn by lot."""
    t = random_trace(2, prompts=30, overrun=20)
    found = sweep(t, CostModel(draft=0.1))
    assert found.may_be_best == may_be_best(found.results)
    assert found.may_be_best[0] is found.results[0] and found.results[-1] not in found.may_be_best
    assert 1 < len(found.may_be_best) < len(found.results)


def test_the_baseline_is_the_best_constant_unless_another_is_named():
    t, cost = random_trace(2, prompts=30, overrun=20), CostModel(draft=0.1)
    best, found = sweep(t, cost).best_constant(), baseline(t, cost)
    assert found.policy == best.policy and found.tried == 12
    assert np.array_equal(found.totals.prompt_seconds, best.prompt_seconds)
    assert found.held_out is not None and found.held_out.speedup.value <= best.speedup
    named = baseline(t, cost, "none")
    assert (named.totals.speedup, named.tried, named.held_out) == (1, 0, None)
