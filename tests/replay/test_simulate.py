import itertools

import numpy as np
import pytest
from builders.reference import random_trace, reference
from builders.traces import EOS, pattern, record, trace

import analysis
from analysis.intervals import Estimate, ratio
from analysis.replay.simulate import known_policies, replay, simulate
from oracle.policies import POLICIES, parse
from oracle.policies.contract import unseen
from oracle.policies.counting import Heuristic, HeuristicTransient


def rows(result):
    return list(
        zip(
            result.prompt.tolist(),
            result.position.tolist(),
            result.drafted.tolist(),
            result.accepted.tolist(),
            strict=True,
        )
    )


def all_rows(result):
    """The same with the draft passes."""
    return [(*row, passes) for row, passes in zip(rows(result), result.passes.tolist(), strict=True)]


REPLAYED = [
    *(f"constant:tokens={tokens}" for tokens in (1, 3, 5, 12)),
    *(f"dynamic:threshold={threshold},tokens={tokens}" for threshold in (0.2, 0.4, 0.8, 1.0) for tokens in (3, 12)),
    *(
        f"{name}:tokens=2,threshold={threshold}"
        for name in ("heuristic", "heuristic_transient")
        for threshold in (0, 0.5)
    ),
    "roc:tokens=12,threshold=0.5",
    "none",
    *(f"p-min:n_max={most},n_min={least},p_min={p}" for most in (1, 3, 12) for least in (0, 2) for p in (0, 0.3, 0.8)),
    "svip:threshold=0.25,tokens=12",
    "survival:tokens=12",
    "adaedl:tokens=12",
    "staircase",
    "kangaroo",
    "max-confidence:tokens=9,threshold=0.5",
]


@pytest.mark.parametrize("text", REPLAYED)
def test_replay_equals_the_rule_token_by_token(text):
    for seed in range(25):
        t = random_trace(seed)
        assert all_rows(simulate(t, text)) == reference(t, parse(text)), (seed, text)


def test_the_stopping_token_is_still_verified():
    t = trace(pattern("+++++-+", confidence=[0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.9], overruns={5: [(1, 0.9)]}))
    # From 0: the third token stops the draft and is accepted; from 4: + then the miss, budget 2.
    assert rows(simulate(t, "dynamic:threshold=0.4,tokens=20")) == [(0, 0, 3, 3), (0, 4, 2, 1), (0, 6, 0, 0)]


def test_a_confidence_equal_to_the_threshold_goes_on():
    t = trace(pattern("++++", confidence=[0.5, 0.5, 0.5, 0.5]))
    assert rows(simulate(t, "dynamic:threshold=0.5")) == [(0, 0, 3, 3)]


def test_the_budget_leaves_room_for_the_targets_token():
    for size in (1, 2, 3, 7):
        assert rows(simulate(trace(pattern("+" * size)), "constant:tokens=20")) == [(0, 0, size - 1, size - 1)]


def test_drafting_stops_at_eos_and_an_accepted_eos_is_the_bonus():
    t = trace(record([5, 6, EOS], [5, 6, EOS], limit=20))
    assert rows(simulate(t, "constant:tokens=20")) == [(0, 0, 3, 2)]
    # Not accepted whole, says the library: 3 drafted, 2 kept, so the heuristic goes down.
    five = HeuristicTransient(5).start(1)
    assert HeuristicTransient(5).update(five, np.array([3]), np.array([2]), unseen(np.array([3]))).tokens == [4]


def test_a_wrong_eos_ends_the_draft():
    t = trace(record([5, 6, 7, 8], [5, EOS, 7, 8]))
    assert rows(simulate(t, "constant:tokens=3")) == [(0, 0, 2, 1), (0, 2, 1, 1)]


def test_an_eos_in_the_overrun_ends_the_draft():
    t = trace(record([5, 6, 7, 8, 9, 5], [9, 6, 7, 8, 9, 5], overruns={0: [(4, 0.9), (EOS, 0.9)]}))
    assert rows(simulate(t, "constant:tokens=5"))[0] == (0, 0, 3, 0)


