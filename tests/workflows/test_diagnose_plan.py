"""A budget as prompts, repeats and lengths."""

import itertools
from types import SimpleNamespace

import pytest

from oracle.workflows.diagnose import probe as probing
from oracle.workflows.diagnose.plan import (
    FEW_RECORDED,
    LEAST,
    LENGTHS,
    Speed,
    check_plan,
    check_row,
    check_warm_up,
    plan,
    told,
)

QUICK = Speed(prefill=0.01, step=0.002, drawn=0.003, texts=((64, False),))
SLOW = Speed(prefill=0.5, step=0.2, drawn=0.25, texts=((40, False), (24, True)))


def test_texts_that_came_to_their_own_end_stay_as_long_as_they_are():
    assert SLOW.tokens(128) == (128 + 24) / 2 and SLOW.tokens(16) == 16
    assert SLOW.plain(128) == 0.5 + 0.2 * 76 and SLOW.plain(128) < SLOW.drafted(128) < SLOW.random(128)


def test_a_quick_pair_has_long_texts_many_prompts_and_then_repeats():
    found = plan(QUICK, 600, 1000)
    assert found.max_new_tokens == LENGTHS[0] and found.measured >= 24 and found.repeats == 3
    assert found.recorded >= found.measured and found.recorded + found.kept == 1000
    assert found.seconds <= 600


def test_a_slow_pair_has_shorter_texts_and_each_call_once():
    found = plan(SLOW, 600, 1000)
    assert found.repeats == 1 and 6 <= found.measured and found.seconds <= 600
    longer = plan(SLOW, 6000, 1000)
    assert longer.max_new_tokens > found.max_new_tokens and longer.measured > found.measured


def test_a_limit_that_was_asked_for_is_kept():
    assert plan(SLOW, 600, 1000, length=100).max_new_tokens == 100


def test_several_drafts_share_the_time():
    one, two = plan(QUICK, 90, 1000), plan(QUICK, 90, 1000, drafts=2)
    assert two.measured * two.repeats < one.measured * one.repeats and two.seconds <= 90


def test_half_precision_is_recorded_prompt_by_prompt():
    assert plan(SLOW, 600, 1000, reference="assisted").recorded <= plan(SLOW, 600, 1000).recorded


@pytest.mark.parametrize("reference", ["plain", "assisted"])
@pytest.mark.parametrize("budget", [700, 1200, 3000])
def test_more_prompts_are_recorded_than_clocked(reference, budget):
    found = plan(SLOW, budget, 1000, reference=reference)
    assert found.recorded >= max(FEW_RECORDED, 1.5 * found.measured) and found.seconds <= budget


def test_the_check_is_priced_as_the_plan_prices_it():
    assert check_row(10, 8, 2, "assisted") == 26 + 16 and check_row(10, 8, 2, "plain") == 15 + 16
    assert check_warm_up(10, 8, 2, 32) == 26 and check_warm_up(10, 8, 2, 128) == 6.5


@pytest.mark.parametrize(("budget", "pairs"), [(1000, 4), (700, 3), (600, 2), (100, 1)])
def test_the_probe_makes_no_pair_of_calls_that_its_share_has_no_room_for(monkeypatch, budget, pairs):
    now, made = [0.0], itertools.count()

    def calls(pair, prompt, tokens, clock):
        next(made)
        now[0] += 13.0 * (tokens > 4)
        text = SimpleNamespace(total_seconds=0.1, prefill_seconds=0.05, tokens=[7] * tokens)
        return text, text

    monkeypatch.setattr(probing, "_calls", calls)
    monkeypatch.setattr(probing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: None)
    probing.probe(None, [SimpleNamespace(max_new_tokens=64)] * 9, 64, budget)
    assert next(made) - 1 == pairs and now[0] <= max(13, probing.SHARE * budget)


@pytest.mark.parametrize("available", [LEAST, 5, 10, 25])
def test_few_prompts_are_dealt_into_two_parts_and_clocked_more_often(available):
    found = plan(QUICK, 600, available)
    assert found.recorded >= 2 and found.kept >= 2 and found.recorded + found.kept == available
    assert found.measured <= found.recorded and found.repeats > 1


@pytest.mark.parametrize("available", [1, 2, 3])
def test_too_few_prompts_are_refused(available):
    with pytest.raises(ValueError, match=f"{available} usable prompts?: .* at least 4 are needed"):
        plan(QUICK, 600, available)


def test_a_budget_that_is_too_small_is_told_the_least_and_that_is_enough():
    with pytest.raises(ValueError, match="a budget of 20 s is too small: one draft with texts of at most 32") as error:
        plan(SLOW, 20, 100)
    minutes = int(str(error.value).rpartition("--budget ")[2].rstrip("m"))
    assert plan(SLOW, 60 * minutes, 100).measured >= 2
    with pytest.raises(ValueError, match="or a smaller --max-new-tokens"):
        plan(SLOW, 60, 100, length=512)


def test_where_nobody_named_a_budget_the_least_is_done():
    found = plan(SLOW, 20, 100, strict=False)
    assert (found.measured, found.repeats, found.recorded, found.max_new_tokens) == (2, 1, 2, LENGTHS[-1])


def test_the_check_takes_what_is_left():
    assert check_plan(100, 10, 50) == (10, 1)
    assert check_plan(5, 10, 50) == (2, 1)  # the least that says anything
    assert check_plan(1000, 10, 10) == (10, 5)
    assert check_plan(1000, 10, 25) == (25, 4)


def test_times_in_words():
    assert [told(each) for each in (0.2, 40, 300, 9000)] == ["1 s", "40 s", "5 min", "2.5 h"]
