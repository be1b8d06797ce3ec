"""What a rung says, by hand, and that shuffled texts keep their signals."""

import dataclasses

import numpy as np
import pytest
from builders.runs import some_trace
from builders.synthetic import synthetic
from builders.traces import pattern, trace
from builders.truths import known

from analysis.cost import CostModel
from analysis.gains.rearranged import with_signals, within_orders
from analysis.ladder.replays import CONSTANT, NONE, POLICY, Stood, per_prompt
from analysis.ladder.rungs import headroom_share, rung
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate, simulate_lengths
from oracle.policies.gains import pays_no_more
from oracle.records.flat import Flat

COST = CostModel(draft=0.25)


def totals(policy, seconds):
    seconds = np.array(seconds, float)
    return Totals(policy, np.full(len(seconds), 10.0), np.zeros((len(seconds), 2)), seconds)


def stood(seconds, constant=(4, 6), optimal=(2, 4)):
    fixed = None if constant is None else totals("c", constant)
    return Stood(totals("x", seconds), fixed, totals("oracle:optimal", optimal))


def test_the_share_is_time_saved_over_the_time_that_could_be():
    half = headroom_share(stood([3, 5]))  # half of what each text could save
    assert (half.value, half.low, half.high) == pytest.approx((0.5, 0.5, 0.5))
    assert headroom_share(stood([2, 4])).value == 1 and headroom_share(stood([4, 6])).value == 0
    assert headroom_share(stood([6, 8])).value == -1  # slower than the constant by as much as could be saved
    uneven = headroom_share(stood([2, 6]))
    # One text saves all, one nothing: the moves are 1/4 each way, (1/16)/(1 - .4) + (1/16)/(1 - .6), t of one freedom.
    assert uneven.value == 0.5 and uneven.high == 1
    assert uneven.low == pytest.approx(0.5 - 12.7062047 * np.sqrt((1 / 0.6 + 1 / 0.4) / 16), rel=1e-6)
    assert headroom_share(stood([2, 4], constant=(2, 4))) is None


def test_a_rung_says_what_is_missing_and_why():
    found = rung(POLICY, stood([3, 5]), [stood([4, 4]), stood([2, 4])], None)
    assert found.over_constant.value == 10 / 8 and np.isnan(found.over_constant.low) and np.isnan(found.share.low)
    assert (found.null.mean, found.null.low, found.null.high) == (pytest.approx((10 / 8 + 10 / 6) / 2), 10 / 8, 10 / 6)
    assert found.why == ("intervals beside the best constant: they take 10 prompts",)
    alone = rung(POLICY, stood([3, 5], constant=None), [], "a reason")
    assert alone.over_constant is alone.share is alone.null is None and alone.speedup.value == 20 / 8
    assert len(alone.why) == 2 and alone.why[1] == "a null: a reason"
    for name in (NONE, CONSTANT):  # in any order the same
        assert rung(name, stood([3, 5]), [stood([4, 4])], None).null is None


def test_a_constant_for_each_text_is_judged_on_its_other_half_by_hand():
    # Two texts of four, cut into ++ | ++ and -- | --: the last token of each half is the target's own.
    found = per_prompt(trace(pattern("++++"), pattern("----", index=1)), COST)
    # A half holds one draft token, so every constant drafts one: a step and a quarter, and a step more where it misses.
    assert found.rung.prompt_seconds.tolist() == found.constant.prompt_seconds.tolist() == [2.5, 4.5]
    assert found.optimal.prompt_seconds.tolist() == [2.5, 4.0] and found.rung.plain_seconds.tolist() == [4, 4]


def test_where_halves_of_a_text_are_alike_each_has_its_own_constant():
    easy = ["+" * 40] * 3 + ["+-" * 20] * 3
    found = per_prompt(trace(*(pattern(text, index=n) for n, text in enumerate(easy))), COST)
    assert np.all(found.rung.prompt_seconds <= found.constant.prompt_seconds)
    assert found.rung.prompt_seconds.sum() < found.constant.prompt_seconds.sum()
    assert np.all(found.optimal.prompt_seconds <= found.rung.prompt_seconds)


