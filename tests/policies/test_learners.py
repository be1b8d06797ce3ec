"""Policies that weigh prices, average, learn online or play arms, against numbers worked out by hand."""

import numpy as np
import pytest
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.replay.simulate import simulate
from oracle.policies import Signals, parse
from oracle.policies.bandits import Exp3, TapOut, Ucb, uniform
from oracle.policies.contract import stops_at, unseen
from oracle.policies.counting import Ema
from oracle.policies.gains import ExpectedGain
from oracle.policies.prices import Textbook
from oracle.policies.trained import Margin


def one(*values):
    """Signals of one draft, all three alike."""
    return Signals.of(*[np.array([values], np.float32)] * 3)


def after(policy, state, drafted, accepted):
    """The state after an iteration of which only the outcome is known."""
    drafted = np.array([drafted])
    return policy.update(state, drafted, np.array([accepted]), unseen(drafted))


def test_the_textbook_prices_are_those_of_a_simulation_without_any():
    drafted, cost = np.arange(9), CostModel(draft=0.1)
    assert np.array_equal(Textbook().round(drafted), cost.round(drafted))
    assert np.array_equal(Textbook().step(), cost.step())


def test_expected_gain_with_flat_verification():
    # A draft step of 0.1: growth 0.1 / 1.1, 0.1 / 1.2, 0.1 / 1.3.  Confidence 0.5 throughout: S = .5, .25, .125 and
    # E = 1.5, 1.75, 1.875; E x growth = .136, .146, .144, so the third token is the last, and is still sent.
    policy = ExpectedGain()
    assert stops_at(policy, one(0.5, 0.5, 0.5, 0.5), policy.start(1)).tolist() == [[False, False, True, True]]
    t = trace(pattern("+" * 8, confidence=[0.5] * 8))
    assert simulate(t, "expected-gain").drafted.tolist() == [3, 3]


def test_expected_gain_with_a_verification_that_grows():
    # Each token more costs 0.1 + 0.2: growth 0.3 / 1.3, 0.3 / 1.6; S = .5, .25 against .346, .328.
    cost = CostModel(draft=0.1, verify=((1, 1.0), (4, 1.6)))
    policy = ExpectedGain()
    assert stops_at(policy, one(0.5, 0.5), policy.start(1, cost)).tolist() == [[False, True]]
    assert policy.budget(policy.start(1, CostModel(draft=1.0))) == [0]  # a step that can save no more than it costs
    assert policy.budget(policy.start(1, CostModel(draft=0.99))) == [20]
    overhead = CostModel(draft=0.1, iteration=9.0)  # growth .1 / 10.1: a dear iteration had better be long
    assert not stops_at(policy, one(0.5, 0.5, 0.5), policy.start(1, overhead)).any()


def test_margin_learns_from_the_tokens_whose_fate_is_known():
    policy, two = Margin(tokens=2, warmup=1), np.array([2])
    start = policy.start(1)
    state = policy.update(start, two, np.array([1]), one(0.8, 0.4))
    # sigma(0) = 0.5: the first token was accepted (+0.5), the second not (-0.5); steps of 0.1 times the margin, or 1.
    assert state.slope == pytest.approx(np.array([[0.04, -0.02]]))
    assert state.base == pytest.approx(np.array([[0.05, -0.05]]))
    state = policy.update(start, two, np.array([0]), one(0.8, 0.4))
    assert state.base == pytest.approx(np.array([[-0.05, 0.0]]))  # what became of the second nobody knows
    state = policy.update(start, two, two, one(0.8, 0.4))
    assert state.base == pytest.approx(np.array([[0.05, 0.05]]))


def test_margin_drafts_all_while_it_warms_up_then_stops_where_it_does_not_pay():
    policy = Margin(tokens=2, warmup=1)
    start = policy.start(1, CostModel(draft=0.4))
    signals = one(0.8, 0.4)
    assert not stops_at(policy, signals, start).any()
    # Growth at one token 0.4 / 1.4 = .286, and E = 1 + S: another pays while S / (1 + S) is above, S > 0.4.
    warm = start._replace(count=np.array([1]))
    assert stops_at(policy, signals, warm)[0, 0] == np.False_  # sigma(0) = 0.5
    doubtful = warm._replace(base=np.array([[-0.5, 0.0]]))
    assert stops_at(policy, signals, doubtful)[0, 0] == np.True_  # sigma(-0.5) = 0.378
    rescued = doubtful._replace(slope=np.array([[0.25, 0.0]]))
    assert stops_at(policy, signals, rescued)[0, 0] == np.False_  # sigma(-0.5 + 0.25 x 0.8) = 0.426


def test_margin_takes_what_it_learned_to_the_next_prompt():
    policy = Margin()
    state = policy.start(1)._replace(count=np.array([7]))
    assert policy.next_prompt(state) is state


def lengths(policy, accepted):
    state, seen = policy.start(1), []
    for tokens in accepted:
        state = after(policy, state, int(policy.budget(state)[0]), tokens)
        seen += policy.budget(state).tolist()
    return seen


def test_ema_by_hand():
    policy = Ema(rate=0.5, warmup=0, every=1)
    # From 5 with an average of 4: 2, at most 3 - 0.75 (down to 3), above 1 - 0.75 (no further).  2.5 is not above
    # 3 - 0.5; 2.75 is.  Then 1.375: above 0.25, not above 2.25.
    assert lengths(policy, [0, 3, 3, 0]) == [3, 3, 5, 3]
    # A bound itself is reached downwards: (4 + 0.5) / 2 = 2.25 at most 3 - 0.75.
    assert lengths(Ema(rate=0.875, warmup=0, every=1), [2]) == [3]  # 0.5 + 1.75 = 2.25
    assert lengths(Ema(rate=1.0, warmup=0, every=1), [0, 7]) == [1, 7]  # by as many lengths as the average is away


