import dataclasses

import numpy as np
import pytest
from builders.pairs import tiny_pair
from builders.runs import COST, fake_runs, some_trace
from builders.traces import pattern, trace
from builders.virtual import PROMPTS, Virtual

from analysis.measured.calibrate import FIT, FIXED, calibrate
from analysis.measured.disturbances import disturbed
from analysis.measured.divergences import Divergence
from analysis.validation.error_parts import PARTS
from analysis.validation.folds import cross_fit
from analysis.validation.validate import Budget, combine, validate
from oracle.collect import collect
from oracle.measure import measure
from oracle.policies import parse
from oracle.records.runs import Runs
from oracle.records.trace import Trace

POLICIES = ("constant:tokens=5", "dynamic", "heuristic:tokens=4", "roc")
SOURCE = some_trace()


@pytest.fixture(scope="module")
def runs():
    return fake_runs(SOURCE, [*FIT, *POLICIES])


@pytest.fixture(scope="module")
def cost(runs):
    return calibrate(runs).cost


def test_runs_priced_by_the_model_are_simulated_without_error(runs, cost):
    found = validate(SOURCE, runs, cost)
    assert [row.policy for row in found.rows] == list(POLICIES)
    for row in found.rows:
        assert (row.identical, row.difference, row.different_texts, row.comparable) == (1, None, 0, True)
        assert row.error.value == pytest.approx(0, abs=1e-9) and row.total_error == pytest.approx(0, abs=1e-6)
        assert row.simulated.low < row.simulated.value < row.simulated.high
        assert all(abs(part.value) < 1e-9 for part in row.parts.values())
        assert row.error.low <= row.error.value + 1e-12 and row.error.high >= row.error.value - 1e-12
    assert found.passed and found.failures == []


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"draft": 2 * COST.draft}, "draft"),
        ({"verify": tuple((n, 1.2 * price) for n, price in COST.verify)}, "verify"),
        ({"iteration": 0.004}, "iteration"),
        ({"plain": 0.02}, "plain"),
    ],
)
def test_a_wrong_price_is_found_in_its_own_part(runs, cost, changed, part):
    found = validate(SOURCE, runs, dataclasses.replace(COST, **changed))
    for row in found.rows:
        assert tuple(row.parts) == PARTS
        assert sum(each.value for each in row.parts.values()) == pytest.approx(row.error.value)
        assert row.parts[part].value == pytest.approx(row.error.value) and abs(row.error.value) > 0.02
        assert row.parts[part].low <= row.parts[part].value <= row.parts[part].high
    assert not found.passed


def test_a_policy_that_was_slower_in_one_repeat_is_measured_as_in_the_others(cost):
    """Its price moves with the mean; the measured speedup, of medians, does not; drift says so."""
    slow = fake_runs(
        SOURCE, POLICIES[:1], speed=lambda repeat, prompt, policy: 1.3 if policy != "none" and repeat == 1 else 1.0
    )
    row = validate(SOURCE, slow, cost).rows[0]
    assert row.error.value == pytest.approx(0, abs=1e-9)
    assert row.spread == pytest.approx(np.std([1, 1 / 1.3, 1], ddof=1))
    assert sum(row.parts[name].value for name in ("draft", "verify", "iteration")) == pytest.approx(np.log(1.1))
    assert row.parts["drift"].value == pytest.approx(-np.log(1.1))


def test_a_call_that_was_slow_alone_changes_neither_price_nor_speedup(cost):
    backup = {(1, 0, FIT[0]), (2, 3, "none"), (1, 2, POLICIES[0])}
    spoilt = fake_runs(
        SOURCE,
        [*FIT, *POLICIES[:1]],
        speed=lambda repeat, prompt, policy: 1 + 0.6 * ((repeat, prompt, policy) in backup),
    )
    assert disturbed(spoilt) == {(policy, repeat, prompt) for repeat, prompt, policy in backup}
    fitted = calibrate(spoilt)
    assert (fitted.calls, fitted.disturbed) == (5 * 6 * 3, 2)
    assert fitted.cost.draft == pytest.approx(cost.draft)
    parts = validate(SOURCE, spoilt, fitted.cost).rows[0].parts
    assert max(abs(part.value) for name, part in parts.items() if name != "drift") < 1e-9


