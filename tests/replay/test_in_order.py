"""Walks in plain numbers against the same policies in arrays, which is what a real run goes by."""

import dataclasses

import numpy as np
import pytest
from builders.learners import LEARNING
from builders.reference import random_trace
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.replay import lanes
from analysis.replay.drafts import NotRecorded
from analysis.replay.simulate import replay
from oracle.policies import POLICIES, parse
from oracle.policies.bandits import TapOut
from oracle.policies.contract import unseen
from oracle.policies.counting import Ema
from oracle.policies.gains import pays_no_more
from oracle.policies.in_order import InOrder, in_numbers, numbers_of
from oracle.policies.trained import Margin

ARMS = "tapout:arms=1/survival/kangaroo:threshold=0.3+tokens=4/12"
EVERY = [p for p in map(parse, (*POLICIES, *LEARNING, ARMS)) if isinstance(p, InOrder)]
CURVE = CostModel(draft=0.05, verify=((1, 1.0), (4, 1.1), (8, 2.0)))
LONG = dict(prompts=60, longest=60, hits=0.8)


def in_arrays(t, policy, cost, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(lanes, "in_numbers", lambda policy: False)
        return replay(t, policy, cost)


@pytest.mark.parametrize("cost", [None, CURVE], ids=["usual prices", "a curve"])
@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_every_row_is_that_of_the_policy_in_arrays(policy, cost, monkeypatch):
    assert in_numbers(policy)
    for overrun in (60, 2):
        t = random_trace(overrun, overrun=overrun, **LONG)
        try:
            expected = in_arrays(t, policy, cost, monkeypatch)
        except NotRecorded:
            with pytest.raises(NotRecorded, match=f"policy reads|policy {policy}"):
                replay(t, policy, cost)
        else:
            for found, wanted in zip(replay(t, policy, cost), expected, strict=True):
                assert np.array_equal(found, wanted)


@pytest.mark.parametrize("policy", [parse("tapout"), parse(ARMS)], ids=str)
def test_a_policy_with_arrays_of_its_own_learns_the_same_to_the_last_bit(policy):
    state, numbers, generator = policy.start(1, CURVE), policy.first(CURVE), np.random.default_rng(0)
    for _ in range(2500):
        drafted = int(generator.integers(0, policy.most(numbers) + 1))
        accepted = int(generator.integers(0, drafted + 1))
        sent = np.array([drafted])
        state = policy.update(state, sent, np.array([accepted]), unseen(sent))
        numbers = policy.after(numbers, drafted, accepted, ())
        assert tuple(numbers_of(state)[0]) == tuple(numbers)


def test_margin_stops_where_the_gain_in_arrays_says():
    policy, generator = Margin(), np.random.default_rng(0)
    for _ in range(200):
        slope, base, margin = generator.normal(size=(3, policy.tokens))
        numbers = policy.first(CURVE)._replace(slope=slope.tolist(), base=base.tolist(), count=policy.warmup)
        chance = 1 / (1 + np.exp(-(slope * margin + base)))
        stops = pays_no_more(chance[None], np.array([numbers.growth]))[0]
        assert policy.look(numbers, margin.tolist())[0] == (stops.argmax() + 1 if stops.any() else 0)


@dataclasses.dataclass(frozen=True)
class Eager(Ema):
    """Changed in arrays alone."""

    def budget(self, state):
        return super().budget(state) + 1


@dataclasses.dataclass(frozen=True)
class Forgetful(TapOut):
    """Begins each prompt anew."""

    def next_prompt(self, state):
        return None


def test_what_a_subclass_changes_in_arrays_alone_is_not_overlooked():
    assert not in_numbers(Eager()) and not in_numbers(Forgetful())
    t = trace(pattern("+" * 20))
    assert replay(t, Eager()).drafted[0] == replay(t, Ema()).drafted[0] + 1
