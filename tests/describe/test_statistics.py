import dataclasses
import itertools

import numpy as np
import pytest
from builders.traces import pattern, trace
from scipy import stats

from analysis.describe import signals, statistics, variation
from analysis.describe.calibration import calibration_error
from analysis.describe.curves import hazard, profile
from analysis.describe.repeats import repeat_starts, repeating
from analysis.intervals import jackknife
from analysis.published import ORACLE_ANALYSIS, published_for
from oracle.records.selection import select_prompts
from oracle.records.trace import Record, Trace, iter_records

META = {"eos_token_ids": [0], "max_overrun": 4}


def record(agrees, *, name="a", confidence=None, text=None, finish="length"):
    """A prompt whose draft agrees where ``agrees`` says so; tokens 1, 2, 3, ... unless ``text`` is given."""
    agrees = np.array(agrees, dtype=bool)
    size = len(agrees)
    target = np.arange(1, size + 1, dtype=np.int32) if text is None else np.array(text, dtype=np.int32)
    misses = np.flatnonzero(~agrees).astype(np.int32)
    sure = np.full(size, 0.5) if confidence is None else np.array(confidence)
    return Record(
        id=name,
        index=0,
        finish=finish,
        max_new_tokens=size,
        prompt_tokens=np.array([7, 8], np.int32),
        target_tokens=target,
        draft_tokens=np.where(agrees, target, 99_999).astype(np.int32),
        confidence=sure.astype(np.float32),
        entropy=-np.log(sure).astype(np.float32),
        margin=sure.astype(np.float32),
        target_margin=np.ones(size, np.float32),
        overrun_position=misses,
        overrun_tokens=[np.array([5], np.int32)] * len(misses),
        overrun_confidence=[np.array([0.5], np.float32)] * len(misses),
        overrun_entropy=[np.array([0.5], np.float32)] * len(misses),
        overrun_margin=[np.array([0.5], np.float32)] * len(misses),
    )


def trace_of(*records):
    return Trace.from_records(records, META)


def of_runs(*accepted, last=0, name="a"):
    """A prompt whose oracle iterations accept these numbers, and ``last`` more when the text ends."""
    agrees = [flag for run in accepted for flag in [True] * run + [False]]
    return record([*agrees, *[True] * (last + 1)], name=name)


def random_trace(prompts=60, size=80, seed=0, spread=0.0):
    rng = np.random.default_rng(seed)
    rates = np.clip(0.7 + spread * rng.standard_normal(prompts), 0.05, 0.95)
    rows = []
    for number, rate in enumerate(rates):
        sure = rng.random(size)
        rows.append(record(rng.random(size) < rate, name=str(number), confidence=sure))
    return trace_of(*rows)


def test_summary_by_hand():
    trace = trace_of(of_runs(2, 0, 1, last=1), of_runs(4, name="b"))  # accepted 2 0 1 1 | 4 0
    found = statistics.summarise(trace, resamples=50)
    values = np.array([2, 0, 1, 1, 4, 0])
    assert (found.prompts, found.iterations, found.largest) == (2, 6, 4)
    assert found.mean.value == pytest.approx(8 / 6)
    assert found.sd.value == pytest.approx(values.std(ddof=1))
    assert found.median.value == 1
    assert found.quantiles["0.25"] == 0 and found.quantiles["0.75"] == 2 and found.quantiles["0.99"] == 4
    assert found.dispersion.value == pytest.approx(values.var(ddof=1) / (8 / 6 * 14 / 6))
    assert found.mean.low <= found.mean.value <= found.mean.high
    assert all(np.isnan(each.low) for each in (found.sd, found.median, found.trimmed_mean, found.dispersion))


@pytest.mark.parametrize(("prompts", "words"), [(9, "below 10 prompts, ratios of"), (10, "Ratios of"), (20, None)])
def test_what_has_no_interval_is_said_once(prompts, words):
    found = statistics.statistics(random_trace(prompts), resamples=50)
    assert (words is None and not found.note) or words in found.note
    assert np.isnan(found.accepted.sd.low) == np.isnan(found.longest_share.low) == (prompts < 10)
    assert np.isnan(found.accepted.dispersion.low) == np.isnan(found.heterogeneity.within.low) == (prompts < 20)
    assert not np.isnan([found.heterogeneity.lag1.low, found.accepted.mean.low, found.acceptance_rate.low]).any()


