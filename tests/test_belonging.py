"""One guard: what happens when a trace, runs and prices are put together, fact by fact and command by command."""

import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from builders.pairs import tiny_pair
from builders.runs import fake_runs, some_trace
from typer.testing import CliRunner

import oracle
from analysis.belonging import Side, answer, common_prompts, sides, together
from analysis.cost import CostModel
from analysis.examine import Source, examine
from analysis.measured.calibrate import FIT, calibrate
from analysis.replay.simulate import simulate
from oracle.cli import app
from oracle.records import runs as run_files
from oracle.records import trace as trace_files
from oracle.records.runs import Runs
from oracle.records.trace import Trace, iter_records

TARGET = {"model": "org/big", "weights_sample_sha256": "a" * 64, "dtype": "float32"}
DRAFT = {"model": "org/small", "weights_sample_sha256": "b" * 64, "dtype": "float32"}
FACTS = {"pair": "org/big + org/small", "target": TARGET, "draft": DRAFT, "decoding": "greedy"}
MACHINE = {"processor": "abacus", "accelerators": [], "threads": 1, "dtype": "float32"}
HALF = {"target": TARGET | {"dtype": "bfloat16"}, "draft": DRAFT | {"dtype": "bfloat16"}}
SOURCE = dataclasses.replace(some_trace(), meta=some_trace().meta | FACTS | {"dtype": "float32", "device": "cpu"})
POLICIES = ["constant:tokens=5"]


def runs_of(source=SOURCE, **meta):
    """Runs of every prompt of ``source``, which say that they are of the same pair unless ``meta`` says otherwise."""
    policies = dict.fromkeys(["none", *FIT, *POLICIES], {})
    found = fake_runs(source, [*FIT, *POLICIES], repeats=1)
    facts = FACTS | {"machine": MACHINE, "prompts": {"dataset": "made up"}, "policies": policies}
    return Runs({key: value for key, value in (facts | meta).items() if value is not None}, found.calls)


def prices_of(**meta):
    return calibrate(runs_of(**meta)).cost


def with_draft(**facts):
    return {"draft": DRAFT | facts}


def with_machine(**facts):
    return {"machine": MACHINE | facts}


OTHER_WEIGHTS = with_draft(weights_sample_sha256="c" * 64)
OTHER_NAMES = {"pair": "here", "target": TARGET | {"model": "/models/a"}, "draft": DRAFT | {"model": "/models/b"}}
SILENT = {"pair": None, "target": None, "draft": None, "machine": {"processor": "abacus"}}
CASES = {
    "the same": ({}, "fine", None),
    "other weights": (OTHER_WEIGHTS, "contradiction", r"of a draft with weights_sample_sha256 b{12}, .* with c{12} "),
    "another dtype": (HALF, "contradiction", "of a target with dtype float32, .* with bfloat16"),
    "another dtype of the machine alone": (
        SILENT | with_machine(dtype="bfloat16"),
        "contradiction",
        "of a target with dtype float32, .* with bfloat16",
    ),
    "another pair": ({"target": DRAFT, "draft": TARGET}, "contradiction", r"\(org/big and org/small\)"),
    "other names": (OTHER_NAMES, "fine", None),
    "silent": (SILENT, "unknown", "are of one pair is not known: .* do not say weights and dtype"),
    "no fingerprint of one": (with_draft(weights_sample_sha256=None), "unknown", "do not say weights of the draft"),
    "no fingerprints, other names": (
        {"target": {"model": "x/y", "dtype": "float32"}, "draft": None},
        "unknown",
        r"\(by name the trace: org/big \+ org/small, the \w+: x/y",
    ),
}