def test_a_machine_that_is_slow_for_all_disturbs_no_call():
    slow = fake_runs(SOURCE, POLICIES, speed=lambda repeat, prompt, policy: 3.0 if (repeat, prompt) == (1, 0) else 1.0)
    assert disturbed(slow) == frozenset()
    twice = fake_runs(SOURCE, POLICIES, repeats=2, speed=lambda repeat, *_: 1.0 + 9 * repeat)
    assert disturbed(twice) == frozenset()


def change(runs, policy, **columns):
    """The runs with columns of this policy's first call replaced."""
    calls = list(runs.calls)
    at = next(number for number, call in enumerate(calls) if call.policy == policy)
    calls[at] = dataclasses.replace(calls[at], **{key: make(calls[at]) for key, make in columns.items()})
    return Runs(runs.meta, tuple(calls))


def longer_first_draft(call):
    return call.drafted + (np.arange(len(call.drafted)) == 0)


def test_other_counts_fail_in_float32_and_are_shown(runs, cost):
    odd = change(runs, "dynamic", drafted=longer_first_draft)
    found = validate(SOURCE, odd, cost, policies=["dynamic"])
    row = found.rows[0]
    assert row.identical == pytest.approx(1 - 1 / row.iterations)
    assert (row.difference.prompt, row.difference.iteration) == ("p0", 0)
    assert row.difference.measured[1] == row.difference.replayed[1] + 1
    assert "drafted" in str(row.difference)
    assert "of the iterations are identical, 100% wanted" in found.failures[0]


def test_other_counts_do_not_fail_in_half_precision(cost):
    half = fake_runs(SOURCE, ["dynamic"], dtype="bfloat16")
    found = validate(SOURCE, change(half, "dynamic", drafted=longer_first_draft), cost.for_any_pair())
    assert found.rows[0].identical < 1 and found.passed


def test_texts_that_leave_plain_decodings_are_listed_with_the_margin(cost):
    half = fake_runs(SOURCE, ["dynamic"], dtype="bfloat16")
    changed = {"equal": lambda _: False, "first_difference": lambda _: 7, "difference_margin": lambda _: 0.25}
    row = validate(SOURCE, change(half, "dynamic", **changed), cost.for_any_pair()).rows[0]
    assert row.divergences == (Divergence("p0", 7, 0.25, near_tie=True),)


def test_a_lead_that_rounding_cannot_turn_is_a_fault_in_any_dtype(cost):
    for dtype, lead in (("bfloat16", 3.0), ("float32", 0.01)):
        changed = {"equal": lambda _: False, "first_difference": lambda _: 7, "difference_margin": lambda _, m=lead: m}
        lost = change(fake_runs(SOURCE, ["dynamic"], dtype=dtype), "dynamic", **changed)
        found = validate(SOURCE, lost, cost.for_any_pair())
        assert found.failures == [
            f"dynamic on {SOURCE.dataset}: the text of prompt p0 leaves plain decoding's at token 7, where the "
            f"target's lead is {lead:.2g} logits: no rounding, a fault"
        ]


def test_a_policy_that_reads_beyond_the_record_is_a_failure_not_an_error(cost):
    source = trace(pattern("+-++++++++", overruns={1: [(3, 0.9)]}), max_overrun=1)
    runs = fake_runs(source, ["constant:tokens=8", "constant:tokens=2"])
    policy = "dynamic:threshold=0.5,tokens=8"
    renamed = [
        dataclasses.replace(call, policy=call.policy.replace("constant:tokens=8", policy)) for call in runs.calls
    ]
    found = validate(source, Runs(runs.meta, tuple(renamed)), cost, dataset="short")
    assert [row.policy for row in found.rows] == ["constant:tokens=2"]
    assert found.failures[0].startswith(f"{policy} on short cannot be replayed: this policy reads signals")
    assert combine([found, found]).failures[1].startswith(policy)


