import dataclasses
import itertools

import numpy as np
import pytest
from builders.traces import pattern, trace
from scipy import stats

from analysis.describe import signals, statistics
from analysis.describe.curves import hazard, profile
from analysis.describe.repeats import repeat_starts, repeating
from analysis.intervals import Estimate
from analysis.published import ORACLE_ANALYSIS, published_for
from analysis.verdict import Gap, verdict
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
    assert np.isnan(found.heterogeneity.icc.value)
    assert statistics.plain(found)["accepted"]["mean"] == {"value": 0.75, "low": None, "high": None}


@pytest.mark.parametrize("agrees", [[True], [False], [True] * 9, [False] * 9])
def test_smallest_and_extreme_texts_end_well(agrees):
    found = statistics.describe(trace_of(record(agrees), record(agrees, name="b")), resamples=10)
    assert found.everything.accepted.iterations >= 2
    assert len(hazard(trace_of(record(agrees))).x) <= 9


def test_acceptance_rate_counts_every_position_but_the_last_once():
    trace = random_trace(20)
    inner = np.arange(trace.tokens) != trace.end - 1
    found = statistics.acceptance_rate(trace, resamples=10)
    assert found.value == pytest.approx(trace.agrees[inner].mean())


def test_censoring_and_longest_share_by_hand():
    trace = trace_of(of_runs(2, 0, 1, last=1), of_runs(4, name="b"))  # last runs: 1 and 0 of 8 accepted tokens
    found = statistics.censoring(trace, resamples=10)
    assert found.iterations.value == pytest.approx(2 / 6) and found.accepted.value == pytest.approx(1 / 8)
    assert statistics.longest_share(trace, resamples=10).value == 0.5  # one of six iterations has 4 of 8
    many = trace_of(of_runs(*[1] * 198, 10))  # 200 iterations with the last: the longest two have 10 + 1 of 208
    assert statistics.longest_share(many).value == pytest.approx(11 / 208)


def test_averages_over_iterations_and_positions():
    trace = trace_of(of_runs(3, last=0))  # flags 1110 1: runs from each position 3 2 1 0 0
    found = statistics.averages(trace)
    assert found.over_iterations.value == 1.5 and found.over_positions.value == 6 / 5


def test_icc_matches_anova_by_hand():
    trace = trace_of(of_runs(1, 1, last=1), of_runs(4, 4, last=4, name="b"))
    assert statistics.heterogeneity(trace, resamples=10).icc.value == pytest.approx(1)  # no spread within prompts
    trace = trace_of(of_runs(0, 2, last=1), of_runs(3, last=5, name="b"))  # 0 2 1 | 3 5, grand mean 2.2
    between = 3 * (1 - 2.2) ** 2 + 2 * (4 - 2.2) ** 2
    within = (2 + 2) / 3
    size = 5 - (9 + 4) / 5
    icc = (between - within) / (between + (size - 1) * within)
    found = statistics.heterogeneity(trace, resamples=10)
    assert found.icc.value == pytest.approx(icc)
    assert found.design_effect.value == pytest.approx(1 + (13 / 5 - 1) * icc)


def test_lag1_by_hand():
    trace = trace_of(of_runs(0, 2, 0, last=2))  # around the mean 1: -1 1 -1 1
    assert statistics.heterogeneity(trace).lag1.value == pytest.approx(-3 / 4 + (3 / 4) / 3)


def test_independent_acceptance_shows_no_structure():
    trace = random_trace(300, 100)
    found = statistics.statistics(trace, resamples=200)
    assert found.excess_dispersion.low < 1 < found.excess_dispersion.high
    assert abs(found.heterogeneity.icc.value) < 0.02 and abs(found.heterogeneity.lag1.value) < 0.02


def test_prompts_that_differ_are_seen():
    found = statistics.heterogeneity(random_trace(100, 100, spread=0.2), resamples=100)
    assert found.icc.low > 0.05 and found.design_effect.value > 1.5


def test_iid_dispersion_is_exact_by_enumeration():
    rate, size = 0.7, 6
    chance, total, square = 0.0, 0.0, 0.0
    for flags in itertools.product([False, True], repeat=size):
        weight = np.prod([rate if flag else 1 - rate for flag in flags])
        accepted = trace_of(record(flags)).iterations().accepted.to_numpy()
        chance, total = chance + weight * len(accepted), total + weight * accepted.sum()
        square += weight * (accepted**2).sum()
    mean = total / chance
    expected = (square / chance - mean**2) / (mean * (mean + 1))
    assert statistics.iid_dispersion(np.array([size, size]), rate) == pytest.approx(expected)


