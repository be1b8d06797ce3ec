import dataclasses
import math

import numpy as np
import pytest
from builders.synthetic import synthetic
from scipy.stats import t

from analysis.cost import CostModel
from analysis.intervals import Estimate
from analysis.replay.enough import enough, enough_of, percent, prompts_for, within
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate
from analysis.replay.sweep import baseline


def test_how_far_an_interval_reaches_is_its_longer_side():
    assert within(Estimate(2.0, 1.9, 2.2)) == pytest.approx(0.1)
    assert within(Estimate(2.0, 1.6, 2.2)) == pytest.approx(0.25)
    assert math.isnan(within(Estimate(2.0, math.nan, math.nan)))


def test_how_many_prompts_are_enough_by_hand():
    """Residuals of the log ratio +-0.1 (SD .1 sqrt(2)): the least n with t(n - 1) .1414 / sqrt(n) <= log 1.05."""
    found = prompts_for(np.array([1.0, 1.0]), np.array([0.9, 1.1]), 0.05)

    def reach(n):
        return t.ppf(0.975, n - 1) * 0.1 * math.sqrt(2) / math.sqrt(n)

    assert found is not None and reach(found) <= math.log(1.05) < reach(found - 1)
    assert prompts_for(np.array([1.0, 2.0]), np.array([2.0, 4.0]), 0.01) == 2  # the same ratio everywhere
    assert prompts_for(np.array([1.0]), np.array([2.0]), 0.01) is None
    assert prompts_for(np.array([1.0, 2.0]), np.array([2.0, 1.0]), 1e-9) is None


def test_prices_that_are_not_known_so_well_are_no_matter_of_prompts():
    above, below = np.array([1.0, 1.0]), np.array([0.9, 1.1])
    assert prompts_for(above, below, 0.05, 0.03**2) is None  # 1.96 times 3 % is more than 5 %
    more, all_ = prompts_for(above, below, 0.05, 0.02**2), prompts_for(above, below, 0.05)
    assert more is not None and all_ is not None and more > all_


def test_a_width_that_is_rounding_is_none():
    assert percent(2.2e-16) == "±0 %" and percent(0.004) == "±0.4 %" and percent(0.069) == "±6.9 %"


def totals(policy, seconds):
    seconds = np.asarray(seconds, float)
    return Totals(policy, np.ones(len(seconds)), np.zeros((len(seconds), 2)), seconds)


def test_the_sentence_says_what_is_known_and_what_would_be():
    found = totals("dynamic", np.tile([0.4, 0.6], 10))
    other = totals("constant:tokens=5", np.tile([0.5, 0.62], 10))
    said = enough(found, other)
    assert said.prompts == 20 and list(said.needs) == [0.05, 0.03] and list(said.paired_needs) == [0.01]
    alike = math.exp(t.ppf(0.975, 19) * 0.2 * math.sqrt(20 / 19) / math.sqrt(20)) - 1
    assert said.within == pytest.approx(alike, rel=2e-3)  # texts that are nearly alike
    few, many, beside = said.needs[0.05], said.needs[0.03], said.paired_needs[0.01]
    assert said.sentence == (
        f"dynamic is known to within ±10 %; ±5 % takes about {few} prompts, ±3 % {many}. Against constant:tokens=5, "
        f"paired by prompt, it is known to within ±{100 * said.paired_within:.2g} %, and ±1 % takes about {beside} "
        "prompts."
    )


def test_a_policy_is_not_compared_with_itself():
    found = totals("dynamic", [1, 2, 3])
    for said in (enough(found), enough(found, found)):
        assert said.baseline is None and said.paired_needs == {} and "Against" not in said.sentence


def test_one_prompt_is_said_to_tell_nothing():
    assert "tells nothing about others" in enough(totals("dynamic", [1]), totals("b", [2])).sentence


def test_a_trace_is_asked_for_dynamic_and_the_best_constant():
    trace, cost = synthetic(12, length=24), CostModel(draft=0.1)
    said = enough_of(trace, cost)
    assert (said.policy, said.prompts, said.baseline) == ("dynamic", 12, baseline(trace, cost).policy)
    assert said == enough(simulate(trace, "dynamic", cost), baseline(trace, cost).totals)
    without = dataclasses.replace(trace, confidence=None)
    assert enough_of(without, cost).sentence == enough(baseline(trace, cost).totals).sentence