def test_counting_beyond_the_record_is_exact_and_said():
    t = trace(pattern("-+++++++", overruns={0: [(1, 0.9), (1, 0.9)]}), max_overrun=2)
    result = simulate(t, "constant:tokens=6")
    assert rows(result)[0] == (0, 0, 6, 0) and result.unrecorded == 1
    assert simulate(t, "constant:tokens=3").unrecorded == 0


def test_a_threshold_beyond_the_record_says_how_much_to_record():
    t = trace(pattern("-+++++++", overruns={0: [(1, 0.9), (1, 0.9)]}), max_overrun=2)
    for text in ("dynamic:threshold=0.4,tokens=6", "heuristic:threshold=0.4,tokens=6", "roc:tokens=6"):
        with pytest.raises(ValueError, match="--max-overrun 5"):
            simulate(t, text)
    assert rows(simulate(t, "dynamic:threshold=0.95,tokens=6"))[0] == (0, 0, 1, 0)  # stops within the record


def test_summaries_by_hand():
    t = trace(pattern("++-+", overruns={2: [(1, 0.9)]}), pattern("---", index=1, overruns={0: [(1, 0.9)]}))
    result = simulate(t, "constant:tokens=2", analysis.CostModel(draft=0.25))
    assert rows(result) == [(0, 0, 2, 2), (0, 3, 0, 0), (1, 0, 2, 0), (1, 1, 1, 0), (1, 2, 0, 0)]
    assert (result.iterations, result.tokens, result.draft_tokens, result.wasted) == (5, 7, 5, 3)
    assert result.accepted_share == pytest.approx(2 / 5)
    assert result.tokens_per_iteration == pytest.approx(7 / 5)
    assert result.speedup == pytest.approx(7 / (5 + 5 * 0.25))
    assert result.prompt_seconds.tolist() == [2.5, 3.75]


def test_nothing_accepted_is_slower_and_is_said_as_it_is():
    # Draft 0.5, verify(n) = 1 + 0.2 (n - 1), five drafted, none accepted: 1 / (1 + 0.2 * 5 + 0.5 * 5).
    t = trace(pattern("-" * 400, overruns={at: [(1, 0.9)] * 4 for at in range(400)}, limit=10_000))
    cost = analysis.CostModel(draft=0.5, verify=((1, 1.0), (2, 1.2)))
    assert simulate(t, "constant:tokens=5", cost).speedup == pytest.approx(0.2222, abs=5e-5)


def test_the_reading_of_the_prompt_counts_only_in_the_total():
    t = trace(pattern("---"))  # prompt of 3 tokens, 3 iterations
    cost = analysis.CostModel(draft=0.0, draft_prefill=1.0, target_prefill=2.0)
    result = simulate(t, "constant:tokens=1", cost)
    assert result.speedup == 1.0
    assert result.total_speedup == pytest.approx((3 + 6) / (3 + 9))
    assert simulate(t, "none", cost).total_speedup == 1.0


def test_plain_decoding_is_the_unit():
    cost = analysis.CostModel(draft=0.3, iteration=0.5, plain=0.8)
    assert simulate(random_trace(1), "none", cost).speedup == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(8))
def test_oracles_by_their_definitions(seed):
    t = random_trace(seed)
    frame = t.iterations()
    detect, clairvoyant = simulate(t, "oracle:detect"), simulate(t, "oracle:clairvoyant")
    assert detect.accepted.tolist() == clairvoyant.accepted.tolist() == frame["accepted"].tolist()
    assert clairvoyant.wasted == 0
    assert np.all((detect.drafted == frame["detect"]) | (detect.drafted == detect.accepted))


def cheapest(run, cost, context):
    """Cheapest way to produce one text, by trying every sequence of drafts."""
    size = len(run)
    best = [0.0] * (size + 1)
    for at in reversed(range(size)):
        rounds = (float(cost.round(np.int64(k), context[at])) + best[at + k + 1] for k in range(int(run[at]) + 1))
        best[at] = min(float(cost.step(context[at])) + best[at + 1], *rounds)
    return best[0]


