"""Stops by hand, better drafts, and drafts side by side."""

import dataclasses

import numpy as np
import pytest
from builders.runs import COST, fake_runs, some_trace
from builders.synthetic import synthetic
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.diagnosis.causes import causes, stops
from analysis.diagnosis.check import check, over_all
from analysis.diagnosis.drafts import judge, rivals
from analysis.diagnosis.whatif import agreeing, scaled_draft, what_if
from analysis.measured.calibrate import FIT, calibrate
from analysis.measured.speedups import measured
from analysis.replay.simulate import simulate


def test_stops_by_hand():
    # Of "+++-++" with two tokens each: both accepted, and a third would have been; both refused; the last one accepted.
    source = trace(pattern("+++-++", overruns={3: [(1, 0.9)] * 4}))
    result = simulate(source, "constant:tokens=2", CostModel(draft=0.1))
    assert list(zip(result.drafted, result.accepted, strict=True)) == [(2, 2), (2, 0), (1, 1)]
    found = stops(source, result)
    assert found.early == pytest.approx(1 / 3) and found.missed == 1
    assert found.late == pytest.approx(1 / 3) and found.wasted == 2
    one = stops(source, simulate(source, "constant:tokens=1", CostModel(draft=0.1)))
    # One token each: accepted, where two more would have been; accepted, before the miss; accepted, the last one.
    assert one.early == pytest.approx(1 / 3) and one.missed == 2 and one.late == 0 and one.wasted == 0


def test_causes_are_those_of_the_replay():
    source = some_trace()
    found, result = causes(source, "dynamic", COST), simulate(source, "dynamic", COST)
    assert found.speedup.value == pytest.approx(result.speedup)
    assert found.iteration.total == pytest.approx(
        found.iteration.tokens / result.speedup
    )  # steps an iteration takes, over tokens it yields: the time of a token
    assert found.ceiling.value >= found.speedup.value
    assert found.acceptance == pytest.approx(source.agrees.mean())


def test_a_draft_that_agrees_more_often_has_that_share_and_its_own_overruns_left():
    source = synthetic(6, acceptance=0.6)
    better = agreeing(source, 0.8)
    assert better.agrees.mean() == pytest.approx(0.8, abs=1e-3)
    assert (better.agrees | ~source.agrees).all()  # nothing right became wrong
    assert better.overruns.position.tolist() == np.flatnonzero(~better.agrees).tolist()
    at = int(better.overruns.position[5])
    row, mine = np.flatnonzero(source.overruns.position == at)[0], 5
    before = source.overruns.tokens[source.overruns.offsets[row] : source.overruns.offsets[row + 1]]
    after = better.overruns.tokens[better.overruns.offsets[mine] : better.overruns.offsets[mine + 1]]
    assert np.array_equal(before, after)


def test_better_drafts_are_faster_and_as_much_as_their_prices_say():
    source, cost = synthetic(8, acceptance=0.7), CostModel(draft=0.4, draft_first=0.5, iteration=0.05)
    found = what_if(source, cost)
    assert found.now.value < found.twice_as_fast.value and found.now.value < found.more_accurate.value
    assert found.acceptance_then == pytest.approx(1.1 * found.acceptance)
    assert scaled_draft(cost, 0.5) == CostModel(draft=0.2, draft_first=0.25, iteration=0.05)


def test_the_better_of_two_drafts_is_named_and_a_twin_is_not_told_apart():
    source, cost = some_trace(prompts=12, hits=0.8), CostModel(draft=0.1)
    worse = some_trace(prompts=12, hits=0.3)
    name, (rival,) = rivals([judge("bad", worse, cost), judge("good", source, cost)])
    assert name == "good" and rival.name == "bad" and rival.told_apart
    twin = judge("twin", source, cost)
    name, (rival,) = rivals([judge("good", source, cost), twin])
    assert rival.best_over_it.value == pytest.approx(1) and not rival.told_apart


def test_few_prompts_have_no_interval():
    source, cost = some_trace(prompts=3), CostModel(draft=0.1)
    _, (rival,) = rivals([judge("a", source, cost), judge("b", some_trace(prompts=3, hits=0.3), cost)])
    assert np.isnan(rival.best_over_it.low) and not rival.told_apart


def test_the_check_confirms_a_replay_at_the_very_prices_that_the_runs_cost():
    source = some_trace(prompts=8)
    cost = calibrate(fake_runs(source, list(FIT))).cost
    roles = {"dynamic": "library's default", "constant:tokens=3": "recommended"}
    runs = fake_runs(source, list(roles), repeats=1)
    found = check(source, runs, cost, roles, "constant:tokens=3")
    assert [each.policy for each in found.arms] == ["none", *roles]
    assert abs(found.error.value) < 0.01 and found.verdict == "pass"
    assert found.arm("constant:tokens=3").speedup == measured(runs, "constant:tokens=3").total
    assert found.arm("dynamic").over_default.value == pytest.approx(1)
    assert found.closer[1] > found.prompts


def test_speedups_of_two_runs_are_put_together_prompt_by_prompt():
    first, second = some_trace(prompts=4, seed=1), some_trace(prompts=3, seed=2)
    runs = [fake_runs(each, ["dynamic"], repeats=repeats) for each, repeats in ((first, 1), (second, 3))]
    found, prompts = over_all(runs, "dynamic")
    plain, with_draft = (
        sum(call.total_seconds for one in runs for call in one.of(policy) if call.repeat == 0)
        for policy in ("none", "dynamic")
    )
    assert prompts == 7 and found.value == pytest.approx(plain / with_draft)
    slower = dataclasses.replace(runs[0], calls=runs[0].calls)
    assert over_all([slower], "dynamic")[1] == 4