@pytest.mark.parametrize(("meta", "level", "words"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("kind", ["runs", "prices"])
def test_each_fact_of_two_sides(kind, meta, level, words):
    measured = runs_of(**meta)
    given = {"runs": [measured]} if kind == "runs" else {"cost": calibrate(measured).cost}
    found = together(SOURCE, **given)
    assert found.level == level
    said = [*found.contradictions, *found.notes]
    if words is None:
        assert said == [] and found.expect() is found
    else:
        assert_said(said[0], words)
    if level == "contradiction":
        with pytest.raises(ValueError, match=words):
            found.expect()


def assert_said(text, words):
    assert re.search(words, text), text


# --- every command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    """Writes the trace, runs that say ``meta``, and the prices fitted on them; the folders and the file."""

    def write(source=SOURCE, measured=None, **meta):
        measured = runs_of(**meta) if measured is None else measured
        for name in ("trace", "runs", "same"):
            (tmp_path / name).mkdir()
        trace_files.write_meta(tmp_path / "trace", source.meta)
        trace_files.write_part(tmp_path / "trace", 0, list(iter_records(source)))
        for name, runs in (("runs", measured), ("same", runs_of())):
            run_files.write_meta(tmp_path / name, runs.meta)
            for call in runs.calls:
                run_files.write_call(tmp_path / name, call)
        calibrate(measured).cost.save(tmp_path / "cost.json")
        return tmp_path

    return write


@pytest.fixture
def unwritten(monkeypatch):
    """Pages without anything on them: for tests of what is said before."""
    monkeypatch.setattr("analysis.report.page.examine", lambda *_: SimpleNamespace(results=[None]))
    monkeypatch.setattr("analysis.report.page.render", lambda subjects: "")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def commands(folder):
    """Every command line that puts two of them together."""
    trace, runs, cost = folder / "trace", folder / "runs", folder / "cost.json"
    page = ["report", trace, "-o", folder / "page.html", *("-p", POLICIES[0])]
    validate = ["validate", "--trace", trace, "--runs"]
    return {
        "simulate": ["simulate", trace, "--cost", cost],
        "stats": ["stats", trace, "--cost", cost],
        "report --cost": [*page, "--cost", cost],
        "report --runs": [*page, "--draft-cost", "0.1", "--runs", runs],
        "validate --runs": [*validate, runs, "--worst", "9", "--median", "9"],
        "validate --cost": [*validate, folder / "same", "--cost", cost, "--worst", "9", "--median", "9"],
        "calibrate": ["calibrate", folder / "new.json", "--runs", folder / "same", "--runs", runs],
    }


PLAIN_CASES = ["the same", "other weights", "another dtype", "other names", "silent"]


@pytest.mark.parametrize("case", PLAIN_CASES)
def test_every_command_asks_the_guard(case, stored, unwritten):
    meta, level, words = CASES[case]
    for name, line in commands(stored(**meta)).items():
        done = run(*line)
        if level == "contradiction":
            assert done.exit_code == 2 and done.output.count("\n") == 1, (name, done.output)
            words = words.replace("of a", "(is|are) of a") if words.startswith("of a") else words
            assert_said(done.stderr, words)
            assert ("--any-cost" in done.stderr) == ("--cost" in line), name
        else:
            assert done.exit_code == 0, (name, done.output)
            assert ("is not known" in done.stderr) == (level == "unknown"), (name, done.stderr)


def test_other_prices_are_taken_where_that_is_said(stored):
    folder = stored(**OTHER_WEIGHTS)
    lines = commands(folder)
    for name in ("simulate", "stats", "validate --cost"):
        assert run(*lines[name], "--any-cost").exit_code == 0, name
    done = run("simulate", folder / "trace", "--any-cost")
    assert done.exit_code == 2 and "give --cost FILE too" in done.stderr
    assert json.loads(run(*lines["simulate"], "--any-cost", "--json").stdout)[0]["speedup"]["value"] > 0


def test_from_python(stored, tmp_path):
    folder = stored(**OTHER_WEIGHTS)
    cost, source = CostModel.load(folder / "cost.json"), folder / "trace"
    for ask in (
        lambda: oracle.simulate(source, "none", cost),
        lambda: simulate(SOURCE, "none", cost),
        lambda: oracle.report(source, tmp_path / "page.html", cost=cost),
        lambda: oracle.report(source, tmp_path / "page.html", runs=folder / "runs"),
        lambda: oracle.compare(source, folder / "same", cost),
        lambda: oracle.compare(source, folder / "runs"),
        lambda: oracle.calibrate([folder / "same", folder / "runs"]),
    ):
        with pytest.raises(ValueError, match="with weights_sample_sha256 b{12}, the .* with c{12}"):
            ask()
    assert not (tmp_path / "page.html").exists()
    assert oracle.simulate(source, "none", cost.for_any_pair()).speedup == pytest.approx(1)
    assert oracle.simulate(source, "none", 0.3).speedup == oracle.simulate(source, "none").speedup == 1


def test_a_long_run_with_prices_of_another_pair_does_not_begin(tmp_path):
    with pytest.raises(
        ValueError, match="the pair is of a target with weights_sample_sha256 .*, the prices with a{12}"
    ):
        oracle.validate(tiny_pair(), [[5, 6, 7]], ["dynamic"], tmp_path / "out", cost=prices_of())
    assert not (tmp_path / "out").exists()


# --- prices -----------------------------------------------------------------------------------------------------------


def test_prices_keep_the_facts_of_their_pair(tmp_path):
    cost = prices_of()
    cost.save(tmp_path / "cost.json")
    kept = CostModel.load(tmp_path / "cost.json").machine
    assert (kept["target"], kept["draft"], kept["dtype"]) == (TARGET, DRAFT, "float32")
    free = cost.for_any_pair()
    assert free == cost and set(cost.machine) - set(free.machine) == {"pair", "target", "draft", "dtype"}
    assert together(SOURCE, cost=free).level == "unknown"


@pytest.mark.parametrize("machine", [{}, {"target": "org/big", "draft": 3, "dtype": ["float32"]}])
def test_prices_that_say_nothing_readable(machine):
    found = together(SOURCE, cost=CostModel(draft=0.1, machine=machine))
    assert found.level == ("unknown" if machine else "fine") and not found.contradictions


def test_the_shipped_prices_and_the_shipped_sample_go_together():
    from oracle.shipped import data_path

    found = together(Trace.load(data_path("sample")), cost=CostModel.load(data_path("results") / "cost-qwen-cpu.json"))
    assert found.level == "unknown" and len(found.notes) == 1
    assert "the prices do not say weights (by name the trace: Qwen" in found.notes[0]


@pytest.mark.parametrize(
    ("trace", "machine", "note"),
    [
        ({}, {}, None),
        ({"device": "cuda:0"}, {}, "the trace was recorded on cuda:0 and the prices measured on abacus, 1 threads"),
        ({}, {"accelerators": ["H100"]}, "recorded on cpu and the prices measured on H100, abacus"),
        ({"device": "cuda:0"}, {"accelerators": ["H100"]}, None),
        ({"device": "cuda:0"}, {"accelerators": None}, None),
    ],
)
def test_another_device_is_a_note(trace, machine, note):
    source = dataclasses.replace(SOURCE, meta=SOURCE.meta | trace)
    found = together(source, cost=prices_of(**with_machine(**machine)))
    assert found.level == "fine" and len(found.notes) == (note is not None)
    assert note is None or note in found.notes[0]


def test_runs_of_two_machines_are_a_note():
    found = oracle.calibrate([runs_of(), runs_of(**with_machine(threads=2))])
    assert found.notes == (
        "the runs number 1 and the runs number 2 were measured on different machines: "
        "abacus, 1 threads and abacus, 2 threads",
    )
    assert oracle.calibrate(runs_of()).notes == ()


def test_another_decoding_is_a_contradiction():
    found = together(SOURCE, [runs_of(decoding="sampling")])
    assert found.contradictions[0].startswith("the decoding is greedy in the trace and sampling in the runs;")


def test_one_side_alone_belongs_to_itself():
    assert answer([Side("the trace", {})]).level == answer([]).level == "fine"
    assert sides(cost=CostModel(draft=0.1)) == []


# --- prompts ----------------------------------------------------------------------------------------------------------


def change(runs, prompt, **columns):
    calls = (dataclasses.replace(call, **columns) if call.prompt == prompt else call for call in runs.calls)
    return dataclasses.replace(runs, calls=tuple(calls))


def without(runs, leave_out):
    return dataclasses.replace(runs, calls=tuple(call for call in runs.calls if not leave_out(call)))


OTHER_TOKENS = {"prompt_tokens": np.array([1, 2], np.int32)}
PROMPTS = {
    "all": (runs_of(), [0, 1, 2, 3, 4, 5], []),
    "fewer": (without(runs_of(), lambda call: call.prompt > 1), [0, 1], []),
    "one unfinished": (without(runs_of(), lambda c: c.prompt == 2 and c.policy == "none"), [0, 1, 3, 4, 5], []),
    "another id": (change(runs_of(), 1, id="x"), [0, 2, 3, 4, 5], ["'x' was measured but is not in the trace"]),
    "other tokens": (change(runs_of(), 1, **OTHER_TOKENS), [0, 2, 3, 4, 5], ["'p1' has other tokens in the trace"]),
    "another limit": (change(runs_of(), 0, max_new_tokens=99), [1, 2, 3, 4, 5], ["'p0': max_new_tokens is 60 in the"]),
}


@pytest.mark.parametrize(("measured", "ids", "words"), PROMPTS.values(), ids=PROMPTS)
def test_which_prompts_both_hold(measured, ids, words):
    found = common_prompts(SOURCE, measured)
    assert found.ids == tuple(f"p{number}" for number in ids) and found.recorded == 6
    assert len(found.differences) == len(words)
    assert all(part in text for part, text in zip(words, found.differences, strict=True))
    notes = together(SOURCE, [measured]).expect().notes
    assert (f"{len(ids)} of 6 prompts were measured" in notes) == (len(ids) < 6)
    assert all(any(part in note for note in notes) for part in words)


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("fewer", 0, "Note: 2 of 6 prompts were measured."),
        ("another id", 2, "prompt 'x' was measured but is not in the trace"),
        ("other tokens", 2, "prompt 'p1' has other tokens in the trace than in the runs"),
        ("another limit", 2, "prompt 'p0': max_new_tokens is 60 in the trace, 99 in the runs"),
    ],
)
def test_a_report_is_on_the_common_prompts_and_a_validation_needs_them_all(name, status, words, stored, unwritten):
    lines = commands(stored(measured=PROMPTS[name][0]))
    page, validation = run(*lines["report --runs"]), run(*lines["validate --runs"])
    assert page.exit_code == 0 and words in page.stderr
    assert validation.exit_code == status and words in validation.stderr, validation.output


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (change(PROMPTS["fewer"][0], 1, id="x"), None),
        (without(change(runs_of(), 1, id="x"), lambda call: call.prompt != 1), "is not in the trace"),
        (without(change(runs_of(), 1, **OTHER_TOKENS), lambda call: call.prompt != 1), "has other tokens"),
        (without(change(runs_of(), 1, max_new_tokens=99), lambda call: call.prompt != 1), "max_new_tokens is 57"),
    ],
)
def test_runs_without_a_common_prompt_are_refused(measured, words, tmp_path):
    found = together(SOURCE, [measured])
    assert (found.level == "contradiction") == (words is not None)
    if words:
        with pytest.raises(ValueError, match=f"none of the 1 measured prompts is one of the trace's: .*{words}"):
            oracle.report(SOURCE, tmp_path / "page.html", runs=measured)