def test_detect_is_accepted_moved_by_one():
    trace = random_trace(10)
    accepted, detect = (statistics.summarise(trace, name, resamples=20) for name in statistics.CONVENTIONS)
    runs = trace.iterations()
    assert detect.mean.value == pytest.approx(runs.detect.mean()) == pytest.approx(accepted.mean.value + 1)
    assert detect.sd == accepted.sd and detect.quantiles["0.95"] == accepted.quantiles["0.95"] + 1
    # The geometric distribution on 1, 2, ... has variance mean (mean - 1): the same ratio.
    assert detect.dispersion.value == pytest.approx(runs.detect.var() / (runs.detect.mean() * (runs.detect.mean() - 1)))


def test_trimmed_mean_and_quantiles_agree_with_libraries():
    trace = random_trace(30)
    values = trace.iterations().accepted.to_numpy()
    found = statistics.summarise(trace, resamples=10)
    assert found.trimmed_mean.value == pytest.approx(stats.trim_mean(values, 0.1))
    for share, value in found.quantiles.items():
        assert value == np.quantile(values, float(share), method="inverted_cdf")


def test_published_dispersion():
    # Alpaca's 2.4 +- 2.1 in the detect convention is 1.31 times the variance of a geometric distribution.
    assert 2.1**2 / (2.4 * 1.4) == pytest.approx(1.31, abs=0.005)


def test_unknown_convention_is_refused():
    with pytest.raises(ValueError, match="accepted, detect, not 'sl'"):
        statistics.summarise(random_trace(2), "sl")


def test_one_prompt_has_numbers_but_no_intervals():
    found = statistics.statistics(trace_of(of_runs(2, 0, 1)), resamples=10)
    assert found.accepted.mean.value == 0.75 and np.isnan(found.accepted.mean.low)
    assert np.isnan(found.excess_dispersion.low) and np.isnan(found.heterogeneity.between.low)
    assert found.note.endswith("here is 1 prompt.")
    assert statistics.plain(found)["accepted"]["mean"] == {"value": 0.75, "low": None, "high": None}


@pytest.mark.parametrize("agrees", [[True], [False], [True] * 9, [False] * 9])
def test_smallest_and_extreme_texts_end_well(agrees):
    found = statistics.describe(trace_of(record(agrees), record(agrees, name="b")), resamples=10)
    assert found.everything.accepted.iterations >= 2
    assert len(hazard(trace_of(record(agrees))).x) <= 9


def test_acceptance_rate_counts_every_position_but_the_last_once():
    trace = random_trace(20)
    inner = np.arange(trace.tokens) != trace.end - 1
    found = statistics.acceptance_rate(trace)
    assert found.value == pytest.approx(trace.agrees[inner].mean())


def test_censoring_and_longest_share_by_hand():
    trace = trace_of(of_runs(2, 0, 1, last=1), of_runs(4, name="b"))  # last runs: 1 and 0 of 8 accepted tokens
    found = statistics.censoring(trace)
    assert found.iterations.value == pytest.approx(2 / 6) and found.accepted.value == pytest.approx(1 / 8)
    assert statistics.longest_share(trace, resamples=10).value == 0.5  # one of six iterations has 4 of 8
    many = trace_of(of_runs(*[1] * 198, 10))  # 200 iterations with the last: the longest two have 10 + 1 of 208
    assert statistics.longest_share(many).value == pytest.approx(11 / 208)


def test_averages_over_iterations_and_positions():
    trace = trace_of(of_runs(3, last=0))  # flags 1110 1: runs from each position 3 2 1 0 0
    found = statistics.averages(trace)
    assert (found.over_iterations.value, found.over_positions.value) == pytest.approx((1.5, 6 / 5))