def test_policies_are_told_apart_by_what_runs(runs):
    fixed = calibrate(fake_runs(SOURCE, FIXED)).cost
    for policy in ("dynamic:threshold=0,tokens=8", "roc:threshold=0,tokens=8"):
        with pytest.raises(ValueError, match="the cost model was fitted on it"):
            validate(SOURCE, runs, fixed, policies=[policy])
    with pytest.raises(ValueError, match="'none' is what the others are compared with"):
        validate(SOURCE, runs, fixed, policies=["none"])


def test_another_pairs_trace_is_refused(runs, cost):
    mine = dataclasses.replace(SOURCE, meta=SOURCE.meta | {"draft": {"weights_sample_sha256": "a"}})
    theirs = Runs(runs.meta | {"draft": {"weights_sample_sha256": "b"}}, runs.calls)
    with pytest.raises(ValueError, match="trace is of a draft with weights_sample_sha256 a, the runs with b"):
        validate(mine, theirs, cost)
    assert validate(mine, runs, cost).passed  # unknown is not different


def test_prices_beyond_what_was_measured_are_named(runs, cost):
    narrow = dataclasses.replace(cost, measured_range={"tokens": [1, 4], "context": [5, 200]})
    rows = {row.policy: row.outside for row in validate(SOURCE, runs, narrow).rows}
    assert "tokens 1-6 outside the measured 1-4" in rows["constant:tokens=5"]
    assert all(row.outside is None for row in validate(SOURCE, runs, cost).rows)


def reason(source, policy, dtype="float32", **columns):
    odd = change(fake_runs(source, [policy], repeats=1, dtype=dtype), policy, **columns)
    return validate(source, odd, COST).rows[0].difference.reason


def lead(logits):
    return dataclasses.replace(SOURCE, target_margin=np.full_like(SOURCE.target_margin, logits))


def other_text(call):
    return np.where(np.arange(len(call.tokens)) == 2, 5, call.tokens)


def test_differences_are_explained():
    changed = {"drafted": lambda call: call.drafted + 2, "tokens": other_text}
    assert "no near-tie: a fault" in reason(SOURCE, "constant:tokens=5", **changed)
    close = lead(1e-5)
    assert "token 2" in reason(close, "constant:tokens=5", **changed)
    assert reason(close, "constant:tokens=5", **changed).endswith("a near-tie")
    assert "a near-tie (bfloat16 rounds" in reason(tie := lead(0.3), "constant:tokens=5", "bfloat16", **changed)
    assert "a fault" in reason(tie, "constant:tokens=5", **changed)
    assert "a fault (bfloat16 rounds" in reason(lead(0.6), "constant:tokens=5", "bfloat16", **changed)
    assert "unexplained" in reason(SOURCE, "constant:tokens=5", drafted=longer_first_draft)
    tied = dataclasses.replace(SOURCE, margin=np.full_like(SOURCE.margin, 1e-6))
    assert "the draft's lead" in reason(tied, "constant:tokens=5", drafted=longer_first_draft)
    beside = float(SOURCE.confidence[0]) + 1e-6
    at_threshold = {"drafted": longer_first_draft, "threshold": lambda call: np.full(len(call.drafted), beside)}
    assert "from the threshold" in reason(SOURCE, f"dynamic:threshold={beside}", **at_threshold)