@pytest.mark.parametrize(
    ("recorded", "measured", "words"),
    [
        ({"chat": True, "template_date": "2026-12-01"}, {"chat": True, "template_date": "2026-12-02"},
         "the date that the chat template wrote is 2026-12-01 there and 2026-12-02 in the runs; measure with --date"),
        ({"chat": True}, {"chat": False}, "the use of the chat template is True there and none in the runs"),
        ({"system": "Be brief."}, {}, "the system message is Be brief. there and none in the runs; measure with that"),
        ({}, {"template_args": {"a": 1}}, "the argument list of the template is none there and {'a': 1} in the runs"),
        ({}, {}, "other tokens in the trace than in the runs; collect it again"),
    ],
)  # fmt: skip
def test_prompts_of_another_form_say_what_differs(recorded, measured, words):
    trace = dataclasses.replace(SOURCE, meta=SOURCE.meta | recorded)
    runs = without(change(runs_of(**measured), 1, **OTHER_TOKENS), lambda call: call.prompt != 1)
    with pytest.raises(ValueError, match="has other tokens") as error:
        together(trace, [runs]).expect()
    assert words in str(error.value)


def test_simulated_and_measured_are_of_the_same_prompts():
    measured = PROMPTS["fewer"][0]
    cost = prices_of()
    found = examine(Source(SOURCE, cost=cost, runs=measured), "a", ["heuristic", *POLICIES])
    assert found.common.words == "2 of 6 prompts were measured"
    assert found.measured[POLICIES[0]].prompts == 2
    part = simulate(SOURCE.select(["p0", "p1"]), POLICIES[0], cost)
    assert found.beside[POLICIES[0]].speedup == part.speedup != found.results[1].speedup
    assert set(found.beside) >= {result.policy for result in found.results} | {found.best.policy}
    whole = examine(Source(SOURCE, cost=cost, runs=runs_of()), "a", POLICIES)
    assert whole.beside[POLICIES[0]] is whole.results[0] and not whole.common.some


