"""Intervals of known numbers, and how often they hold the truth."""

import numpy as np
import pytest
from scipy import stats

from analysis.intervals import Estimate, estimate, p_words, ratio, ratio_bands, weighed, wilson

PROMPTS = (3, 5, 10, 20, 60)


def test_ratio_by_hand():
    above, below = np.array([2.0, 3.0, 7.0]), np.array([1.0, 2.0, 3.0])  # 12 / 6
    moves = np.array([2 / 12 - 1 / 6, 3 / 12 - 2 / 6, 7 / 12 - 3 / 6])  # 0, -1/12, 1/12
    shares = np.array([4, 7, 13]) / 24  # (2 / 12 + 1 / 6) / 2, ...
    weight = shares**2 / (1 - shares)
    crossed = 2 * (weight[0] * weight[1] + weight[0] * weight[2] + weight[1] * weight[2])
    free = 1 / ((shares**2).sum() + crossed)
    half = stats.t.ppf(0.975, free) * np.sqrt((moves**2 / (1 - shares)).sum())
    found = ratio(above, below)
    assert (found.value, found.low, found.high) == pytest.approx((2, 2 * np.exp(-half), 2 * np.exp(half)))
    other = ratio(below, above)  # the inverse is the same statement
    assert (1 / other.high, 1 / other.low) == pytest.approx((found.low, found.high))


def test_an_independent_log_variance_adds_the_square_of_its_normal_half_width():
    above, below = np.array([3.0, 4.0, 5.0]), np.array([2.5, 2.0, 1.5])  # each a third of both totals on average
    found = ratio(above, below, 0.04)
    own = stats.t.ppf(0.975, 2) ** 2 * 3 / 2 * 2 / 36
    assert np.log(found.high / 2) == pytest.approx(np.sqrt(own + (1.959964 * 0.2) ** 2))
    alike = ratio(2 * below, below, 0.04)  # prompts that say all the same leave the prices' interval
    assert (alike.low, alike.high) == pytest.approx(tuple(2 * np.exp(1.959964 * 0.2 * np.array([-1, 1]))))


def lengths(kind, rng, prompts):
    """Lengths of texts, float [prompts]: widely spread, or one that is nearly all."""
    if kind == "spread":
        return np.ceil(64 * np.exp(rng.standard_normal(prompts)))
    return np.append(np.full(prompts - 1, 20.0), 400.0)


@pytest.mark.parametrize("kind", ["spread", "one"])
@pytest.mark.parametrize("prompts", [5, 12, 40])
def test_texts_of_very_unequal_length_keep_the_level(prompts, kind):
    rng, truth, repeats = np.random.default_rng(5), 0.2, 1500
    held = []
    for _ in range(repeats):
        below = lengths(kind, rng, prompts)
        above = below * rng.beta(4, 16, prompts) + np.sqrt(below) * 0.1 * rng.standard_normal(prompts)
        found = ratio(np.maximum(above, 0.01 * below), below)
        held.append(found.low <= truth <= found.high)
    assert 0.91 <= np.mean(held) <= 0.99  # with P - 1 degrees of freedom .13 to .9


def test_a_text_that_is_nearly_all_of_the_total_leaves_one_degree_of_freedom():
    below = np.append(np.ones(11), 1e4)
    above = below * np.append(np.tile([0.1, 0.3], 6)[:11], 0.2)
    found = ratio(above, below)
    assert found.high / found.value > 1.01
    _, free = weighed((above / above.sum() - below / below.sum())[:, None], (below / below.sum())[:, None])
    assert 1 <= free[0] < 1.1
    _, free = weighed(np.zeros((12, 1)), np.full((12, 1), 1 / 12))
    assert free[0] == pytest.approx(11)


def test_one_prompt_has_a_ratio_and_no_interval():
    found = ratio(np.array([3.0]), np.array([2.0]), 0.01)
    assert found.value == 1.5 and np.isnan(found.low) and np.isnan(found.high)
    padded = ratio(np.array([3.0, 0.0]), np.array([2.0, 0.0]))  # a prompt with nothing in it is no second one
    assert padded.value == 1.5 and np.isnan(padded.low)


