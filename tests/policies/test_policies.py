import dataclasses

import numpy as np
import pytest
from builders.traces import pattern, trace

from analysis.replay.simulate import simulate
from oracle.policies import POLICIES, Policy, Signals, parse
from oracle.policies.contract import unseen
from oracle.policies.counting import Heuristic, HeuristicTransient
from oracle.policies.learning import Roc, roc_thresholds


def budgets(policy, outcomes):
    """Budgets that follow a series of full (True) and partial (False) acceptances."""
    state, seen = policy.start(1), []
    for full in outcomes:
        drafted = policy.budget(state)
        state = policy.update(state, drafted, drafted if full else drafted - 1, unseen(drafted))
        seen += policy.budget(state).tolist()
    return seen


def one(*confidence):
    """Signals of one draft with these confidences."""
    return Signals.of(*[np.array([confidence], np.float32)] * 3)


def test_heuristic_by_hand():
    assert budgets(Heuristic(5), [True, True, False, False, True]) == [7, 9, 8, 7, 9]
    assert budgets(HeuristicTransient(5), [False] * 5) == [4, 3, 2, 1, 1]


def test_heuristic_counts_an_empty_round_as_accepted_whole():
    none = np.array([0])
    assert Heuristic(5).update(Heuristic(5).start(1), none, none, unseen(none)).tokens == [7]


def test_heuristic_carries_its_value_to_the_next_prompt():
    perfect = [pattern("++++++++"), pattern("++++++++", index=1)]
    over = simulate(trace(*perfect), "heuristic:tokens=2")
    # 2, then 4 of the remaining 5 - 1: the text of 8 is 2+1, 4+1; the next prompt starts at 6, then 1 token is left.
    assert over.drafted.tolist() == [2, 4, 6, 0]
    assert simulate(trace(*perfect), "heuristic_transient:tokens=2").drafted.tolist() == [2, 4, 2, 4]


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_says_its_own_text_and_replays(name):
    policy = parse(name)
    assert parse(str(policy)) == policy
    assert dataclasses.is_dataclass(policy) and policy.__doc__
    texts = [
        pattern(text, index=n, overruns={at: [(1, 0.1)] * 9 for at in range(9)})
        for n, text in enumerate(["++-+-+++", "---", "+"])
    ]
    t = trace(*texts, max_overrun=9)
    result = simulate(t, policy)
    assert result.tokens == t.tokens
    assert np.all(result.accepted <= result.drafted)
    by_prompt = np.bincount(result.prompt, weights=result.accepted + 1)
    assert by_prompt.tolist() == np.diff(t.offsets).tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dynamik", "did you mean 'dynamic'"),
        ("", "unknown policy ''; legal: none, constant"),
        ("constant:token=3", "legal: tokens=5, threshold=0"),
        ("constant:tokens", "not a key=value"),
        ("constant:tokens=2.5", "not a whole number"),
        ("constant:tokens=0", "at least 1"),
        ("constant:tokens=1,tokens=2", "given twice"),
        ("dynamic:threshold=nan", "between 0"),
        ("dynamic:threshold=1.5", "between 0"),
        ("dynamic:threshold=x", "not a number"),
        ("none:tokens=1", "no keys"),
    ],
)
def test_a_wrong_text_is_refused_with_the_legal_ones(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_text_with_spaces_and_keys():
    assert parse(" dynamic: threshold = 0.25 , tokens=7 ") == POLICIES["dynamic"](tokens=7, threshold=0.25)


def test_thresholds_compare_in_double_precision():
    # float32(0.7) is 0.699999988: below the double 0.7, as the real criterion finds it.
    assert parse("dynamic:threshold=0.7").stop(one(0.7), ()).tolist() == [[True]]
    assert parse("constant").stop(one(0.7), ()) is None


def test_roc_threshold_by_hand():
    # Highest first: .9 hit, .8 hit, .6 miss, .5 hit, .3 miss, .2 miss.  Costs: .5 catches all three hits at one of three
    # false alarms: 1/3 + 0; .8: 0 + 3 * 1/3 = 1.
    confidence = np.array([0.9, 0.2, 0.6, 0.5, 0.8, 0.3])
    matched = np.array([True, False, False, True, True, False])
    assert roc_threshold(confidence, matched) == 0.5


def roc_threshold(confidence, matched):
    """The refitted threshold from outcomes in any order; the old one is -1."""
    state = Roc().start(1)
    for value, hit in zip(np.float32(confidence), matched, strict=True):
        drafted = np.array([1])
        state = Roc().update(state, drafted, drafted * int(hit), one(value))
    return roc_thresholds(state.outcomes, state.count, np.array([-1.0]))[0]


def test_roc_threshold_equals_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(0)
    for _ in range(500):
        size = generator.integers(6, 40)
        confidence = np.round(generator.random(size), generator.integers(1, 4)).astype(np.float32)  # rounded: ties
        matched = generator.random(size) < confidence
        if len(set(matched)) < 2:
            continue
        false_rate, true_rate, thresholds = metrics.roc_curve(matched, confidence)
        assert roc_threshold(confidence, matched) == thresholds[np.argmin(false_rate + 3 * (1 - true_rate))]


def test_roc_refits_each_lane_by_itself():
    generator = np.random.default_rng(1)
    policy, together, alone = Roc(), Roc().start(7), [Roc().start(1) for _ in range(7)]
    for _ in range(30):
        drafted = generator.integers(0, 5, 7)
        accepted = np.minimum(generator.integers(0, 6, 7), drafted)
        confidence = np.round(generator.random((7, 5)), 1).astype(np.float32)
        together = policy.update(together, drafted, accepted, Signals.of(confidence, confidence, confidence))
        for lane, state in enumerate(alone):
            mine = slice(lane, lane + 1)
            signals = one(*confidence[lane])
            alone[lane] = policy.update(state, drafted[mine], accepted[mine], signals)
        assert together.threshold.tolist() == [float(state.threshold[0]) for state in alone]


def test_roc_moves_only_with_more_than_five_outcomes_of_both_kinds():
    policy, state, five = Roc(), Roc().start(1), np.array([5])
    state = policy.update(state, five, five, one(*[0.5] * 5))
    assert state.threshold == [0.4]
    state = policy.update(state, five, five, one(*[0.5] * 5))
    assert state.threshold == [0.4]  # ten outcomes, all of one kind
    state = policy.update(state, np.array([3]), np.array([0]), one(0.45, 0.9, 0.9))
    assert state.count == [11] and (state.outcomes & 1).sum() == 10  # after the rejection nothing is known
    assert state.threshold == [0.5]


def test_the_base_policy_drafts_nothing():
    assert Policy().budget(()) == 0