COSTS = [
    analysis.CostModel(draft=0.1),
    analysis.CostModel(draft=0.6, iteration=0.3),
    analysis.CostModel(draft=0.2, draft_context=0.01, verify=((1, 1.0), (3, 2.5), (4, 2.6)), verify_context=0.02),
]


@pytest.mark.parametrize("cost", COSTS)
def test_nothing_beats_the_optimal_oracle(cost):
    others = ["oracle:detect", "oracle:clairvoyant", *REPLAYED]
    for seed in range(12):
        t = random_trace(seed)
        best = simulate(t, "oracle:optimal", cost)
        text = [slice(*pair) for pair in itertools.pairwise(t.offsets)]
        expected = [cheapest(t.accepted_run[piece], cost, t.context[piece]) for piece in text]
        assert best.prompt_seconds == pytest.approx(expected)
        for text_of in others:
            assert np.all(simulate(t, text_of, cost).prompt_seconds >= best.prompt_seconds - 1e-9), text_of


def test_closed_forms_of_the_oracles():
    # Flat verification and linear drafting: detect = 1 / (1/S + c) and clairvoyant = S / (1 + c (S - 1)), whatever the
    # distribution, where S is the mean of emitted tokens.  No limit in sight, so that every detect pass is paid.
    t = trace(pattern("+-" * 30 + "-" * 11 + "++++-" * 9, limit=1000))
    mean, c = t.tokens / len(t.iterations()), 0.2
    cost = analysis.CostModel(draft=c)
    assert simulate(t, "oracle:detect", cost).speedup == pytest.approx(1 / (1 / mean + c))
    assert simulate(t, "oracle:clairvoyant", cost).speedup == pytest.approx(mean / (1 + c * (mean - 1)))


def test_independent_acceptance_meets_the_textbook():
    generator = np.random.default_rng(3)
    flags = np.where(generator.random(60_000) < 0.8, "+", "-")
    t = trace(pattern(flags, limit=10**6), max_overrun=0)
    result = simulate(t, "constant:tokens=5", analysis.CostModel(draft=0.05))
    assert result.speedup == pytest.approx(2.9514, rel=0.01)
    assert result.tokens_per_iteration == pytest.approx(3.6893, rel=0.01)


def test_the_interval_is_over_prompts():
    plain, drafted = np.array([10.0, 10.0, 10.0]), np.array([5.0, 5.0, 5.0])
    assert ratio(plain, drafted) == Estimate(2.0, 2.0, 2.0)
    found = ratio(np.array([10.0] * 40), np.array([5.0, 10.0] * 20))
    assert found.value == pytest.approx(4 / 3) and 1.1 < found.low < 1.333 < found.high < 1.6
    assert np.isnan(simulate(trace(pattern("++-")), "dynamic").speedup_interval()).all()  # one prompt


def test_unknown_policies_and_oracles_are_named():
    with pytest.raises(ValueError, match="oracle:detect"):
        simulate(trace(pattern("+")), "oracle:best")
    with pytest.raises(ValueError, match="unknown policy"):
        simulate(trace(pattern("+")), "nothing")
    assert set(POLICIES) < set(known_policies())


def test_order_of_prompts_matters_for_heuristic_only():
    a, b = pattern("++++++++++-"), pattern("-----------", index=1)
    for kind, same in ((Heuristic, False), (HeuristicTransient, True)):
        forward = replay(trace(a, b), kind(5))
        backward = replay(trace(b, a), kind(5))

        def of(result, t, number):
            return result.drafted[t.prompt_of[result.at] == number].tolist()

        first = of(forward, trace(a, b), 0) + of(forward, trace(a, b), 1)
        second = of(backward, trace(b, a), 1) + of(backward, trace(b, a), 0)
        assert (first == second) is same
