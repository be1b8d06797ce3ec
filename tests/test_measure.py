import dataclasses
import importlib
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from builders.pairs import tiny_pair
from builders.runs import COST, fake_runs, some_trace
from builders.virtual import PROMPTS, Virtual, same_models

from analysis.cost import CostModel
from analysis.measured.speedups import Paired, measured, paired, speedup, summary
from analysis.replay.simulate import simulate
from oracle.collect import collect
from oracle.measure import measure, rotation
from oracle.policies import Policy, parse
from oracle.policies import library as arms
from oracle.records import runs as files
from oracle.records.runs import ITERATION_COLUMNS, Runs
from oracle.records.trace import Trace

POLICIES = ["constant:tokens=3", "heuristic"]
module = importlib.import_module("oracle.measure")  # `oracle.measure` is the function


def run(pair, policies=POLICIES, out=None, limit=10, prompts=PROMPTS[:2], **options):
    return measure(pair, prompts, policies, out, max_new_tokens=limit, **{"repeats": 2, **options})


def facts(runs):
    """Everything but the seconds."""
    return [
        (
            call.key,
            call.tokens.tolist(),
            call.equal,
            call.drafted.tolist(),
            call.accepted.tolist(),
            call.budget.tolist(),
        )
        for call in sorted(runs.calls, key=lambda call: call.key)
    ]


# --- the plan --------------------------------------------------------------------------------------------------------


def test_arms_take_turns_and_plain_decoding_is_first_middle_and_last():
    arms = ["none", "a", "b", "c", "d"]
    orders = [rotation(arms, repeat, 3, prompt) for repeat in range(3) for prompt in range(4)]
    assert all(sorted(order) == sorted(arms) for order in orders)
    assert [order.index("none") for order in orders] == [0] * 4 + [2] * 4 + [4] * 4
    assert {order[1] for order in orders[:4]} == {"a", "b", "c", "d"}
    assert rotation(["none", "a"], 0, 1, 5) == ["none", "a"]


def test_every_repeat_runs_all_arms_on_a_prompt_before_the_next():
    runs = run(tiny_pair())
    assert [(call.repeat, call.prompt) for call in runs.calls] == [
        (repeat, prompt) for repeat in range(2) for prompt in range(2) for _ in range(3)
    ]
    assert runs.policies == ["none", *POLICIES]


def test_the_heuristic_carries_over_within_a_repeat_only():
    runs = run(tiny_pair(), ["heuristic:tokens=4", "heuristic_transient:tokens=4"], limit=20)
    for repeat in range(2):
        first, second = (call for call in runs.of("heuristic:tokens=4") if call.repeat == repeat)
        whole = first.accepted[-1] == first.drafted[-1]
        left = first.budget[-1] + 2 if whole else max(1, first.budget[-1] - 1)
        assert (first.budget[0], second.budget[0]) == (4, left)
    assert {call.budget[0] for call in runs.of("heuristic_transient:tokens=4")} == {4}


def test_drawn_lookaheads_go_on_from_prompt_to_prompt_and_are_replayed_exactly(tmp_path):
    pair, policy = tiny_pair(), "random:tokens=6,seed=1"
    runs = run(pair, [policy], limit=20, prompts=PROMPTS)
    in_force = {"tokens": 6, "schedule": "constant", "threshold": 0.0, "adaptive": False, "seed": 1}
    assert runs.meta["policies"] == {"none": {}, policy: in_force}
    for repeat in range(2):
        budgets = [int(budget) for call in runs.of(policy) if call.repeat == repeat for budget in call.budget]
        assert budgets == [parse(policy).lookahead(number) for number in range(len(budgets))]
        assert sorted(budgets[:6]) == [1, 2, 3, 4, 5, 6]
    collect(pair, PROMPTS, tmp_path, max_new_tokens=20, max_overrun=32)
    replayed = simulate(Trace.load(tmp_path), policy)
    for column in ("position", "drafted", "accepted"):
        measured_column = np.concatenate([getattr(call, column) for call in runs.of(policy) if call.repeat == 0])
        assert getattr(replayed, column).tolist() == measured_column.tolist()
    assert {call.generator for call in runs.of(policy)} == {"library"}