def test_the_page_says_how_many_prompts_were_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.report.figures.svg", lambda drawing: b"<svg/>")
    cost, page = prices_of(), tmp_path / "page.html"
    text = oracle.report(SOURCE, page, policies=POLICIES, cost=cost, runs=PROMPTS["fewer"][0]).read_text("utf-8")
    assert "2 of 6 prompts were measured with the real generator, 1 repeat (abacus, float32)" in text
    assert "Simulated, the 2 measured prompts (95 %)" in text
    assert "measured speedup (2 of 6 prompts were measured) with 95 % intervals" in text
    odd = dataclasses.replace(PROMPTS["another limit"][0], unfinished="3 of 7 calls are there")
    text = oracle.report(SOURCE, page, policies=POLICIES, cost=cost, runs=odd).read_text("utf-8")
    assert "prompt &#x27;p0&#x27;: max_new_tokens is 60 in the trace" in text and "3 of 7 calls are there" in text


def test_a_report_of_runs_that_have_finished_no_prompt():
    """Every prompt misses an arm: the first the policies, the others plain decoding."""
    measured = without(runs_of(), lambda call: (call.policy == "none") != (call.prompt == 0))
    with pytest.raises(ValueError, match="no prompt of the trace is finished by every policy"):
        examine(Source(SOURCE, runs=measured), "a", POLICIES)