def test_lengths_that_are_known_beforehand_are_priced_like_a_policy():
    source = synthetic(4, 30)
    expected = simulate(source, "constant:tokens=3", COST)
    found = simulate_lengths(source, "three", np.minimum(3, source.budget), COST)
    assert np.array_equal(found.seconds, expected.seconds) and found.policy == "three"


def test_the_rule_counts_the_chance_of_the_token_to_come():
    sure, grows = np.array([[0.9, 0.9]]), np.full((1, 3), 0.3)
    assert pays_no_more(sure, grows).tolist() == [[False, True]]  # .9 / 1.9 = .47, .81 / 2.71 = .299
    assert pays_no_more(sure, grows, np.array([[0.5, 1.0]])).tolist() == [[True, True]]  # .45 / 1.9 = .24


def test_signals_go_with_their_tokens():
    rng = np.random.default_rng(0)
    source = known("signal", 6, 0)
    same = with_signals(source, np.arange(source.tokens), rng)
    for policy in ("dynamic", "survival", "oracle:optimal"):
        expected = simulate(source, policy, COST).prompt_seconds
        assert np.array_equal(simulate(same, policy, COST).prompt_seconds, expected)
    order = within_orders(source, 1, rng)[0]
    moved = with_signals(source, order, rng)
    for name in ("confidence", "entropy", "margin"):
        assert np.array_equal(getattr(moved, name), getattr(source, name)[order])
    assert np.array_equal(moved.agrees, source.agrees[order])
    simulate(moved, "dynamic", COST)  # reads twenty tokens after a miss: none of them is lacking


def test_an_overrun_that_its_text_cut_short_gives_way_to_a_whole_one():
    # A miss at 0 with all of its overrun, one at 3 whose text ended; they change places.
    source = trace(pattern("-++-+", overruns={0: [(5, 0.5), (6, 0.6)], 3: []}), max_overrun=2)
    order = np.array([3, 1, 2, 0, 4])
    moved = with_signals(source, order, np.random.default_rng(0))
    assert moved.overruns.position.tolist() == [0, 3]
    assert moved.overruns.offsets.tolist() == [0, 2, 4] and moved.overruns.tokens.tolist() == [5, 6, 5, 6]
    assert moved.overruns.confidence.tolist() == np.float32([0.5, 0.6, 0.5, 0.6]).tolist()


def test_one_that_ended_in_eos_is_whole():
    source = trace(pattern("-++-+", overruns={0: [(5, 0.5), (0, 0.6)], 3: []}), max_overrun=4)
    moved = with_signals(source, np.array([3, 1, 2, 0, 4]), np.random.default_rng(0))
    assert moved.overruns.tokens.tolist() == [5, 0, 5, 0]


def test_the_largest_probabilities_go_along():
    source = some_trace(prompts=3)
    over, size = source.overruns, 2
    text, after = np.arange(source.tokens * size), np.arange(len(over.tokens) * size)
    extra = {
        "draft_top": Flat(text.astype(np.float32), (source.offsets, np.arange(0, len(text) + 1, size))),
        "draft_top_after": Flat(
            after.astype(np.float32), (np.searchsorted(over.position, source.offsets), over.offsets * size)
        ),
    }
    source = dataclasses.replace(source, extra=extra, meta=source.meta | {"top_k": size})
    order = within_orders(source, 1, np.random.default_rng(1))[0]
    moved = with_signals(source, order, np.random.default_rng(1))
    assert np.array_equal(moved.extra["draft_top"].values.reshape(-1, 2)[:, 0], 2 * order)
    assert len(moved.extra["draft_top_after"].values) == 2 * len(moved.overruns.tokens)


def test_texts_of_one_token_have_no_halves():
    with pytest.raises(ValueError, match="two tokens"):
        per_prompt(trace(pattern("+")), COST)
    mixed = per_prompt(trace(pattern("+"), pattern("++-+", index=1)), COST)
    assert len(mixed.rung.prompt_seconds) == 1
