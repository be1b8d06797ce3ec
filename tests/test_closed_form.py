"""The closed forms for i.i.d. acceptance against published numbers, by hand, and against a simulation."""

import numpy as np
import pytest
from builders.synthetic import synthetic

from analysis.closed_form import (
    best_speedups,
    break_even_acceptance,
    break_even_draft_cost,
    oracles,
    predict,
    published,
)
from analysis.cost import CostModel, iid_speedup
from analysis.replay.simulate import simulate

CURVE = ((1, 1.0), (4, 1.1), (8, 1.4))


@pytest.mark.parametrize(
    ("acceptance", "draft", "best", "speedup"),
    [
        (0.58, 0.074, 3, 1.7279),
        (0.63, 0.065, 4, 1.9321),
        (0.9, 0.329, 5, 1.7715),
        (0.8, 0.05, 8, 3.0921),
        (0.3, 0.33, 0, 1.0),
        (0.0, 0.1, 0, 1.0),
    ],
)
def test_the_best_constant_lookahead(acceptance, draft, best, speedup):
    cost = CostModel(draft=draft)
    found = predict(acceptance, cost).best
    assert found.tokens == best and found.speedup == pytest.approx(speedup, abs=5e-5)
    each = [iid_speedup(acceptance, tokens, cost) for tokens in range(40)]
    assert int(np.argmax(each)) == best and max(each) == pytest.approx(speedup, abs=5e-5)


@pytest.mark.parametrize(
    ("acceptance", "draft", "detect", "clairvoyant"),
    [(0.58, 0.074, 2.0243, 2.1602), (0.9, 0.329, 2.3310, 2.5246), (0.0, 0.25, 0.8, 1.0)],
)
def test_the_oracles_with_flat_verification(acceptance, draft, detect, clairvoyant):
    found = predict(acceptance, CostModel(draft=draft))
    assert found.detect == pytest.approx(detect, abs=5e-5)
    assert found.clairvoyant == pytest.approx(clairvoyant, abs=5e-5)
    length = 1 / (1 - acceptance)
    assert found.detect == pytest.approx(1 / (1 / length + draft))
    assert found.clairvoyant == pytest.approx(length / (1 + draft * (length - 1)))


def test_the_oracles_weigh_a_verification_that_grows():
    # Half are refused at once, half go on: detect drafts 1, 2, 3, ... with chance 1/2, 1/4, 1/8, ...; a price of
    # 1 + 0.1 k + 0.2 k has the mean 1 + 0.3 x 2, clairvoyant's 1 + 0.3 x 1.
    detect, clairvoyant = oracles(0.5, CostModel(draft=0.1, verify=((1, 1.0), (2, 1.2))))
    assert detect == pytest.approx(2 / 1.6) and clairvoyant == pytest.approx(2 / 1.3)


def test_rows_are_those_of_the_textbook():
    cost = CostModel(draft=0.05, verify=CURVE, iteration=0.02)
    for row in predict(0.8, cost).rows:
        assert row.speedup == pytest.approx(iid_speedup(0.8, row.tokens, cost))
    # (1 - 0.8^6) / 0.2 = 3.68928 over 1.25 (six tokens are half-way from 1.1 to 1.4) + 5 x 0.05.
    assert predict(0.8, CostModel(draft=0.05, verify=CURVE), [5]).rows[0].speedup == pytest.approx(3.68928 / 1.5)


def test_break_even_is_where_the_best_lookahead_is_worth_plain_decoding():
    for cost in (CostModel(draft=0.2), CostModel(draft=0.05, verify=CURVE, draft_first=0.2, iteration=0.1)):
        dearest, least = break_even_draft_cost(0.7, cost), break_even_acceptance(cost)
        assert best_speedups(np.array([0.7]), np.array([dearest]), cost)[0, 0] == pytest.approx(1)
        assert best_speedups(np.array([least]), np.array([cost.draft]), cost)[0, 0] == pytest.approx(1)
    # Flat: one token pays as long as its price is below its chance, and no other length pays longer.
    assert break_even_draft_cost(0.7, CostModel(draft=0.2)) == pytest.approx(0.7)
    assert break_even_acceptance(CostModel(draft=0.2)) == pytest.approx(0.2)
    # A second token that costs 0.4 to verify leaves 0.8 - 0.4 for the draft.
    assert break_even_draft_cost(0.8, CostModel(draft=0.2, verify=((1, 1.0), (2, 1.4)))) == pytest.approx(0.4)


def test_break_even_may_be_nowhere():
    dear = CostModel(draft=0.1, verify=((1, 1.0), (2, 2.5)))  # two tokens cost more than two steps
    assert break_even_draft_cost(0.9, dear) is None and break_even_acceptance(dear) is None
    assert break_even_acceptance(CostModel(draft=0.0)) == 0


@pytest.mark.parametrize("acceptance", [-0.1, 1.0, float("nan")])
def test_an_acceptance_that_no_closed_form_holds_for_is_refused(acceptance):
    with pytest.raises(ValueError, match="from 0 to 0.999"):
        predict(acceptance, CostModel(draft=0.1))


def test_a_simulation_of_independent_acceptance_agrees():
    trace, cost = synthetic(60, length=2000, acceptance=0.75, max_overrun=8), CostModel(draft=0.1, verify=CURVE)
    expected = predict(0.75, cost, [5])
    assert simulate(trace, "constant:tokens=5", cost).speedup == pytest.approx(expected.rows[0].speedup, rel=0.01)
    assert simulate(trace, "oracle:detect", cost).speedup == pytest.approx(expected.detect, rel=0.01)
    assert simulate(trace, "oracle:clairvoyant", cost).speedup == pytest.approx(expected.clairvoyant, rel=0.01)


def test_the_published_table_beside_the_closed_form():
    found = {(row.data, row.policy): row for row in published()}
    assert len(found) == 12
    assert found["MBPP", "static tuned"].predicted == pytest.approx(1.7715, abs=5e-5)
    assert found["MBPP", "oracle"].predicted == pytest.approx(2.3310, abs=5e-5)
    assert found["Alpaca", "oracle"].error == pytest.approx(2.0243 / 2.38 - 1, abs=1e-4)
    tuned = [row.error for key, row in found.items() if key[1] == "static tuned"]
    assert min(tuned) == pytest.approx(-0.145, abs=1e-3) and max(tuned) == pytest.approx(0.188, abs=1e-3)


def test_a_table_of_drafting_phases_counts_as_the_steps_that_it_is_made_of():
    steps = CostModel(draft=0.2, draft_first=0.3)
    table = CostModel(draft=0.2, draft_phase=tuple((count, 0.1 + 0.2 * count) for count in (1, 4, 9)))
    assert break_even_draft_cost(0.8, table) == pytest.approx(break_even_draft_cost(0.8, steps))
    rates, prices = np.array([0.5, 0.8]), np.array([0.05, 0.4])
    assert best_speedups(rates, prices, table) == pytest.approx(best_speedups(rates, prices, steps))
    assert break_even_acceptance(table, context=3) == pytest.approx(break_even_acceptance(steps, context=3))