def test_hazard_by_hand_counts_a_cut_run_as_far_as_it_is_known():
    trace = trace_of(of_runs(2, 0, last=1))  # 2 and 0 ended, 1 cut short
    found = hazard(trace)
    assert found.x.tolist() == [0, 1, 2]
    assert found.count.tolist() == [3, 1, 1]  # the cut run is known to accept one, its second is not known
    assert found.value.tolist() == [pytest.approx(2 / 3), 1, 0]
    assert np.all(found.low <= found.value) and np.all(found.value <= found.high)
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
    by_name = {found.signal: found for found in signals.signal_quality(trace, resamples=10)}
    found = by_name["confidence"]
    assert (found.count, found.accepted) == (4, 0.5)
    assert found.auc.value == (1 + 1 + 0.5 + 1) / 4
    assert found.brier.value == pytest.approx((0.01 + 0.16 + 0.36 + 0.01) / 4, abs=1e-6)
    # bins of 1/15: {0.9}, {0.6, 0.6}, {0.1}
    assert found.calibration_error.value == pytest.approx((0.1 + abs(1.2 - 1) + 0.1) / 4, abs=1e-6)
    assert found.spearman == pytest.approx(stats.spearmanr([0.9, 0.6, 0.6, 0.1], [1, 1, 0, 0]).statistic)
    # exp(-entropy) is the same score here, and a sign-flipped entropy has the same ranks as exp(-entropy)
    assert by_name["entropy"].auc.value == found.auc.value


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
    found = signals.signal_quality(trace_of(record([True] * 5)), resamples=5)
    assert np.isnan(found[0].auc.value) and found[0].brier.value == pytest.approx(0.25)


def test_roc_curve_area_is_the_auc():
    trace = random_trace(20)
    false, true = signals.roc_curve(trace, "confidence", points=10_000)
    area = signals.signal_quality(trace, resamples=5)[0].auc.value
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
    found = signals.signal_quality(trace, signals.reached(trace, Rows), "constant:tokens=3", resamples=5)
    assert found[0].count == 4 and found[0].positions == "constant:tokens=3" and found[0].accepted == 0.75
    with pytest.raises(ValueError, match="never drafted"):
        signals.signal_quality(trace, np.zeros(6, bool))


def test_reliability_by_hand():
    trace = trace_of(record([True, False, True, True], confidence=[0.2, 0.3, 0.9, 1.0]))
    found = signals.reliability(trace, bins=2)
    assert found.score.tolist() == pytest.approx([0.25, 0.95]) and found.accepted.tolist() == [0.5, 1]
    assert found.count.tolist() == [2, 2] and found.edges.tolist() == [[0, 0.5], [0.5, 1]]
    assert np.all(found.low >= 0) and found.high[1] == pytest.approx(1) and found.low[1] < 0.6


def test_unknown_signal_is_refused():
    with pytest.raises(ValueError, match="confidence, entropy, margin, not 'logit'"):
        signals.score(random_trace(2), "logit")


# --- verdict ---------------------------------------------------------------------------------------------------------


def sure(value, width=0.01):
    return Estimate(value, value - width, value + width)


def made_up(excess=1.0, icc=0.02, longest=0.05, cut=0.05, loops=()):
    base = statistics.statistics(random_trace(4), resamples=5)
    found = dataclasses.replace(
        base,
        excess_dispersion=sure(excess, 0.05),
        longest_share=sure(longest),
        censoring=statistics.Censoring(sure(0.1), sure(cut)),
        heterogeneity=statistics.Heterogeneity(sure(icc), sure(1 + 10 * icc), sure(0.1)),
    )
    return statistics.Description(found, base if loops else None, loops)


def made_up_gap(gain=1.2, width=0.02, per_prompt=None):
    return Gap("constant:tokens=4", sure(1.5), "oracle:detect", sure(1.5 * gain), sure(gain, width), per_prompt)


def made_up_signal(area, width=0.01, name="margin"):
    return signals.SignalQuality(name, signals.EVERY, 1000, 0.7, sure(area, width), 0.2, sure(0.1), sure(0.1))


