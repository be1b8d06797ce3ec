import dataclasses
import math

import numpy as np
import pytest

from analysis.replay.paired import FEWEST, held_out, may_be_best, paired, simultaneous
from analysis.replay.result import Totals


def totals(name, seconds, plain=10.0):
    seconds = np.asarray(seconds, float)
    return Totals(name, np.full(len(seconds), plain), np.zeros((len(seconds), 2)), seconds)


def many(seconds):
    return [totals(f"p{number}", row) for number, row in enumerate(seconds)]


def test_a_ratio_is_above_one_where_the_other_is_faster():
    assert paired(totals("a", [4, 8]), totals("b", [2, 4])).value == 2


def test_pairing_is_what_narrows_the_interval():
    """Prompts differ a hundredfold, and the two policies by 10 % in each: nothing is left to be unsure of."""
    slow = np.array([1.0, 10, 100, 3, 30])
    found = paired(totals("a", 1.1 * slow), totals("b", slow))
    assert (found.value, found.low, found.high) == pytest.approx((1.1, 1.1, 1.1))


def test_simultaneous_intervals_by_hand():
    """Logs of the totals 0 apart, residuals +-0.1: error .1 sqrt(2 / 1) / sqrt(2) = .1; t of 1 at .025 / 2."""
    from scipy.stats import t

    base = totals("a", [1, 1])
    found = simultaneous(base, [totals("b", [0.9, 1.1]), totals("c", [0.55, 0.45])])
    reach = 0.1 * t.ppf(1 - 0.025 / 2, 1)
    assert [each.value for each in found] == pytest.approx([1, 2])
    assert found[1].low == pytest.approx(2 * math.exp(-reach)) and found[1].high == pytest.approx(2 * math.exp(reach))
    assert simultaneous(base, []) == []
    (alone,) = simultaneous(totals("a", [1]), [totals("b", [2])])
    assert alone.value == 0.5 and math.isnan(alone.low)


def test_the_group_leaves_out_what_is_slower_beyond_chance():
    noise = np.array([-0.01, 0.01, 0.0, 0.01, -0.01])
    fast, alike, slow = totals("fast", 1 + noise), totals("alike", 1.001 - noise), totals("slow", 2 + noise)
    assert may_be_best([slow, fast, alike]) == (fast, alike)
    assert may_be_best([fast]) == (fast,)


def test_the_same_seconds_are_never_told_apart_and_exact_ones_always():
    seconds = np.random.default_rng(0).random(7)
    one, same, double = totals("a", seconds), totals("b", seconds), totals("c", 2 * seconds)
    assert may_be_best([one, same]) == (one, same)
    assert may_be_best([one, double]) == (one,)


def test_one_prompt_tells_nothing_apart():
    tried = many([[1.0], [5.0]])
    assert may_be_best(tried) == tuple(tried)


@pytest.mark.parametrize("prompts", [5, 10, 20])
@pytest.mark.parametrize("alike", [True, False])
def test_the_group_and_the_intervals_keep_their_level(prompts, alike):
    """41 policies equal in truth, alone or as a smooth family, prompts of very different length."""
    random = np.random.default_rng(prompts)
    kept = covered = 0
    place = np.linspace(-1, 1, 41)[:, None]
    for _ in range(400):
        factors = random.standard_normal((2, prompts)) * 0.1
        noise = 0 if alike else 0.05 * random.standard_normal((41, prompts))
        size = np.exp(0.4 * random.standard_normal(prompts))
        tried = many(size * (1 + place * factors[0] + (place**2 - 0.4) * factors[1] + noise))
        group = may_be_best(tried)
        kept += any(each is tried[20] for each in group)
        covered += all(each.low <= 1 <= each.high for each in simultaneous(tried[20], tried[:20] + tried[21:]))
    # .95 less three standard errors of 400 draws, less what prompts of unequal length cost the t of a ratio of totals.
    assert kept / 400 >= 0.91 and covered / 400 >= 0.91


def test_a_held_out_best_by_hand():
    """Policy a is best on four prompts, b on the last: without that one a is chosen, and pays 9 there."""
    a, b = totals("a", [1, 1, 1, 1, 9]), totals("b", [2, 2, 2, 2, 1])
    found = held_out([a, b], folds=5)
    assert found is not None
    # Without one of the first four: a has 12, b 7.  Without the last: a has 4, b 8.
    assert found.seconds.tolist() == [2, 2, 2, 2, 9]
    assert found.chosen == {"b": 4, "a": 1}
    assert found.speedup.value == pytest.approx(50 / 17)
    assert held_out([totals("a", np.ones(FEWEST - 1))]) is None


def test_a_held_out_best_is_dealt_alike_each_time():
    tried = many(np.random.default_rng(1).random((8, 33)))
    one, other = held_out(tried), held_out(tried)
    assert one is not None and other is not None and np.array_equal(one.seconds, other.seconds)
    assert sum(one.chosen.values()) == 2  # halves


def test_the_in_sample_best_promises_too_much_and_the_held_out_one_does_not():
    """Twelve policies with the same truth of 1: whatever is best in a sample is worth 1 on other prompts."""
    random, inside, outside = np.random.default_rng(2), [], []
    for _ in range(300):
        tried = many(1 + 0.2 * random.standard_normal((12, 8)).clip(-3, 3))
        inside.append(80 / min(each.prompt_seconds.sum() for each in tried))
        outside.append(10 / held_out(tried).seconds.mean())
    assert np.mean(inside) > 10 * 1.08
    assert np.mean(outside) == pytest.approx(10, rel=0.012)


def with_shifts(found, shifts):
    return dataclasses.replace(found, shifts=np.array(shifts))


def test_errors_of_the_prices_widen_what_does_not_cancel():
    """Two policies whose totals move by 3 and by 1 per cent with one price: 2 per cent remain between them."""
    seconds = np.ones(4)
    one, other = with_shifts(totals("a", seconds), [0.03]), with_shifts(totals("b", seconds), [0.01])
    assert np.log(paired(one, other).high) == pytest.approx(1.959964 * 0.02)
    (alike,) = simultaneous(one, [with_shifts(totals("c", seconds), [0.03])])
    assert (alike.low, alike.high) == (1, 1)
    quick = with_shifts(totals("d", seconds / 1.03), [0.01])  # 3 % faster: 1.645 errors of 2 % may be chance, with one
    assert may_be_best([one, quick]) == (one, quick)
    assert may_be_best([one, with_shifts(totals("d", seconds / 1.04), [0.01])])[0].policy == "d"
