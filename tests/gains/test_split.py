"""Gains beside their nulls: shuffled traces are replayed exactly, and the split of the oracle's gain adds up."""

import dataclasses

import numpy as np
import pytest
from builders.runs import some_trace
from builders.synthetic import synthetic
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.gains.rearranged import coin_orders, halves, movable, rearranged, whole_orders, within_orders
from analysis.gains.split import HELD_OUT, HINDSIGHT, TOKENS, gains
from analysis.replay.oracles import OPTIMAL, ORACLES
from analysis.replay.simulate import simulate, simulate_totals
from oracle.records.trace import Trace

COST = CostModel(draft=0.2, verify=((1, 1.0), (4, 1.3)), verify_context=0.001, iteration=0.05)
RNG = np.random.default_rng(3)
POLICIES = ["constant:tokens=3", "constant:tokens=20", *ORACLES]


def test_a_trace_in_its_own_order_costs_what_it_costs():
    whole = some_trace()
    again = rearranged(whole, np.tile(np.arange(whole.tokens), (2, 1)))
    for policy in POLICIES:
        seconds = simulate(whole, policy, COST).prompt_seconds
        assert np.array_equal(simulate(again, policy, COST).prompt_seconds, np.tile(seconds, 2))


def test_a_moved_token_takes_along_what_the_draft_said_after_it():
    # Two misses whose overruns differ in length, and one of which ends in EOS: drafting stops there.
    source = trace(pattern("-+-++", overruns={0: [(5, 0.5), (0, 0.5)], 2: [(6, 0.5)]}))
    moved = rearranged(source, np.array([[2, 1, 0, 3, 4]]))
    assert moved.overruns.position.tolist() == [0, 2]
    assert moved.overruns.offsets.tolist() == [0, 1, 3] and moved.overruns.tokens.tolist() == [6, 5, 0]
    assert moved.agrees.tolist() == [False, True, False, True, True]
    # From place 0 the draft says a miss, 6, and then nothing is known; before, it stopped at the EOS, its third token.
    assert (
        simulate(source, "constant:tokens=4").drafted[0] == 3 and simulate(moved, "constant:tokens=4").drafted[0] == 4
    )


@pytest.mark.parametrize("orders", [whole_orders, within_orders])
def test_shuffles_keep_every_token_and_the_last_of_each_text(orders):
    whole = some_trace()
    found = orders(whole, 3, RNG)
    last = whole.offsets[1:] - 1
    assert np.array_equal(np.sort(found, axis=1), np.tile(np.arange(whole.tokens), (3, 1)))
    assert np.array_equal(found[:, last], np.tile(last, (3, 1))) and len(np.unique(found, axis=0)) == 3
    within = np.array_equal(whole.prompt_of[found], np.tile(whole.prompt_of, (3, 1)))
    assert within == (orders is within_orders)


def test_coins_fall_as_often_as_they_are_asked_to():
    whole = synthetic(200)
    low, high = coin_orders(whole, np.array([0.3, 0.6]), 2, RNG)
    free = movable(whole)
    for orders, rate in ((low, 0.3), (high, 0.6)):
        assert whole.agrees[orders][:, free].mean() == pytest.approx(rate, abs=0.01)
    # The same random numbers: a token that agrees at the lower rate does so at the higher one.
    assert np.all(whole.agrees[high] | ~whole.agrees[low])


def test_halves_are_texts_of_their_own():
    source = trace(pattern("++-+++", limit=8), pattern("+-+", index=1))
    cut = halves(source)
    assert cut.offsets.tolist() == [0, 3, 6, 7, 9] and cut.max_new_tokens.tolist() == [3, 5, 1, 2]
    assert np.diff(cut.prompt_offsets).tolist() == [3, 6, 3, 4]  # the first half has become context
    assert np.array_equal(cut.context, source.context)
    assert cut.run.tolist() == [2, 1, 0, 3, 2, 1, 1, 0, 1]  # a run ends with its half


def test_the_split_adds_up_and_is_that_of_the_replay():
    whole, cost = some_trace(prompts=6), CostModel(draft=0.2)
    found = gains(whole, cost)
    assert found.split.coin.value + found.split.between.value + found.split.within.value == pytest.approx(
        found.of_kind("oracle:optimal").gain.value
    )
    assert found.split.beyond.value == pytest.approx(found.split.between.value + found.split.within.value)
    totals = dict(simulate_totals(whole, [f"constant:tokens={k}" for k in range(1, 9)], cost))
    best = min(each.prompt_seconds.sum() for each in totals.values())
    for oracle in ORACLES:
        expected = best / simulate(whole, oracle, cost).prompt_seconds.sum() - 1
        assert found.of_kind(oracle).gain.value == pytest.approx(expected)