def test_lag1_by_hand():
    trace = trace_of(of_runs(0, 2, 0, last=2))  # around the mean 1: -1 1 -1 1
    assert statistics.heterogeneity(trace).lag1.value == pytest.approx(-3 / 4 + 1 / 4)
    both = trace_of(of_runs(0, 2, 0, last=2), of_runs(9, last=9, name="b"), of_runs(0, 0, last=6, name="c"))
    # two iterations say nothing; -2 -2 4 has products 4 and -8 over 24
    assert statistics.heterogeneity(both).lag1.value == pytest.approx((3 * -1 / 2 + 2 * (-4 / 24 + 1 / 3)) / 5)


def test_design_effect_by_hand():
    trace = trace_of(of_runs(1, 1, last=1), of_runs(4, 4, last=4, name="b"))  # no spread within prompts
    moves = np.array([3 - 2.5 * 3, 12 - 2.5 * 3])
    found = statistics.heterogeneity(trace).design_effect
    assert found.value == pytest.approx(2 * (moves**2).sum() / (6 * np.var([1, 1, 1, 4, 4, 4], ddof=1)))


def test_independent_acceptance_shows_no_structure():
    trace = random_trace(300, 100)
    found = statistics.statistics(trace, resamples=200)
    assert found.excess_dispersion.low < 1 < found.excess_dispersion.high
    assert abs(found.heterogeneity.between.value) < 0.05 and abs(found.heterogeneity.within.value) < 0.05
    assert abs(found.heterogeneity.lag1.value) < 0.02 and abs(found.heterogeneity.design_effect.value - 1) < 0.3


def test_prompts_that_differ_are_seen():
    found = statistics.heterogeneity(random_trace(100, 100, spread=0.2))
    assert found.between.low > 0.2 and found.design_effect.value > 1.5
    assert found.within.low < 0 < found.within.high and abs(found.lag1.value) < 0.03


def sums_of(*texts):
    """Iterations, accepted tokens and their squares of each text of flags, float [P, 3]."""
    runs = [trace_of(record(flags)).iterations().accepted.to_numpy() for flags in texts]
    return np.array([[len(each), each.sum(), (each**2).sum()] for each in runs], float)


def test_the_split_is_exact_by_enumeration():
    """Mean sums of squares over all orders of the agreements: of each text, and of both together."""
    first, second = [True, False, True, True, True], [False, True]  # and one more token, which is the target's own
    closing = lambda flags: [*flags, True]  # noqa: E731
    sums = sums_of(closing(first), closing(second))
    within = [
        np.mean([sums_of(closing(order))[0, 2] for order in itertools.permutations(flags)]) for flags in (first, second)
    ]
    dealt = [
        sums_of(closing(order[:5]), closing(order[5:]))[:, 2].sum() for order in itertools.permutations(first + second)
    ]
    n, accepted, squares = sums.sum(axis=0)
    coin, within, found = ((each - accepted**2 / n) / (n - 1) for each in (np.mean(dealt), sum(within), squares))
    mean = accepted / n
    split = variation.split(*sums.T)
    assert split.iid_dispersion == pytest.approx(coin / (mean * (mean + 1)))
    assert split.excess.value == pytest.approx(found / coin)
    assert split.between.value == pytest.approx((within - coin) / coin)
    assert split.within.value == pytest.approx((found - within) / coin)


def test_leaving_a_prompt_out_of_the_split_is_the_split_without_it():
    sums = statistics.sums(random_trace(6, spread=0.2))
    left_out = [variation.split(*np.delete(sums, number, axis=0).T) for number in range(6)]
    whole = variation.split(*sums.T)
    (expected,) = jackknife(
        np.array([whole.excess.value]), np.array([[each.excess.value] for each in left_out]), log=True
    )
    assert (whole.excess.low, whole.excess.high) == pytest.approx((expected.low, expected.high))


