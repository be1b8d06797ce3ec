"""Where the time goes, and what would make a draft pay."""

import numpy as np
import pytest
from builders.runs import some_trace
from builders.synthetic import synthetic
from builders.traces import pattern, trace

from analysis.closed_form import break_even_acceptance
from analysis.cost import CostModel, iid_speedup
from analysis.gains.loss import break_even, iteration, loss
from analysis.replay.simulate import simulate
from analysis.replay.sweep import LENGTHS


def test_the_time_of_an_iteration_by_hand():
    # Texts of four: drafts of 2, 0 from "+--+": (2 drafted, 1 accepted), (1 drafted, 0 accepted), (none left).
    source = trace(pattern("+--+"))
    cost = CostModel(draft=0.5, verify=((1, 1.0), (3, 2.0)), iteration=0.25)
    result = simulate(source, "constant:tokens=2", cost)
    assert list(zip(result.drafted, result.accepted, strict=True)) == [(2, 1), (1, 0), (0, 0)]
    found = iteration(source, result)
    assert found.tokens == pytest.approx(4 / 3)
    assert found.draft == pytest.approx(1.5 / 3) and found.wasted == pytest.approx((0.5 + 0.5) / 3)
    assert found.verification == pytest.approx((2 + 1.5 + 1) / 3) and found.overhead == pytest.approx(0.25)
    assert found.total == pytest.approx(result.seconds.sum() / 3)


def test_at_the_draft_cost_that_breaks_even_the_best_constant_just_pays():
    source, cost = some_trace(prompts=6), CostModel(draft=1.5, iteration=0.1)
    found = break_even(source, cost)
    assert found.draft_cost == pytest.approx(1.5)
    at = CostModel(draft=found.draft_cost_needed, iteration=0.1)
    speedups = {f"constant:tokens={k}": simulate(source, f"constant:tokens={k}", at).speedup for k in LENGTHS}
    assert max(speedups.values()) == pytest.approx(1) and speedups[found.by] == pytest.approx(1)


def test_some_prices_cannot_be_mended():
    source = synthetic(5, acceptance=0.3)
    dear = CostModel(draft=0.1, verify=((1, 1.0), (2, 30.0)))
    found = break_even(source, dear)
    assert found.draft_cost_needed is None and found.by is None and found.acceptance_needed is None


def test_a_draft_that_is_never_right_pays_at_no_price():
    found = break_even(trace(pattern("-" * 39 + "+")), CostModel(draft=0.1))
    assert found.draft_cost_needed is None and found.by is None


@pytest.mark.parametrize("draft", [0.3, 0.7, 0.9])
def test_at_the_acceptance_that_breaks_even_the_formula_gives_one(draft):
    cost = CostModel(draft=draft, verify=((1, 1.0), (9, 1.2)), iteration=0.02)
    found = break_even_acceptance(cost, LENGTHS)
    assert max(iid_speedup(found, tokens, cost) for tokens in LENGTHS) == pytest.approx(1)


def test_the_time_is_taken_apart_without_leaving_anything_with_the_trace():
    source = some_trace()
    before = set(vars(source))
    found = loss(source, "constant:tokens=2", CostModel(draft=2.0))
    assert set(vars(source)) == before and found.iteration.policy == "constant:tokens=2"
    assert np.isfinite(found.break_even.draft_cost_needed)