def test_ema_waits_for_its_warm_up_and_between_changes():
    found = lengths(Ema(), [0] * 21)
    # Averages 4 x 0.8^n: 0.14 after 15.  It counts to 10, then looks at every fifth.
    assert found == [5] * 14 + [1] * 7
    # 0.8 x (5 - 0.8^14) = 3.96 at the fifteenth: neither at most 2.25 nor above 4.5.  3.96 x 0.8^5 = 1.30.
    assert lengths(Ema(), [5] * 14 + [0] * 6) == [5] * 19 + [3]


def test_ema_takes_an_iteration_without_room_for_none():
    policy = Ema(warmup=0, every=1)
    state = after(policy, policy.start(1), 0, 0)
    assert state == policy.start(1) and policy.next_prompt(state) is state


@pytest.mark.parametrize("sizes", ["", "1/", "3/1", "1/1", "0/2", "1/x", "-1/2", "1/99999999999"])
def test_ema_refuses_lengths_that_make_no_sense(sizes):
    with pytest.raises(ValueError, match="sizes"):
        Ema(sizes=sizes)


def test_ucb_by_hand():
    # Prices 1, 1.1, 1.2, of which 3 / 1.2 = 2.5 is the best: one of one earns 2 / 1.1 / 2.5 = .7273, none of two 1/3.
    policy = Ucb(arms="1/2")
    state, played = policy.start(1), []
    for _ in range(8):
        tokens = int(policy.budget(state)[0])
        played.append(tokens)
        state = after(policy, state, tokens, 1 if tokens == 1 else 0)
    # Each twice.  t = 4: equal bonuses.  5: .727 + 1.036 against .333 + 1.269; 6: 1.6738 against 1.6719; 7: 1.610
    # against 1.728.
    assert played == [1, 2, 1, 2, 1, 1, 1, 2]
    assert state.earned / state.pulls == pytest.approx(np.array([[2 / 1.1 / 2.5, 1 / 1.2 / 2.5]]))


def test_a_bandit_earns_by_the_prices_it_is_told():
    cost = CostModel(draft=0.1, verify=((1, 1.0), (3, 3.0)))  # of 0, 1, 2 tokens: 1, 2.1, 3.2
    policy = Ucb(arms="1/2")
    state = after(policy, policy.start(1, cost), 1, 1)
    assert state.earned.tolist() == [[2 / 2.1, 0]]  # plain decoding, 1 / 1, is the best


def test_an_iteration_without_room_is_no_play():
    for policy in (Ucb(), Exp3()):
        start = policy.start(1)
        for found, before in zip(after(policy, start, 0, 0), start, strict=True):
            assert np.array_equal(found, before)


def test_exp3_by_hand():
    policy = Exp3(arms="1/2")
    state = policy.start(1)
    assert state.chance == [0.5] and state.arm == int(uniform(0, np.array([0]))[0] >= 0.5)
    arm = int(state.arm[0])
    after_one = after(policy, state, arm + 1, 0)
    lost = 1 - 1 / (1.1, 1.2)[arm] / 2.5
    assert after_one.losses[0, arm] == pytest.approx(lost / 0.5) and after_one.losses[0, 1 - arm] == 0
    # rate = sqrt(ln 2 / (2 x 2)) before the second draw.
    weight = np.exp(-np.sqrt(np.log(2) / 4) * lost / 0.5)
    expected = weight / (1 + weight)
    assert after_one.chance == pytest.approx(expected if after_one.arm == arm else 1 - expected)


def test_draws_are_even_and_the_same_everywhere():
    draws = uniform(3, np.arange(20_000))
    assert abs(draws.mean() - 0.5) < 0.01 and abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.02
    counts = np.histogram(draws, bins=10, range=(0, 1))[0]
    assert counts.min() > 1850 and counts.max() < 2150
    assert uniform(3, np.array([7]))[0] == draws[7] != uniform(4, np.array([7]))[0]
    assert uniform(2**40, np.array([7]))[0] == uniform(2**40, np.array([6, 7]))[1]


def test_an_arm_may_be_a_rule():
    policy = TapOut(arms="3/survival:threshold=0.5+tokens=9/kangaroo")
    start = policy.start(1)
    signals = one(0.7, 0.7, 0.7)  # products .7, .49, .343
    for arm, (tokens, stops) in enumerate([(3, [0, 0, 0]), (9, [0, 1, 1]), (6, [0, 0, 0])]):
        state = start._replace(arm=np.array([arm]))
        assert policy.budget(state) == [tokens]
        assert stops_at(policy, signals, state).tolist() == [list(map(bool, stops))]
    assert policy.next_prompt(start) is start and Ucb().next_prompt(start) is None


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("5", "2 to 64"),
        ("1/0", "at least 1"),
        ("1/1001", "at most 1000"),
        ("1/p-min", "legal: constant, max-confidence"),
        ("1/adaedl", "legal"),
        ("1/svip:treshold=1", "legal: tokens=40"),
        ("1/svip:threshold=x", "not a number"),
        ("1/", "no length"),
    ],
)
def test_what_cannot_be_an_arm_is_refused(arms, message):
    for name in ("ucb", "exp3", "tapout"):
        with pytest.raises(ValueError, match=message):
            parse(f"{name}:arms={arms}")