def test_runs_that_the_record_cut_short_have_no_split():
    sample = dataclasses.replace(statistics.Sample.of(random_trace(30)))
    cut = dataclasses.replace(sample, censored=np.ones(sample.iterations, bool))
    found = statistics.statistics(cut, resamples=20)
    assert np.isnan(found.excess_dispersion.value) and np.isnan(found.iid_dispersion)
    assert found.accepted.dispersion.value > 0


def test_hazard_by_hand_counts_a_cut_run_as_far_as_it_is_known():
    trace = trace_of(of_runs(2, 0, last=1))  # 2 and 0 ended, 1 cut short
    found = hazard(trace)
    assert found.x.tolist() == [0, 1, 2]
    assert found.count.tolist() == [3, 1, 1]  # the cut run is known to accept one, its second is not known
    assert found.value.tolist() == [pytest.approx(2 / 3), 1, 0]
    assert np.isnan(found.low).all() and np.isnan(found.high).all()  # one prompt
    assert hazard(trace, longest=1).value.tolist() == [pytest.approx(2 / 3)]


def test_hazard_of_independent_acceptance_is_flat():
    trace = random_trace(200, 100)
    found = hazard(trace, longest=5)
    assert np.all((found.low < 0.72) & (found.high > 0.68))


def test_profile_by_hand():
    trace = trace_of(of_runs(3, 0, 1), of_runs(5, name="b"))  # 3 0 1 0 | 5 0
    found = profile(trace, bins=2)
    # indices 0, 1/3, 2/3, 1 and 0, 1
    assert found.value.tolist() == [pytest.approx(8 / 3), pytest.approx(1 / 3)] and found.count.tolist() == [3, 3]
    by_position = profile(trace, "position", bins=2)  # starts 0 4 5 7 of 8 tokens, 0 and 6 of 7
    assert by_position.count.tolist() == [2, 4] and by_position.value[0] == 4
    with pytest.raises(ValueError, match="iteration, position, not 'time'"):
        profile(trace, "time")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (list(range(1, 10)) + [5] * 24, 9),
        (list(range(1, 10)) + [50] * 23, -1),
        ([1, 2, 3] + [11, 12, 13] * 8, 3),
        (list(range(1, 5)) + list(range(50, 82)) * 3, 4),
        (list(range(1, 5)) + list(range(50, 83)) * 3, -1),  # period 33
        ([9, 9] + [5] * 24 + [0], 2),  # the end-of-text token is not part of the tail
        ([5] * 24 + [6], -1),
        ([5] * 30, 0),
        ([5], -1),
    ],
)
def test_loops(text, start):
    trace = trace_of(record([True] * len(text), text=text), record([False] * 3, name="b"))
    assert repeat_starts(trace).tolist() == [start, -1]
    assert repeating(trace).tolist() == [start >= 0, False]


def test_description_leaves_loops_out():
    trace = trace_of(record([True] * 40, text=[5] * 40, name="loop"), of_runs(1, 0, 2, name="b"))
    found = statistics.describe(trace, resamples=10)
    assert found.loops == ("loop",)
    assert found.everything.accepted.prompts == 2 and found.without_loops.accepted.largest == 2
    assert statistics.describe(random_trace(3), resamples=10).without_loops is None