def test_a_ratio_with_an_empty_total_has_no_interval():
    assert ratio(np.zeros(3), np.ones(3)).value == 0 and np.isnan(ratio(np.zeros(3), np.ones(3)).low)
    assert np.isnan(ratio(np.zeros(3), np.zeros(3)).value)
    low, high, value = ratio_bands(np.array([[1.0, 0], [2, 0]]), np.array([[1.0, 1], [1, 1]]))
    assert value.tolist() == [1.5, 0] and low[0] < 1.5 < high[0] and np.isnan([low[1], high[1]]).all()


def seconds(rng, prompts, repeats):
    """Seconds without and with a draft, float [prompts, repeats] each: texts of 20 to 200 tokens, pace by prompt."""
    tokens = rng.integers(20, 200, size=(prompts, repeats))
    pace = np.exp(0.35 * rng.standard_normal((prompts, repeats)))  # of the draft on this prompt
    noise = np.exp(0.1 * rng.standard_normal((2, prompts, repeats)))
    return tokens * noise[0], tokens * noise[1] * pace / 1.5


@pytest.mark.parametrize("prompts", PROMPTS)
def test_a_speedups_interval_holds_the_truth_from_three_prompts_on(prompts):
    rng = np.random.default_rng(prompts)
    without, with_draft = seconds(rng, 2_000_000, 1)
    truth = without.sum() / with_draft.sum()
    low, high, _ = ratio_bands(*seconds(rng, prompts, 4000))
    assert 0.90 <= np.mean((low <= truth) & (truth <= high)) <= 0.97


@pytest.mark.parametrize("prompts", PROMPTS)
def test_prices_and_prompts_together_hold_their_level(prompts):
    rng = np.random.default_rng(prompts)
    without, with_draft = seconds(rng, 2_000_000, 1)
    truth = without.sum() / with_draft.sum()
    above, below = seconds(rng, prompts, 4000)
    wrong = np.exp(0.1 * rng.standard_normal(4000))  # prices are off by 10 %, one draw a data set
    low, high, _ = ratio_bands(above * wrong, below, 0.1**2)
    assert 0.92 <= np.mean((low <= truth) & (truth <= high)) <= 0.98


def test_bootstrap_interval_is_seeded_and_has_the_right_width():
    rng = np.random.default_rng(0)
    sums = np.stack([rng.normal(5, 2, 400), np.ones(400)], axis=1)
    ratio = lambda s: s[..., 0] / s[..., 1]  # noqa: E731
    found = estimate(sums, ratio, seed=3)
    assert found == estimate(sums, ratio, seed=3) != estimate(sums, ratio, seed=4)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 2 / 20, rel=0.15)
    many = np.concatenate([sums] * 25)  # 10,000 prompts: resampled in groups, a fifth of the width
    wide = estimate(many, ratio)
    assert wide.high - wide.low == pytest.approx((found.high - found.low) / 5, rel=0.15)


def test_wilson_stays_inside_and_matches_the_formula():
    low, high = wilson(np.array([0, 5, 10]), np.array([10, 10, 10]))
    expected = stats.binomtest(5, 10).proportion_ci(method="wilson")
    assert (low[1], high[1]) == pytest.approx((expected.low, expected.high))
    assert low[0] == 0 and high[0] > 0.2 and low[2] < 0.8 and high[2] == pytest.approx(1)


def test_estimate_prints_its_interval():
    assert str(Estimate(1.23456, 1.1, 1.4)) == "1.23 (1.1 to 1.4)"
    assert str(Estimate(1.2, float("nan"), float("nan"))) == "1.2"


@pytest.mark.parametrize(
    ("p", "draws", "words"),
    [(1 / 201, 200, "<= 0.005"), (2 / 201, 200, "0.01"), (0.5, 9, "0.5"), (float("nan"), 9, "-")],
)
def test_a_p_value_claims_no_more_than_its_draws_can_show(p, draws, words):
    assert p_words(p, draws) == words