def test_drawn_lookaheads_go_on_after_an_interruption(tmp_path, monkeypatch):
    pair, policy = tiny_pair(), ["random:tokens=6"]
    whole, made, observe = facts(run(pair, policy)), [], module._observe

    def stop_after(*args):
        if len(made) == 2 + 3:  # 2 to warm up
            raise KeyboardInterrupt
        made.append(1)
        return observe(*args)

    monkeypatch.setattr(module, "_observe", stop_after)
    with pytest.raises(KeyboardInterrupt):
        run(pair, policy, out=tmp_path / "runs")
    monkeypatch.setattr(module, "_observe", observe)
    assert facts(run(pair, policy, out=tmp_path / "runs", resume=True)) == whole


def test_the_order_of_prompts_matters_to_the_heuristic_alone():
    pair, policies = tiny_pair(), ["heuristic:tokens=8", "heuristic_transient:tokens=8"]
    there = run(pair, policies, limit=20, repeats=1)
    back = run(pair, policies, limit=20, repeats=1, prompts=PROMPTS[1::-1])

    def drafts(runs, policy):
        return {call.prompt_tokens.tobytes(): call.drafted.tolist() for call in runs.of(policy)}

    assert drafts(there, policies[1]) == drafts(back, policies[1])
    assert drafts(there, policies[0]) != drafts(back, policies[0])


def test_a_policy_without_a_counterpart_in_the_library_runs_in_our_loop_and_says_so(monkeypatch):
    known = arms.settings_of
    lacking = parse("constant:tokens=2")
    monkeypatch.setattr(
        arms, "settings_of", lambda policy, state=None: None if policy == lacking else known(policy, state)
    )
    runs = run(tiny_pair(), ["constant:tokens=2", "constant:tokens=3"], repeats=1)
    assert {call.generator for call in runs.of("constant:tokens=2")} == {"loop"}
    assert {call.generator for call in runs.of("constant:tokens=3")} == {"library"}
    assert all(call.equal for call in runs.calls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policies": []}, "no policy to measure"),
        ({"policies": ["none"]}, "no policy to measure"),
        ({"policies": "dynamic"}, r"give a list, such as \['dynamic'\]"),
        ({"policies": ["dynamik"]}, "did you mean 'dynamic'"),
        ({"policies": ["oracle:detect"]}, "exists in simulation only"),
        ({"policies": ["dynamic", "dynamic:threshold=0.4"]}, "given twice"),
        ({"repeats": 0}, "repeats is 0"),
        ({"limit": 0}, "max_new_tokens is 0"),
        ({"prompts": [[]]}, "there is no prompt to measure"),
        ({"prompts": []}, "there is no prompt to measure"),
    ],
)
def test_bad_arguments_are_named(options, message, monkeypatch):
    pair = tiny_pair()
    pair.target.config.bos_token_id = pair.target.generation_config.bos_token_id = None
    with pytest.raises(ValueError, match=message):
        run(pair, **options)


# --- what is recorded ------------------------------------------------------------------------------------------------


def test_runs_on_disk_are_the_runs_in_memory(tmp_path):
    runs = run(tiny_pair(), out=tmp_path / "runs")
    loaded = Runs.load(tmp_path / "runs")
    assert loaded.meta == runs.meta | {"runs_schema": files.FOLDER.version}
    assert loaded.calls_table().equals(runs.calls_table())
    assert loaded.iterations().equals(runs.iterations())
    assert set(ITERATION_COLUMNS) | {"prompt", "policy", "repeat", "iteration", "context"} <= set(runs.iterations())
    assert sorted(file.name for file in (tmp_path / "runs").iterdir()) == ["calls.parquet", "meta.json"]
    assert json.loads((tmp_path / "runs" / "meta.json").read_text())["machine"]["threads"] >= 1


