"""Walks of all texts at once against the rule token by token, for policies of every kind."""

import dataclasses

import numpy as np
import pytest
from builders.learners import LEARNING
from builders.reference import random_trace, reference
from builders.traces import pattern, record, trace

from analysis.cost import CostModel
from analysis.replay.drafts import NotRecorded
from analysis.replay.simulate import replay, simulate, simulate_all
from analysis.replay.sweep import sweep
from oracle.policies import POLICIES, Policy, TokenRule, parse


def rows(t, policy):
    """(prompt, position, drafted, accepted, passes) of every iteration."""
    found = simulate(t, policy)
    columns = (found.prompt, found.position, found.drafted, found.accepted, found.passes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@dataclasses.dataclass(frozen=True)
class Cumulative(Policy):
    """Reads all tokens of the draft so far."""

    tokens: int = 12
    threshold: float = 0.3

    def budget(self, state):
        return self.tokens

    def stop(self, signals, state):
        return np.cumprod(signals.confidence, axis=1) < self.threshold


@dataclasses.dataclass(frozen=True)
class CumulativeOfOne(TokenRule):
    """The same mistaken for a rule of single tokens: it cannot see the others, here or in the real loop."""

    tokens: int = 12
    threshold: float = 0.3

    def budget(self, state):
        return self.tokens

    def judge(self, signals):
        return np.cumprod(signals.confidence, axis=1) < self.threshold


@dataclasses.dataclass(frozen=True)
class ByMargin(Policy):
    """The next length follows the margins of the last draft, on to the next prompt: signals, memory, carried over."""

    def start(self, lanes, cost=None):
        return (np.full(lanes, 3),)

    def budget(self, state):
        return state[0]

    def update(self, state, drafted, accepted, signals):
        mine = np.arange(signals.shape[1]) < drafted[:, None]
        return (1 + ((signals.margin > 0.25) & mine).sum(axis=1),)

    def next_prompt(self, state):
        return (state[0] + 1,)


@dataclasses.dataclass(frozen=True)
class Averaging(Policy):
    """Counts in fractions, carried over: hardly a state comes twice."""

    def start(self, lanes, cost=None):
        return (np.full(lanes, 2.0), np.zeros((lanes, 2)))

    def budget(self, state):
        return np.rint(state[0]).astype(int) + 1

    def update(self, state, drafted, accepted, signals):
        return (0.7 * state[0] + 0.3 * accepted, state[1] + drafted[:, None])

    def next_prompt(self, state):
        return state


@dataclasses.dataclass(frozen=True)
class Longest(Cumulative):
    """Drops the last two tokens of a draft that stopped by itself, and all of a short one."""

    def send(self, passes, stopped, state):
        kept = np.where(stopped, np.maximum(passes - 2, 0), passes)
        return np.where(kept < 2, 0, kept)


OWN = [*map(parse, LEARNING), Cumulative(), CumulativeOfOne(), ByMargin(), Averaging(), Longest()]
TRACES = {
    "few": dict(prompts=5),
    "many": dict(prompts=40),
    "long": dict(prompts=18, longest=60, hits=0.9, overrun=60),
    "short record": dict(prompts=20, longest=30, overrun=3),
}


@pytest.mark.parametrize("kind", TRACES)
@pytest.mark.parametrize("policy", [*map(parse, POLICIES), *OWN], ids=str)
def test_all_texts_at_once_equal_the_rule_token_by_token(policy, kind):
    for seed in range(2):
        t = random_trace(seed, **TRACES[kind])
        try:
            expected = reference(t, policy)
        except NotRecorded:
            with pytest.raises(NotRecorded, match="--max-overrun"):
                rows(t, policy)
        else:
            assert rows(t, policy) == expected


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("policy", [*map(parse, POLICIES), *OWN], ids=str)
def test_texts_of_a_few_tokens(policy, limit):
    generator = np.random.default_rng(limit)
    texts = [
        record(target, np.where(generator.random(limit) < 0.5, target, 1), index=n, overruns={0: [(3, 0.9)]})
        for n, target in enumerate(generator.integers(2, 5, (40, limit)))
    ]
    t = trace(*texts)
    assert rows(t, policy) == reference(t, policy)


def test_a_rule_that_reads_the_draft_so_far_needs_no_flag():
    # 0.8, 0.64, 0.51, 0.41, 0.33, 0.26: the sixth token is the first below 0.3.
    t = trace(pattern("+" * 12, confidence=[0.8] * 12))
    assert rows(t, Cumulative())[0] == (0, 0, 6, 6, 6)
    assert rows(t, CumulativeOfOne())[0] == (0, 0, 11, 11, 11)


def test_many_settings_together_are_as_one_by_one():
    t = random_trace(3, prompts=30)
    texts = [f"{name}:threshold={p},tokens={k}" for name in ("constant", "dynamic", "heuristic", "kangaroo")
             for p in (0, 0.3, 0.8) for k in (1, 3, 9)]  # fmt: skip
    policies = [*texts, "roc", "oracle:optimal", "p-min:n_max=3", Cumulative(), "none"]
    for policy, found in zip(policies, simulate_all(t, policies), strict=True):
        alone = simulate(t, policy)
        for name in ("policy", "prompt", "position", "drafted", "accepted", "passes", "seconds", "prefill_seconds"):
            assert np.array_equal(getattr(found, name), getattr(alone, name)), (policy, name)


def test_a_sweep_leaves_out_what_the_record_is_too_short_for():
    t = random_trace(0, prompts=30, overrun=1)
    policies = ["constant:tokens=9", "dynamic:threshold=0.9,tokens=2", "dynamic:threshold=0.1,tokens=14"]
    found = sweep(t, CostModel(draft=0.1), policies)
    assert found.left_out == (policies[2],)
    assert {result.policy for result in found.results} == set(policies[:2])
    assert found.best_constant().policy == policies[0]


def test_an_exclusive_stop_pays_for_the_token_that_it_drops():
    # From 0: .9 .9 .2: two are sent, three were drafted; then from 3, .9 alone, cut by the room for it.
    confidence = [0.9, 0.9, 0.2, 0.9, 0.9]
    t = trace(pattern("+++++", confidence=confidence))
    assert rows(t, "p-min:n_max=16,p_min=0.5") == [(0, 0, 2, 2, 3), (0, 3, 1, 1, 1)]
    # Shorter than three: the whole draft is dropped and a plain step follows, each time.
    assert rows(t, "p-min:n_min=3,p_min=0.5")[:2] == [(0, 0, 0, 0, 3), (0, 1, 0, 0, 2)]
    priced = simulate(t, "p-min:p_min=0.5")  # a draft step of 0.1, a verification of 1
    assert priced.seconds.tolist() == pytest.approx([1 + 0.3, 1 + 0.1])
    assert (priced.draft_tokens, priced.draft_passes) == (3, 4)


def test_counting_reads_no_signal():
    t = trace(pattern("++-+-"))
    blind = dataclasses.replace(t, confidence=None, entropy=None, margin=None)
    for name in ("none", "constant", "heuristic", "heuristic_transient", "staircase", "dynamic:threshold=0"):
        assert rows(blind, name) == rows(t, name)
    with pytest.raises(ValueError, match="no confidence: policy dynamic.* needs it"):
        simulate(blind, "dynamic")
    with pytest.raises(ValueError, match="no entropy: policy svip.* needs it"):
        simulate(blind, "svip")
    with pytest.raises(ValueError, match="no confidence: policy roc.* needs it"):
        simulate(blind, "roc")


@pytest.mark.parametrize("answer", [np.zeros(3, bool), np.zeros((1, 4)), 0.5])
def test_an_answer_of_the_wrong_shape_or_type_is_refused(answer):
    @dataclasses.dataclass(frozen=True)
    class Wrong(Cumulative):
        def stop(self, signals, state):
            return answer

    with pytest.raises(ValueError, match="policy Wrong.* stop must answer a bool array"):
        simulate(trace(pattern("+++++")), Wrong())


def test_a_budget_of_half_a_token_and_sending_more_than_was_drafted_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Half(Policy):
        def budget(self, state):
            return 2.5

    @dataclasses.dataclass(frozen=True)
    class More(Cumulative):
        def send(self, passes, stopped, state):
            return passes + 1

    for policy, message in ((Half(), "whole numbers of tokens"), (More(), "0 to passes")):
        with pytest.raises(ValueError, match=message):
            simulate(trace(pattern("+++++")), policy)


def test_prices_reach_the_policy():
    @dataclasses.dataclass(frozen=True)
    class Affordable(Policy):
        """As many tokens as a target step buys."""

        def start(self, lanes, cost=None):
            return (np.full(lanes, 1 if cost is None else int(cost.step() / cost.draft)),)

        def budget(self, state):
            return state[0]

    t = trace(pattern("++++++++"))
    assert replay(t, Affordable()).drafted[0] == 1
    assert simulate(t, Affordable()).drafted[0] == 7  # ten at 0.1 each, but the text leaves room for seven