def test_select_prompts_equals_a_trace_of_those_records():
    trace = random_trace(6, 12)
    keep = np.array([True, False, False, True, True, False])
    chosen = [row for row, kept in zip(iter_records(trace), keep, strict=True) if kept]
    expected, found = Trace.from_records(chosen, META), select_prompts(trace, keep)
    for name in ("index", "offsets", "prompt_tokens", "draft_tokens", "confidence", "overrun_of"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for name in ("position", "offsets", "tokens", "margin"):
        assert np.array_equal(getattr(found.overruns, name), getattr(expected.overruns, name)), name
    with pytest.raises(ValueError, match="at least one"):
        select_prompts(trace, np.zeros(6, bool))


# --- signals ---------------------------------------------------------------------------------------------------------


def test_signal_quality_by_hand():
    trace = trace_of(record([True, True, False, False], confidence=[0.9, 0.6, 0.6, 0.1]))
    by_name = {found.signal: found for found in signals.signal_quality(trace)}
    found = by_name["confidence"]
    assert (found.count, found.accepted) == (4, 0.5)
    assert found.auc.value == (1 + 1 + 0.5 + 1) / 4
    assert found.brier.value == pytest.approx((0.01 + 0.16 + 0.36 + 0.01) / 4, abs=1e-6)
    # bins of 1/15: {0.9}, {0.6, 0.6}, {0.1}; one prompt says nothing of what chance adds
    assert found.calibration_error.value == pytest.approx((0.1 + abs(1.2 - 1) + 0.1) / 4, abs=1e-6)
    assert found.spearman == pytest.approx(stats.spearmanr([0.9, 0.6, 0.6, 0.1], [1, 1, 0, 0]).statistic)
    # exp(-entropy) is the same score here, and a sign-flipped entropy has the same ranks as exp(-entropy)
    assert by_name["entropy"].auc.value == found.auc.value


def test_calibration_error_by_hand():
    gaps = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, -2.0], [1.0, 0.0]])  # the first bin is clear, the second is not
    found, if_perfect = calibration_error(gaps, np.full(4, 10))
    error = np.sqrt(8 * 4 / 3)  # of the second bin's sum, 0
    assert found.value == pytest.approx((4 - np.sqrt(2 / np.pi) * error) / 40)  # a normal around 0 has that much
    apart = np.array([[1.0, 3.0], [1.0, 1.0], [1.0, 3.0], [1.0, 1.0]])
    found, if_perfect = calibration_error(apart, np.full(4, 10))
    error, gap = np.sqrt(4 * 4 / 3), 8
    distance = np.abs(stats.norm(gap, error).rvs(400_000, random_state=0)).mean()
    assert found.value == pytest.approx((4 + 2 * gap - distance) / 40, abs=1e-3)
    assert 0 <= if_perfect < 0.05 and found.high > found.value


def test_auc_and_its_interval_agree_with_libraries():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(1)
    outcome = rng.random(400) < 0.6
    values = np.round(rng.random(400) + 0.4 * outcome, 1)  # ties
    found = signals.auc(values, outcome, np.arange(400))
    assert found.value == pytest.approx(roc_auc_score(outcome, values))
    draws = []
    for _ in range(400):
        pick = rng.integers(400, size=400)
        draws.append(roc_auc_score(outcome[pick], values[pick]))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.015)


def test_auc_with_one_outcome_only_is_undefined():
    assert np.isnan(signals.auc(np.arange(3.0), np.ones(3, bool), np.arange(3)).value)
    found = signals.signal_quality(trace_of(record([True] * 5)))
    assert np.isnan(found[0].auc.value) and found[0].brier.value == pytest.approx(0.25)


def test_roc_curve_area_is_the_auc():
    trace = random_trace(20)
    false, true = signals.roc_curve(trace, "confidence", points=10_000)
    area = signals.signal_quality(trace)[0].auc.value
    assert np.trapezoid(true, false) == pytest.approx(area)
    coarse = signals.roc_curve(trace, "confidence", points=50)
    assert len(coarse[0]) <= 51 and coarse[0][-1] == coarse[1][-1] == 1


def test_reached_positions_by_hand():
    class Rows:  # two iterations of constant lookahead 3: accepted 1 of 3, then 2 of 2
        prompt, position = np.array([0, 0, 1]), np.array([0, 2, 0])
        drafted, accepted = np.array([3, 2, 0]), np.array([1, 2, 0])

    trace = trace_of(record([True, False, True, True, True]), record([True], name="b"))
    # tokens 0 and 1 (accepted, refused), 2 and 3; token 4 comes from the target, prompt b drafts nothing
    assert signals.reached(trace, Rows).tolist() == [True, True, True, True, False, False]
    found = signals.signal_quality(trace, signals.reached(trace, Rows), "constant:tokens=3")
    assert found[0].count == 4 and found[0].positions == "constant:tokens=3" and found[0].accepted == 0.75
    with pytest.raises(ValueError, match="never drafted"):
        signals.signal_quality(trace, np.zeros(6, bool))


