"""What is advised, what it rests on, and what is said where a trace says little."""

import math

import numpy as np
import pytest
from builders.synthetic import synthetic
from builders.traces import pattern, trace
from builders.truths import known

from analysis.cost import CostModel
from analysis.gains.heldout import best_held_out
from analysis.replay.result import Totals
from analysis.replay.sweep import sweep
from analysis.tune import tune
from analysis.tune.grid import settings_of
from analysis.tune.tuning import choose
from analysis.verdict import advised

COST = CostModel(draft=0.1)


def totals(policy, seconds):
    seconds = np.array(seconds, float)
    return Totals(policy, np.full(len(seconds), 10.0), np.zeros((len(seconds), 2)), seconds)


def chosen(**seconds):
    """`choose` from seconds a prompt by policy; names as in constant_2 for constant:tokens=2."""
    every = [totals(name.replace("_", ":tokens="), each) for name, each in seconds.items()]
    return choose(every, {each.policy: each.policy.partition(":")[0] for each in every})


def near(setting):
    return pytest.approx(setting.speedup.value)


def spread(mean, prompts=20, seed=0):
    """Prompts of different length that every policy feels alike, and a little that each feels alone."""
    size = np.exp(0.3 * np.random.default_rng(99).standard_normal(prompts))
    return mean * size * (1 + 0.01 * np.random.default_rng(seed).standard_normal(prompts))


def test_a_policy_is_advised_where_its_gain_over_the_tuned_constant_is_sure():
    found = chosen(constant_2=spread(5, seed=1), constant_3=spread(5.2, seed=2), dynamic_9=spread(4, seed=3))
    assert found.policy == found.simplest == "dynamic:tokens=9" and found.constant == "constant:tokens=2"
    assert found.over_constant.low > 1.2 and found.group == ("dynamic:tokens=9",)
    assert found.sentences[0].startswith("Use dynamic:tokens=9: ") and "no choice" not in str(found.sentences)
    assert found.surface is not None and found.surface.chosen == (0.4, 9)


def test_the_constant_is_advised_where_nothing_is_seen_to_beat_it():
    found = chosen(constant_2=spread(5, seed=1), dynamic_9=spread(4.999, seed=3))
    assert found.held.policy == "dynamic:tokens=9" and found.policy == found.simplest == "constant:tokens=2"
    assert set(found.group) == {"constant:tokens=2", "dynamic:tokens=9"}
    assert any("No setting that was tried is seen to beat the best constant" in each for each in found.sentences)


def test_no_draft_is_advised_where_nothing_beats_it():
    found = chosen(constant_2=[12.0] * 12, dynamic_9=[11.0] * 12)
    assert (found.policy, found.simplest, found.group) == ("none", "none", ("none",))
    assert (found.speedup.value, found.speedup.low, found.speedup.high) == (1, 1, 1)
    assert found.sentences[0].startswith("Use no draft: nothing that was tried beats no draft; the best of 2 settings")


def test_a_draft_that_may_lose_is_said_to_be_unsure_and_no_draft_is_the_simplest():
    noise = np.random.default_rng(5).standard_normal(20)
    found = chosen(constant_2=9.9 + 1.5 * (noise - noise.mean()), dynamic_9=[11.0] * 20)
    assert found.policy == "constant:tokens=2" and found.simplest == "none" and "none" in found.group
    assert "these prompts do not show for sure" in found.sentences[0]


def test_the_optimism_is_what_the_choice_adds_by_luck():
    """Of forty settings with one truth the best in a sample looks better than it is; of one setting it does not."""
    rng = np.random.default_rng(0)
    lucky = chosen(**{f"constant_{number + 1}": 5 + rng.standard_normal(20) for number in range(40)})
    assert 0.02 < lucky.optimism < 0.2
    assert chosen(constant_2=spread(5)).optimism == pytest.approx(0, abs=1e-12)


def test_two_commands_that_have_the_same_settings_advise_the_same():
    for kind, draft in (("coins", 0.1), ("signal", 0.1), ("coins", 0.9), ("both", 0.3)):
        data, cost = known(kind, 20, seed=4), CostModel(draft=draft)
        swept = sweep(data, cost, list(settings_of(["dynamic:tokens=8", "heuristic"])))
        found = tune(data, cost, ["dynamic:tokens=8", "heuristic"])
        assert found.policy == advised(best_held_out(swept.constants(), swept.results)) == advised(found.held)


@pytest.mark.parametrize("prompts", [1, 4])
def test_too_few_prompts_judge_nothing(prompts):
    found = tune(synthetic(prompts, 64), COST)
    assert math.isnan(found.speedup.low) and math.isnan(found.optimism) and math.isnan(found.over_constant.low)
    assert all(math.isnan(each.speedup.low) for each in found.looks)
    assert any("no choice can be judged on others: collect at least 10" in each for each in found.sentences)
    assert found.policy == found.constant and "nan" not in " ".join(found.sentences)


def test_few_prompts_never_beat_a_constant():
    found = tune(known("signal", 9, seed=1), COST)
    assert math.isnan(found.over_constant.low) and found.policy == found.constant
    assert any("whether a policy beats a constant cannot be told" in each for each in found.sentences)


def test_texts_without_room_for_a_draft():
    found = tune(trace(*(pattern("+", index=number) for number in range(12))), COST)
    assert found.policy == "none" and "no text leaves room for one" in found.sentences[0]


def test_a_record_without_overruns_or_signals_leaves_dynamic_out():
    short = trace(*(pattern("++-++-+++-++", index=number) for number in range(12)), max_overrun=0)
    found = tune(short, COST)
    assert "collect again with --max-overrun" in found.left_out["dynamic"]
    assert any(each.startswith("dynamic is left out, or in part: this policy reads") for each in found.sentences)
    assert found.constant == "constant:tokens=3" and all("nan" not in each for each in found.sentences)


def test_folds_below_two_are_refused():
    with pytest.raises(ValueError, match="folds=1: must be at least 2"):
        tune(synthetic(12, 16), COST, folds=1)


def test_the_surface_is_what_each_setting_costs():
    data = known("signal", 12, seed=2)
    found = tune(data, COST)
    assert len(found.surface.thresholds) == 51 and len(found.surface.caps) == 12
    by_policy = {each.policy: each for each in found.settings}
    at = found.surface.thresholds.index(0.4), found.surface.caps.index(20)
    assert found.surface.speedup[at[0]][at[1]] == near(by_policy["dynamic:threshold=0.4,tokens=20"])
    assert found.surface.speedup[0][3] == near(by_policy["constant:tokens=4"])
    assert all(row[0] == near(by_policy["constant:tokens=1"]) for row in found.surface.speedup)
    cells = sum(sum(row[1:]) for row in found.surface.in_group)
    assert cells == sum(each.startswith(("constant", "dynamic")) for each in found.group if each[-2:] != "=1")


def test_intervals_of_settings_hold_for_both_comparisons_at_once():
    found = tune(known("coins", 20, seed=3), COST, ["dynamic:tokens=5"])
    (constant,) = (each for each in found.settings if each.policy == found.constant)
    assert (constant.over_constant.low, constant.over_constant.value, constant.over_constant.high) == (1, 1, 1)
    for each in found.looks:
        row = next(row for row in found.settings if row.policy == each.best)
        assert each.in_sample == near(row) and row.speedup.low < row.speedup.value < row.speedup.high