def test_an_interrupted_run_keeps_its_finished_calls_and_goes_on(tmp_path, monkeypatch):
    pair, whole = tiny_pair(), facts(run(tiny_pair(), out=tmp_path / "whole"))
    observe, made = module._observe, []

    def stop_after(*args):
        if len(made) == 3 + 8:  # 3 to warm up, 8 of the 12 that count
            raise KeyboardInterrupt
        made.append(1)
        return observe(*args)

    monkeypatch.setattr(module, "_observe", stop_after)
    with pytest.raises(KeyboardInterrupt):
        run(pair, out=tmp_path / "runs")
    assert len(Runs.load(tmp_path / "runs").calls) == 8
    monkeypatch.setattr(module, "_observe", observe)
    assert facts(run(pair, out=tmp_path / "runs", resume=True)) == whole
    assert facts(Runs.load(tmp_path / "runs")) == whole


def test_a_folder_is_never_overwritten_or_mixed(tmp_path):
    pair = tiny_pair()
    run(pair, out=tmp_path, repeats=1)
    with pytest.raises(ValueError, match="holds measured runs already"):
        run(pair, out=tmp_path, repeats=1)
    with pytest.raises(ValueError, match="was begun with repeats 1, this run has 2"):
        run(pair, out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="was begun with prompts_sha256"):
        run(pair, out=tmp_path, repeats=1, resume=True, prompts=PROMPTS[1:])
    with pytest.raises(ValueError, match="give one of them"):
        run(pair, out=tmp_path, resume=True, force=True)
    assert len(run(pair, ["dynamic"], out=tmp_path, repeats=1, force=True).calls) == 4
    assert Runs.load(tmp_path).policies == ["none", "dynamic"]


def test_a_foreign_file_is_neither_removed_nor_read(tmp_path):
    (tmp_path / "calls.parquet").write_bytes(b"somebody's")
    for options in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(ValueError, match=r"holds 'calls.parquet' but no meta.json"):
            run(tiny_pair(), out=tmp_path, **options)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("calls.parquet", b"somebody's")]


def test_a_full_disk_keeps_the_finished_calls(tmp_path, monkeypatch):
    write, written = pq.write_table, []

    def limited(table, where, **options):
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        written.append(where)
        write(table, where, **options)

    monkeypatch.setattr(pq, "write_table", limited)
    with pytest.raises(RuntimeError, match="call-000004-.*No space left on device.*`oracle measure .* --resume`"):
        run(tiny_pair(), out=tmp_path)
    monkeypatch.undo()
    assert Runs.load(tmp_path).unfinished.startswith("4 of 12 calls: unfinished")
    assert facts(run(tiny_pair(), out=tmp_path, resume=True)) == facts(run(tiny_pair()))


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    whole = facts(run(tiny_pair(), out=tmp_path))
    before = (tmp_path / "calls.parquet").stat().st_mtime_ns
    monkeypatch.setattr(module, "_observe", None)
    assert facts(run(tiny_pair(), out=tmp_path, resume=True)) == whole
    assert (tmp_path / "calls.parquet").stat().st_mtime_ns == before