def test_reliability_by_hand():
    trace = trace_of(record([True, False, True, True], confidence=[0.2, 0.3, 0.9, 1.0]))
    found = signals.reliability(trace, bins=2)
    assert found.score.tolist() == pytest.approx([0.25, 0.95]) and found.accepted.tolist() == [0.5, 1]
    assert found.count.tolist() == [2, 2] and found.edges.tolist() == [[0, 0.5], [0.5, 1]]
    assert np.isnan(found.low).all()  # one prompt
    other = record([True, True, False, True], confidence=[0.2, 0.4, 0.9, 1.0], name="b")
    found = signals.reliability(
        trace_of(record([True, False, True, True], confidence=[0.2, 0.3, 0.9, 1.0]), other), bins=2
    )
    assert np.all((found.low >= 0) & (found.low < found.accepted) & (found.accepted < found.high) & (found.high <= 1))


def test_unknown_signal_is_refused():
    with pytest.raises(ValueError, match="confidence, entropy, margin, not 'logit'"):
        signals.score(random_trace(2), "logit")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("mbpp", "MBPP"),
        ("tatsu-lab/alpaca", "Alpaca"),
        ("abisee/cnn_dailymail", "CNN-DM"),
        ("openai_humaneval", "HumanEval"),
        ("c4", None),
    ],
)
def test_published_numbers_are_found_by_name(name, data):
    found = published_for(name)
    assert (found.data if found else None) == data


@pytest.mark.parametrize(("data", "ratio"), [("Alpaca", 1.31), ("CNN-DM", 2.27), ("MBPP", 6.97), ("HumanEval", 9.0)])
def test_published_spread_over_a_geometric(data, ratio):
    numbers = ORACLE_ANALYSIS[data]
    assert numbers.sd**2 / (numbers.mean * (numbers.mean - 1)) == pytest.approx(ratio, abs=0.02)


def test_scores_are_ranked_by_numbers_that_rise_with_them():
    values = np.array(
        [-np.inf, -2.5, -1e-40, -0.0, 0.0, 1e-40, 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 3], np.float32
    )
    codes = signals._codes(values)
    assert codes.dtype == np.uint32 and np.array_equal(signals._decoded(codes), values)
    assert np.array_equal(np.diff(codes.astype(np.int64)) > 0, [True, True, True, False, True, True, True, True])


def test_entropies_whose_scores_are_equal_are_ties():
    # exp(-H) is 1 for both of the first two: no order among them, and both above the third.
    data = trace(*(pattern("+-+", index=index) for index in range(2)))
    data = dataclasses.replace(data, entropy=np.array([1e-20, 1e-25, 0.5] * 2, np.float32))
    found = signals.signal_quality(data, names=["entropy"])[0]
    # Accepted: 1, exp(-0.5); refused: 1.  One pair is a tie, in the other the accepted one is lower.
    assert found.auc.value == 0.25


def test_one_prompt_and_prompts_that_are_alike_have_no_negative_design_effect():
    one = variation.design_effect(np.array([11]), np.array([49]), np.array([330]))
    assert np.isnan(one.value)
    alike = variation.design_effect(*(np.full(12, each) for each in (9, 35, 213)))
    assert 0 <= alike.value < 1e-9


def test_a_calibration_error_ends_at_one_and_allows_for_a_long_text():
    few, _ = calibration_error(np.array([[9.0], [1.0]]), np.array([10, 10]))
    assert few.high == 1
    even, _ = calibration_error(np.array([[3.0], [1.0], [2.0]]), np.array([10, 10, 10]))
    long, _ = calibration_error(np.array([[3.0], [1.0], [200.0]]), np.array([10, 10, 1000]))
    assert even.high - even.value == pytest.approx(stats.t.ppf(0.975, 2) * np.sqrt(2 * 3 / 2) / 30)
    assert long.high - long.value > 2 * stats.t.ppf(0.975, 2) * np.sqrt(2 * 3 / 2) / 1020