@pytest.mark.parametrize(
    ("excess", "p", "rejected", "words"),
    [
        (1.0, 0.5, False, "is not rejected (goodness of fit of the geometric distribution: p = 0.5)"),
        (2.3, 0.5, True, "varies 2.3 (2.25 to 2.35) times as much"),
        (1.0, 0.005, True, "p = 0.005): the oracle SL varies 1 (0.95 to 1.05) times as much"),
        (1.07, 0.5, True, "real but small"),
        (0.8, float("nan"), True, "varies 0.8 (0.75 to 0.85)"),
        (float("nan"), float("nan"), None, "collect more prompts"),
    ],
)
def test_verdict_on_iid(excess, p, rejected, words):
    found = verdict(made_up(excess), p)
    assert found.iid_rejected is rejected and words in found.sentences[0]


@pytest.mark.parametrize(
    ("gain", "width", "large", "words"),
    [
        (1.2, 0.02, True, "20.0% (18.0 to 22.0%) more, which is what a perfect choice"),
        (1.02, 0.01, False, "hardly anything is lost"),
        (1.1, 0.2, None, "collect more prompts"),
    ],
)
def test_verdict_on_the_gap(gain, width, large, words):
    found = verdict(made_up(), 0.5, made_up_gap(gain, width))
    assert found.gap is large and words in str(found) and "constant:tokens=4" in str(found)


@pytest.mark.parametrize(("icc", "grade"), [(0.4, "much"), (0.1, "some"), (0.02, "little"), (-0.03, "little")])
def test_verdict_on_prompts(icc, grade):
    found = verdict(made_up(icc=icc), 0.5, made_up_gap(per_prompt=sure(1.08)))
    assert found.between_prompts == grade
    assert f"{max(icc, 0):.1%} of the variance" in str(found) and "would add 8.0% (7.0 to 9.0%)" in str(found)


def test_verdict_on_prompts_needs_more_than_one():
    assert verdict(made_up(icc=float("nan")), 0.5).between_prompts is None


@pytest.mark.parametrize(
    ("area", "width", "grade"),
    [(0.88, 0.01, "well"), (0.7, 0.01, "partly"), (0.6, 0.01, "hardly"), (0.7, 0.3, "hardly")],
)
def test_verdict_on_signals_names_the_best(area, width, grade):
    found = verdict(made_up(), 0.5, signals=[made_up_signal(0.51, name="entropy"), made_up_signal(area, width)])
    assert found.predictable == grade and "the best is margin" in str(found) and "1,000 positions" in str(found)
    assert verdict(made_up(), 0.5, signals=[made_up_signal(float("nan"))]).predictable is None


@pytest.mark.parametrize(
    ("gain", "icc", "area", "advice"),
    [
        (1.01, 0.4, 0.9, "keep the best constant"),
        (1.3, 0.4, 0.9, "per prompt"),
        (1.3, 0.02, 0.9, "threshold on that signal"),
        (1.3, 0.02, 0.55, "out of reach"),
    ],
)
def test_verdict_ends_with_advice(gain, icc, area, advice):
    found = verdict(made_up(icc=icc), 0.01, made_up_gap(gain), [made_up_signal(area)])
    assert found.sentences[-1].startswith("Advice:") and advice in found.sentences[-1]


def test_verdict_warns_of_tails_cuts_and_loops():
    text = str(verdict(made_up(longest=0.3, cut=0.2, loops=("a", "b")), 0.5))
    assert (
        "longest 1% of iterations bring 30%" in text
        and "hold 20%" in text
        and "2 of 4 texts repeat themselves to the end" in text
    )
    assert "loop" not in str(verdict(made_up(), 0.5)) and "longest" not in str(verdict(made_up(), 0.5))


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


@pytest.mark.parametrize(
    ("constant", "oracle", "words"),
    [(0.9, 1.4, "use no draft, unless"), (0.7, 0.95, "this draft cannot pay"), (1.1, 1.4, "")],
)
def test_verdict_says_when_a_draft_is_a_loss(constant, oracle, words):
    gap = Gap("constant:tokens=1", sure(constant), "oracle:optimal", sure(oracle), sure(oracle / constant))
    sentences = verdict(made_up(), 0.5, gap).sentences
    loss = [text for text in sentences if "At these prices" in text]
    assert words in loss[0] if words else not loss


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