def test_runs_do_not_go_on_with_other_threads(tmp_path, monkeypatch):
    pair = tiny_pair()
    run(pair, out=tmp_path, repeats=1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    with pytest.raises(ValueError, match="was begun with machine.threads 1, this run has 77"):
        run(pair, out=tmp_path, repeats=1, resume=True)


def test_force_does_not_replace_a_trace(tmp_path):
    collect(tiny_pair(), PROMPTS[:1], tmp_path, max_new_tokens=4)
    before = (tmp_path / "meta.json").read_text()
    with pytest.raises(ValueError, match="oracle collect|trace|schema"):
        run(tiny_pair(), out=tmp_path, force=True)
    assert (tmp_path / "meta.json").read_text() == before


def test_damaged_and_foreign_runs_are_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="no meta.json there"):
        Runs.load(tmp_path)
    (tmp_path / "meta.json").write_text('{"schema": 1}')  # a trace's
    with pytest.raises(ValueError, match="schema None"):
        Runs.load(tmp_path)
    files.FOLDER.write_meta(tmp_path, {})
    with pytest.raises(ValueError, match="no finished call yet"):
        Runs.load(tmp_path)
    (tmp_path / "call-000000.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="call-000000.parquet: not readable"):
        Runs.load(tmp_path)


def test_a_text_that_leaves_plain_decodings_is_recorded_and_does_not_stop_the_run():
    pair = tiny_pair()

    def turn(module, args, kwargs, output):
        if "input_ids" in kwargs and kwargs["input_ids"].shape[1] == 4:  # a verification of three drafted tokens
            output.logits = -output.logits

    pair.target.register_forward_hook(turn, with_kwargs=True)
    runs = run(pair, repeats=1, limit=16)
    wrong = [call for call in runs.of("constant:tokens=3") if not call.equal]
    reference = {call.prompt: call.tokens for call in runs.of("none")}
    for call in wrong:
        at = call.first_difference
        assert call.tokens[:at].tolist() == reference[call.prompt][:at].tolist()
        assert call.tokens[at] != reference[call.prompt][at]
        assert call.difference_margin > 0.1  # no near-tie: whoever reads it sees a fault
    assert measured(runs, "constant:tokens=3").different_texts == len(wrong) == 2
    assert all(call.equal for call in runs.of("none"))


# --- speedups --------------------------------------------------------------------------------------------------------


def test_both_arms_count_the_same_tokens_in_total_and_in_decoding():
    """Reading the prompt costs 10, a target pass 1, a draft step 0.1; three of three accepted, 40 tokens."""
    pair = same_models()
    world = Virtual(pair, draft=lambda tokens, context: 0.1, target=lambda tokens, context: 1.0 if context else 10.0)
    runs = run(pair, ["constant:tokens=3"], limit=40, clock=world.clock)
    found = measured(runs, "constant:tokens=3")
    assert (found.iterations, found.drafted, found.tokens) == (20, 60, 80)
    assert found.total.value == pytest.approx((10 + 39) / (10 * 1.3 + 9))
    assert found.decoding.value == pytest.approx(36 / (9 * 1.3))  # tokens 4 to 39 in both arms
    assert found.spread == pytest.approx(0)
    assert found.seconds_per_token == pytest.approx((10 * 1.3 + 9) / 40)


@pytest.mark.parametrize("policies", [["constant:tokens=3", "dynamic"], ["dynamic", "constant:tokens=3"]])
def test_a_slow_first_call_is_left_out_whichever_arm_comes_first(policies):
    pair = same_models()
    world = Virtual(pair, draft=lambda tokens, context: 0.1, target=lambda tokens, context: 1.0)
    seen = set()

    def slow_at_first(module, args, output):
        world.time += 0 if module in seen else 1000
        seen.add(module)

    pair.target.register_forward_hook(slow_at_first)
    pair.draft.register_forward_hook(slow_at_first)
    runs = run(pair, policies, limit=12, clock=world.clock)
    assert measured(runs, "constant:tokens=3").total.value == pytest.approx(12 / (3 * 1.3))


def test_a_machine_that_changes_its_speed_changes_no_paired_ratio():
    source = some_trace()
    steady = fake_runs(source, ["dynamic"])
    drifting = fake_runs(source, ["dynamic"], speed=lambda repeat, prompt, policy: 1 + repeat)
    assert measured(drifting, "dynamic").total.value == pytest.approx(measured(steady, "dynamic").total.value)
    # One repeat in which something else took the machine from this arm: the median leaves it out.
    spoilt = fake_runs(
        source, ["dynamic"], speed=lambda repeat, prompt, policy: 5 if (repeat, policy) == (1, "dynamic") else 1
    )
    assert measured(spoilt, "dynamic").total.value == pytest.approx(measured(steady, "dynamic").total.value)
    assert measured(spoilt, "dynamic").spread > 0


def test_measured_and_simulated_totals_are_counted_alike():
    source = some_trace()
    for row in summary(fake_runs(source, ["constant:tokens=3", "dynamic", "heuristic"])):
        result = simulate(source, row.policy, COST)
        assert row.total.value == pytest.approx(result.total_speedup)
        assert (row.iterations, row.drafted, row.accepted) == (
            result.iterations,
            result.draft_tokens,
            result.accepted_tokens,
        )
        assert row.total.low < row.total.value < row.total.high


def test_texts_that_differ_are_compared_by_the_token():
    source = some_trace(prompts=1)
    runs = fake_runs(source, ["constant:tokens=3"], repeats=1)
    plain, call = runs.calls
    longer = dataclasses.replace(plain, tokens=np.append(plain.tokens, [1] * 20))  # as if it had gone on for 20 tokens
    changed = Runs(runs.meta, (longer, dataclasses.replace(call, equal=False)))
    found = paired(changed, "constant:tokens=3", decoding=False)
    size = len(plain.tokens)
    assert found.plain[0, 0] == pytest.approx(plain.prefill_seconds + plain.seconds[1:].mean() * (size - 1))
    decoding = paired(changed, "constant:tokens=3", decoding=True)
    left = size - int(call.accepted[0]) - 1
    assert decoding.plain[0, 0] == pytest.approx(plain.seconds[1:].mean() * left)
    assert measured(changed, "constant:tokens=3").different_texts == 1
    one = dataclasses.replace(
        plain, tokens=plain.tokens[:1] + 1, **{name: getattr(plain, name)[:1] for name in ITERATION_COLUMNS}
    )
    with pytest.raises(ValueError, match="no prompt is finished"):  # one token has no step to compare with
        paired(Runs(runs.meta, (one, call)), "constant:tokens=3", decoding=True)


def test_an_unfinished_repeat_counts_for_the_prompts_that_it_reached():
    source = some_trace()
    runs = fake_runs(source, ["dynamic"], repeats=2)
    cut = Runs(runs.meta, tuple(call for call in runs.calls if not (call.repeat == 1 and call.prompt > 2)))
    assert paired(cut, "dynamic", decoding=False).plain.shape == (2, 3)
    with pytest.raises(ValueError, match="no prompt is finished in every repeat"):
        paired(
            Runs(runs.meta, tuple(c for c in runs.calls if c.key != ("none", 0, 0) and c.prompt == 0)),
            "dynamic",
            decoding=True,
        )
    with pytest.raises(ValueError, match="'heuristic' was not measured; measured: none, dynamic"):
        runs.of("heuristic")


def test_the_interval_covers_nothing_but_the_prompts_spread():
    same = fake_runs(some_trace(prompts=1), ["dynamic"])
    assert np.isnan(speedup(paired(same, "dynamic", decoding=False)).low)  # one prompt says nothing about others
    alike = fake_runs(some_trace(prompts=4), ["dynamic"])
    found = paired(alike, "dynamic", decoding=False)
    equal = Paired(np.tile(found.plain[:, :1], 3), np.tile(found.assisted[:, :1], 3))
    assert speedup(equal).low == pytest.approx(speedup(equal).high)


def test_the_settings_in_force_are_asserted(monkeypatch):
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    original = AssistedCandidateGenerator.__init__

    def deaf(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.num_assistant_tokens = 9

    monkeypatch.setattr(AssistedCandidateGenerator, "__init__", deaf)
    with pytest.raises(RuntimeError, match="num_assistant_tokens: 3 was asked for, but the run was under 9"):
        run(tiny_pair(), ["constant:tokens=3"])


@dataclasses.dataclass(frozen=True)
class Short(Policy):
    """A policy of a user's own."""

    def budget(self, state):
        return 2


@dataclasses.dataclass(frozen=True)
class Affordable(Policy):
    """As many tokens as a target step buys; one where nothing costs."""

    carries: bool = False

    def start(self, lanes, cost=None):
        return (np.full(lanes, 1 if cost is None else int(cost.step() / cost.draft)),)

    def budget(self, state):
        return state[0]

    def next_prompt(self, state):
        return state if self.carries else None


def test_prices_reach_the_own_loop_as_they_reach_the_replay(tmp_path):
    pair, cost = tiny_pair(), CostModel(draft=0.25)
    policies = [Affordable(), Affordable(carries=True)]
    assert {budget for call in run(pair, policies).calls if call.policy != "none" for budget in call.budget} == {1}
    runs = run(pair, policies, tmp_path / "runs", cost=cost)
    collect(pair, PROMPTS[:2], tmp_path / "trace", max_new_tokens=10)
    trace = Trace.load(tmp_path / "trace")
    for policy in policies:
        expected = simulate(trace, policy, cost)
        for call in runs.of(str(policy)):
            assert call.budget.tolist() == [4] * len(call.budget)
            assert call.drafted.tolist() == expected.drafted[expected.prompt == call.prompt].tolist()
    assert len(run(pair, policies, tmp_path / "runs", cost=cost, resume=True).calls) == len(runs.calls)
    with pytest.raises(ValueError, match="prices"):
        run(pair, policies, tmp_path / "runs", cost=CostModel(draft=0.5), resume=True)


def test_a_policy_object_and_a_function_run_in_our_own_loop():
    def low(signals):
        return signals.confidence < 0.5

    runs = run(tiny_pair(), [Short(), low, "p-min:n_max=3,p_min=0.5"], prompts=PROMPTS[:1], repeats=1)
    assert runs.policies == ["none", "Short", "low:tokens=20", "p-min:n_max=3,p_min=0.5"]
    assert {call.generator for call in runs.calls if call.policy != "none"} == {"loop"}
    assert runs.of("Short")[0].drafted.max() == 2
    dropping = runs.of("p-min:n_max=3,p_min=0.5")[0]
    assert np.all(dropping.passes >= dropping.drafted) and np.any(dropping.passes > dropping.drafted)


def test_runs_from_before_passes_were_recorded_still_load(tmp_path):
    run(tiny_pair(), ["constant:tokens=3"], tmp_path / "runs", prompts=PROMPTS[:1], repeats=1)
    file = tmp_path / "runs" / "calls.parquet"
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["passes"]), file)
    for call in Runs.load(tmp_path / "runs").calls:
        assert call.passes.tolist() == call.drafted.tolist()


@pytest.mark.parametrize("name", ["max_new_tokens", "repeats"])
@pytest.mark.parametrize("value", [True, 1.9, "4", float("nan"), None, 0, 2**70])
def test_counts_that_are_no_counts_are_refused_before_anything_is_written(name, value, tmp_path):
    with pytest.raises(ValueError, match=rf"^{name} is .*; it must be (a whole number from 1 on|at most 2147483647)$"):
        measure(tiny_pair(), PROMPTS[:1], ["constant:tokens=2"], tmp_path / "runs", **{name: value})
    assert not (tmp_path / "runs").exists()


def test_counts_of_numpy_are_counts(tmp_path):
    small = {"max_new_tokens": np.int64(4), "repeats": np.int32(1)}
    measure(tiny_pair(), PROMPTS[:1], ["constant:tokens=2"], tmp_path, **small)
    assert Runs.load(tmp_path).meta["repeats"] == 1
