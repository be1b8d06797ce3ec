import dataclasses

import numpy as np
import pytest
from builders.traces import pattern, trace

from analysis.replay.simulate import simulate
from oracle.policies import POLICIES, Policy, Signals, parse
from oracle.policies.contract import unseen
from oracle.policies.counting import Heuristic, HeuristicTransient, HeuristicWhole, Staircase
from oracle.policies.drawn import Random
from oracle.policies.learning import AdaEDL, Level, Roc, roc_thresholds
from oracle.policies.thresholds import PMin, Survival, Svip
from oracle.policies.trained import SpecDecPP


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


def test_the_older_heuristic_takes_a_draft_that_stopped_early_for_a_failure():
    assert budgets(HeuristicWhole(5), [True, True, False, False, True]) == [7, 9, 8, 7, 9]
    three = np.array([3])
    for policy, tokens in ((Heuristic(5), 7), (HeuristicWhole(5), 4)):
        assert policy.update(policy.start(1), three, three, unseen(three)).tokens == [tokens]


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
    # Highest first: .9 hit, .8 hit, .6 miss, .5 hit, .3 miss, .2 miss.  Costs: .5 catches all three hits at one of
    # three false alarms: 1/3 + 0; .8: 0 + 3 * 1/3 = 1.
    confidence = np.array([0.9, 0.2, 0.6, 0.5, 0.8, 0.3])
    matched = np.array([True, False, False, True, True, False])
    assert roc_threshold(confidence, matched) == 0.5


def roc_threshold(confidence, matched):
    """The refitted threshold from outcomes in any order; the old one is -1."""
    outcomes = np.sort(np.float32(confidence).view(np.uint32) << np.uint32(1) | matched.astype(np.uint32))
    return roc_thresholds(outcomes[None], np.array([len(outcomes)]), np.array([-1.0]))[0]


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


def test_svip_stops_exactly_above_sixth_tenths_of_a_nat():
    entropy = np.array([[0.59, 0.5999999, 0.6000001, 0.61]], np.float32)
    signals = Signals.of(entropy, entropy, entropy)
    assert Svip().stop(signals, ()).tolist() == [[False, False, True, True]]


def test_adaedl_starts_at_1_8_nats_and_follows_the_accepted_share():
    policy, drafted = AdaEDL(), np.array([4])
    entropy = np.array([[1.79, 1.81]], np.float32)
    state = policy.start(1)
    columns = Level(*(field[:, None] for field in state))
    assert policy.stop(Signals.of(entropy, entropy, entropy), columns).tolist() == [[False, True]]
    # Accepted share 0.5 * 0 + 0.5 * 1 = 0.5 < 0.9: L' = 0.41, L = 0.9 * 0.4 + 0.1 * 0.41.
    state = policy.update(state, drafted, drafted, unseen(drafted))
    assert state.rate == [0.5] and state.threshold == pytest.approx([0.401])
    # Shares 0.75, 0.875, 0.9375: only the last is 0.9 or more, and 4 accepted are not the cap of 16: L' = L - 0.01.
    for expected in (0.402, 0.403, 0.402):
        state = policy.update(state, drafted, drafted, unseen(drafted))
        assert state.threshold == pytest.approx([expected])


def test_survival_reads_the_whole_draft():
    # 0.6, 0.36, 0.216, 0.1296: below 0.2 for the first time at the fourth.
    assert Survival().stop(one(0.6, 0.6, 0.6, 0.6), ()).tolist() == [[False, False, False, True]]


def test_specdec_stops_once_a_refusal_is_likely_and_not_before_two():
    # 1 - 0.6, 1 - 0.36, 1 - 0.216 = 0.784: above 0.7 for the first time at the third, which is still sent.
    assert SpecDecPP().stop(one(0.6, 0.6, 0.6), ()).tolist() == [[False, False, True]]
    assert SpecDecPP().stop(one(0.1, 0.9), ()).tolist() == [[False, True]]
    assert SpecDecPP(least=1).stop(one(0.1, 0.9), ()).tolist() == [[True, True]]
    t = trace(pattern("++++++++", confidence=[0.6] * 8))
    assert simulate(t, "specdec++").drafted.tolist() == [3, 3]


def test_p_min_drops_the_token_that_stops_it_and_what_is_too_short():
    sent = PMin(n_min=2).send(np.array([3, 3, 2, 2, 1, 0]), np.array([1, 0, 1, 0, 1, 0], bool), ())
    assert sent.tolist() == [2, 3, 0, 2, 0, 0]


def test_staircase_climbs_after_two_two_and_four():
    # Index 0 asks for two drafts accepted whole, 1 for two, 2 for four; one that was not steps down.
    up = [True] * 8
    assert budgets(Staircase(), up) == [3, 4, 4, 6, 6, 6, 6, 8]
    assert budgets(Staircase(), [*up, False, True, False, False, False, False])[8:] == [6, 6, 4, 3, 3, 3]


def test_every_length_is_drawn_equally_often_and_in_an_order_that_never_changes():
    rule = Random(20, seed=3)
    drawn = [rule.lookahead(number) for number in range(100)]
    assert np.bincount(drawn).tolist() == [0] + [5] * 20
    assert drawn[:20] != drawn[20:40] and drawn != [Random(20, seed=4).lookahead(number) for number in range(100)]
    # Fixed for ever: recorded runs are replayed from the seed alone.
    assert [Random(5).lookahead(number) for number in range(10)] == [2, 3, 5, 4, 1, 1, 5, 3, 4, 2]


def test_drawn_lengths_go_on_from_prompt_to_prompt():
    twice = trace(pattern("--------"), pattern("--------", index=1))
    rule = parse("random:tokens=7,seed=2")
    room = [7, 6, 5, 4, 3, 2, 1, 0]
    expected = [min(rule.lookahead(number), room[number % 8]) for number in range(16)]
    assert simulate(twice, rule).drafted.tolist() == expected
    with pytest.raises(ValueError, match="tokens=1001: must be at most 1000"):
        Random(tokens=1001)
    with pytest.raises(ValueError, match="seed=-1: must be at least 0"):
        Random(seed=-1)
