"""The best of many settings, judged on prompts that did not choose it."""

import numpy as np
import pytest

from analysis.gains.heldout import best_held_out
from analysis.replay.result import Totals


def totals(policy, seconds):
    seconds = np.array(seconds, float)
    return Totals(policy, np.full(len(seconds), 10.0), np.zeros((len(seconds), 2)), seconds)


def test_what_is_best_everywhere_is_judged_as_it_is():
    slow, fast = totals("slow", [8, 6, 8, 6, 7]), totals("fast", [4, 3, 4, 3, 3.5])
    found = best_held_out([slow], [fast, slow])
    assert (found.constant, found.policy, found.tried) == ("slow", "fast", 2)
    assert found.gain.value == 2 and found.policy_speedup.value == pytest.approx(50 / 17.5)
    assert found.constant_speedup.value == pytest.approx(50 / 35)
    assert found.hidden == pytest.approx(2)  # no prompt differs in the ratio


def test_each_half_is_judged_by_what_the_other_chose():
    # Each prompt has a policy that is best for it alone: what the others choose is never that one.
    every = [totals(str(number), np.where(np.arange(6) == number, 1, 5)) for number in range(6)]
    found = best_held_out(every[:1], every)
    assert found.policy_speedup.value == 60 / 30 and found.gain.value == 26 / 30


def test_equal_policies_gain_nothing_held_out_and_hide_what_they_could():
    rng, claims, hides = np.random.default_rng(0), 0, 0
    for _ in range(200):
        seconds = 5 + rng.standard_normal((20, 1)) + 0.3 * rng.standard_normal((20, 12))
        every = [totals(str(number), column) for number, column in enumerate(seconds.T)]
        found = best_held_out(every[:1], sorted(every, key=lambda each: each.prompt_seconds.sum()))
        claims += found.gain.low > 1
        hides += found.hidden >= 1
    assert claims <= 12 and hides >= 190  # 2.5 % and 95 %, and what 200 draws may stray


def test_few_prompts_are_judged_with_hindsight_and_have_no_interval():
    found = best_held_out([totals("a", [5, 6])], [totals("b", [4, 6]), totals("a", [5, 6])])
    assert found.gain.value == 11 / 10 and np.isnan(found.gain.low) and np.isnan(found.hidden)


def test_halves_of_a_few_prompts_tell_no_gain():
    slow, fast = [6, 7, 8, 9, 10.0, 6, 7, 8, 9], [5, 6, 7, 8, 9.0, 5, 6, 7, 8]
    few = best_held_out([totals("a", slow)], [totals("b", fast), totals("a", slow)])
    assert few.gain.value > 1 and np.isnan(few.gain.low) and few.policy_speedup.low > 1
    slow, fast = [*slow, 10], [*fast, 9]
    assert best_held_out([totals("a", slow)], [totals("b", fast), totals("a", slow)]).gain.low > 1


def test_a_policy_alone_hides_nothing():
    found = best_held_out([totals("a", [5, 6, 7, 8, 9])], [totals("a", [5, 6, 7, 8, 9])])
    assert found.hidden == 1 and found.gain.value == 1


def test_where_every_other_setting_is_slower_the_constant_itself_is_the_most_that_is_hidden():
    seconds = np.array([5.0, 6, 7, 8, 9])
    assert best_held_out([totals("a", seconds)], [totals("a", seconds), totals("b", 2 * seconds)]).hidden == 1