def agreements(rows) -> Trace:
    """A trace of texts of one length whose tokens agree so, bool [P, T]."""
    size = rows.size
    base = synthetic(len(rows), rows.shape[1])
    wrong = np.flatnonzero(~rows.ravel())
    draft = np.where(rows.ravel(), base.target_tokens, 1000).astype(np.int32)
    over = dataclasses.replace(
        base.overruns, position=wrong, offsets=np.zeros(len(wrong) + 1, int), tokens=np.zeros(0, np.int32)
    )
    assert len(draft) == size
    return dataclasses.replace(base, draft_tokens=draft, overruns=over)


def test_where_texts_are_all_right_or_all_wrong_everything_lies_between_them():
    rows = np.repeat(np.arange(20)[:, None] % 2 == 0, 32, axis=1)
    split = gains(agreements(rows), CostModel(draft=0.2)).split
    assert split.within.value == pytest.approx(0) and split.between.low > 0
    # Shuffling within a text that is all right or all wrong changes nothing.
    assert split.within.low == pytest.approx(0) and split.within.high == pytest.approx(0)


def test_where_all_texts_are_alike_nothing_lies_between_them():
    rows = np.tile(np.arange(32) % 16 < 8, (20, 1))  # eight right, eight wrong, everywhere
    found = gains(agreements(rows), CostModel(draft=0.2))
    assert found.split.within.low > 0 and abs(found.split.between.value) < 0.1 * found.split.within.value
    # The best constant of each text is the same one: there is nothing to choose, with hindsight or without.
    assert found.of_kind(HINDSIGHT).gain.value == 0 and found.of_kind(HELD_OUT).gain.value == 0
    assert found.of_kind(HINDSIGHT).whole.mean > 0 > found.of_kind(HELD_OUT).whole.mean


def test_a_constant_for_each_text_is_judged_on_the_half_that_did_not_choose_it():
    # Easy and hard texts: each half says which, so what it chooses holds for the other one.
    easy = np.repeat(np.arange(30)[:, None] % 2 == 0, 64, axis=1)
    rows = np.random.default_rng(0).random(easy.shape) < np.where(easy, 0.97, 0.2)
    found = gains(agreements(rows), CostModel(draft=0.3))
    held = found.of_kind(HELD_OUT)
    assert held.gain.low > 0.05 and held.gain.value > held.whole.high
    assert found.of_kind(HINDSIGHT).gain.value >= held.gain.value


def test_a_large_trace_is_taken_in_a_sample_and_says_so():
    found = gains(synthetic(3 * TOKENS // 128), CostModel(draft=0.1))
    assert found.of == 3 * TOKENS // 128 and found.prompts * 128 < 1.1 * TOKENS and found.prompts > found.of // 4


def test_what_cannot_be_shuffled_has_no_gains():
    assert gains(trace(pattern("+")), CostModel(draft=0.1)) is None  # one token, the target's own


def test_the_part_between_a_few_prompts_has_no_interval():
    few, enough = (gains(synthetic(prompts), CostModel(draft=0.1)).split for prompts in (9, 10))
    assert np.isnan(few.between.low) and np.isfinite(few.within.low) and np.isfinite(enough.between.low)


def test_no_part_of_fewer_than_five_prompts_has_an_interval():
    few, enough = (gains(synthetic(prompts), CostModel(draft=0.1)).split for prompts in (4, 5))
    for part in ("coin", "within", "beyond"):
        assert np.isnan(getattr(few, part).low) and np.isfinite(getattr(few, part).value)
        assert np.isfinite(getattr(enough, part).low)


def test_one_prompt_has_gains_without_intervals():
    found = gains(trace(pattern("++-+++-+")), CostModel(draft=0.1))
    assert np.isnan(found.split.beyond.low) and np.isfinite(found.split.beyond.value)


def test_texts_that_are_always_right_have_no_coin_to_vary():
    found = gains(agreements(np.ones((4, 16), bool)), CostModel(draft=0.1))
    assert found.split.between.value == found.split.within.value == 0


def test_what_cannot_be_slower_has_no_interval_that_says_so():
    found = gains(trace(pattern("+++++++-++++-+++"), pattern("+-+-+--+-+++--++", index=1)), CostModel(draft=0.1))
    for what in (OPTIMAL, HINDSIGHT):
        assert 0 <= found.of_kind(what).gain.low <= found.of_kind(what).gain.value
    assert found.of_kind("oracle:detect").gain.low < 0  # it drafts also where that does not pay