def test_prices_that_name_a_file_of_policies_do_not_run_it(runs, cost, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    told = dataclasses.replace(cost, machine=cost.machine | {"fitted_on": [f"{file}:Rule", *FIT]})
    assert validate(SOURCE, runs, told).rows
    assert not (tmp_path / "ran").exists()


def test_a_policy_that_the_model_was_fitted_on_proves_nothing(runs, cost):
    with pytest.raises(ValueError, match=f"'{FIT[1]}': the cost model was fitted on it"):
        validate(SOURCE, runs, cost, policies=[FIT[1]])
    with pytest.raises(ValueError, match="fitted on every policy that ran"):
        validate(SOURCE, fake_runs(SOURCE, FIT), cost)
    assert validate(SOURCE, runs, COST, policies=[FIT[1]]).passed  # a model from elsewhere may


# --- prices of other calls, and what can be decided -------------------------------------------------------------------


def noisy(seed, *, repeats=4, spread=0.03, slower=1.0, prompts=6, policies=POLICIES[:2]):
    """Runs whose calls vary around the model's seconds; the policies that are judged are ``slower`` than it says."""
    random = np.random.default_rng(seed)

    def speed(repeat, prompt, policy):
        return random.lognormal(0, spread) * (slower if policy in policies else 1)

    return fake_runs(some_trace(prompts=prompts, size=50), [*FIT[:2], *policies], repeats=repeats, speed=speed)


def judged(runs, prompts=6, budget=None):
    return validate(some_trace(prompts=prompts, size=50), runs, cross_fit(runs), budget=budget)


def test_no_call_is_judged_with_prices_that_it_had_a_part_in():
    """One repeat runs at half speed throughout: its own prices would hide that, those of the other half do not."""
    runs = fake_runs(SOURCE, [*FIT, *POLICIES], repeats=4, speed=lambda repeat, *_: 2.0 if repeat in (1, 3) else 1.0)
    folds = cross_fit(runs)
    assert [sorted(fold.repeats) for fold in folds] == [[0, 2], [1, 3]]
    slow, usual = (float(fold.cost.step(40)) for fold in folds)
    assert slow == pytest.approx(2 * usual) and usual == pytest.approx(float(COST.step(40)))
    rows = validate(SOURCE, runs, folds).rows
    assert {row.fitted for row in rows} == {"other repeats"}
    assert all(row.error.value == pytest.approx(0, abs=1e-6) for row in rows)  # of ratios the speed is no part


def test_prices_of_a_single_repeat_come_from_the_other_prompts():
    runs = fake_runs(SOURCE, [*FIT, *POLICIES], repeats=1)
    folds = cross_fit(runs)
    assert [sorted(fold.prompts) for fold in folds] == [[0, 2, 4], [1, 3, 5]]
    found = validate(SOURCE, runs, folds)
    assert {row.fitted for row in found.rows} == {"other prompts"} and found.passed
    assert all(row.error.value == pytest.approx(0, abs=2e-3) for row in found.rows)  # tables are coarser from less
    one = fake_runs(some_trace(prompts=1, size=200), [*FIT, "dynamic"], repeats=1)
    with pytest.raises(ValueError, match="one repeat of one prompt is all that was measured"):
        cross_fit(one)


def test_an_error_is_kept_broken_or_undecided_by_its_whole_interval():
    wide = Budget(median=0.5, worst=0.5)
    assert judged(noisy(0), budget=wide).verdict == "pass"
    tight = judged(noisy(0), budget=Budget(median=0.001, worst=0.001))
    assert tight.verdict == "undecided" and not tight.passed and not tight.failures
    assert "the median error of the speedups is" in tight.open[0] and "is undecided" in tight.open[0]
    assert {row.verdict(tight.budget) for row in tight.rows} == {"undecided"}
    off = judged(noisy(0, slower=1.3))
    assert off.verdict == "fail" and "at most 3% wanted" in off.failures[0]
    assert {row.verdict(off.budget) for row in off.rows} == {"fail"}
    for row in tight.rows:
        assert row.floor == pytest.approx(np.log((1 + row.error.high) / (1 + row.error.low)) / 2, rel=0.1)


def test_one_prompt_decides_nothing_about_others():
    runs = fake_runs(some_trace(prompts=1, size=200), [*FIT, "dynamic"])
    found = validate(some_trace(prompts=1, size=200), runs, cross_fit(runs))
    assert found.verdict == "undecided" and np.isnan(found.rows[0].floor)


def test_a_perfect_simulator_does_not_fail_and_its_intervals_hold_the_truth():
    """Calls that vary by 3 %: at the noise floor of so few, errors leave the budget by themselves."""
    found = [judged(noisy(seed, repeats=2), budget=Budget(median=0.01, worst=0.02)) for seed in range(20)]
    assert [each.verdict for each in found].count("fail") <= 1
    errors = [row.error for each in found for row in each.rows]
    assert max(abs(error.value) for error in errors) > 0.02
    assert np.mean([error.low <= 0 <= error.high for error in errors]) >= 0.9


def test_trace_and_runs_must_be_of_the_same_prompts(runs, cost):
    other = dataclasses.replace(SOURCE, prompt_tokens=SOURCE.prompt_tokens + 1)
    with pytest.raises(ValueError, match="prompt 'p0' has other tokens"):
        validate(other, runs, cost)
    with pytest.raises(ValueError, match="prompt 'p3' was measured but is not in the trace"):
        validate(some_trace(prompts=3), runs, cost)
    with pytest.raises(ValueError, match="max_new_tokens is 61 in the trace, 60 in the runs"):
        validate(dataclasses.replace(SOURCE, max_new_tokens=SOURCE.max_new_tokens + 1), runs, cost)


def test_unfinished_runs_are_compared_as_far_as_they_go(runs, cost):
    cut = Runs(runs.meta, tuple(call for call in runs.calls if call.repeat < 2 or call.prompt < 4))
    found = validate(SOURCE, cut, cost)
    assert {row.prompts for row in found.rows} == {4} and found.passed


def test_seconds_of_another_generator_are_not_judged(cost):
    ours = fake_runs(SOURCE, ["dynamic"], generator="loop", speed=lambda repeat, prompt, policy: 1 + (policy != "none"))
    found = validate(SOURCE, ours, cost)
    assert (found.rows[0].comparable, found.rows[0].identical) == (False, 1)
    assert found.failures == ["no policy's seconds could be compared"]


def test_the_verdict_is_over_all_data_sets(runs, cost):
    good = validate(SOURCE, runs, cost, dataset="one")
    bad = validate(
        SOURCE,
        fake_runs(SOURCE, POLICIES[:1], speed=lambda r, p, policy: 1.1 if policy == "none" else 1),
        cost,
        dataset="two",
    )
    both = combine([good, bad])
    assert [row.dataset for row in both.rows] == ["one"] * 4 + ["two"]
    assert both.failures == ["the error of constant:tokens=5 on two is -9.1% (-9.1% to -9.1%), at most 8% wanted"]
    assert (both.verdict, good.verdict) == ("fail", "pass")
    assert combine([dataclasses.replace(good, budget=Budget(worst=0.1)), bad]).passed


def test_the_whole_chain_on_a_clock_of_its_own(tmp_path):
    """Collect, measure the library's real runs under known prices, calibrate, simulate: nothing is left over."""
    pair = tiny_pair()
    collect(pair, PROMPTS, tmp_path, max_new_tokens=32, max_overrun=64)
    world = Virtual(
        pair,
        lambda tokens, context: 0.1 + 0.0005 * context,
        lambda tokens, context: 1 + 0.05 * (tokens - 1) + 0.001 * context,
    )
    lengths = ["constant:tokens=1", "constant:tokens=2", "constant:tokens=12"]
    validated = ["constant:tokens=5", "dynamic:threshold=0.4,tokens=8", "heuristic", "roc:tokens=10"]
    runs = measure(pair, PROMPTS, [*lengths, *validated], max_new_tokens=32, repeats=1, clock=world.clock)
    cost = calibrate(runs, lengths).cost
    found = validate(Trace.load(tmp_path), runs, cost)
    assert {parse(row.policy) for row in found.rows} == {parse(policy) for policy in validated}
    for row in found.rows:
        assert row.identical == 1, row.difference
        assert abs(row.error.value) < 0.01 and abs(row.total_error) < 0.01
    assert found.passed


@pytest.mark.parametrize(
    "options", [{"counts": np.nan}, {"counts": 1.1}, {"counts": True}, {"median": 0}, {"worst": -1}, {"worst": np.inf}]
)
def test_a_budget_that_means_nothing_is_refused(options):
    with pytest.raises(ValueError, match=f"^budget {next(iter(options))}.* it must be "):
        Budget(**options)
