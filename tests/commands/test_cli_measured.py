"""`oracle measure`, `calibrate` and `validate` as a user types them: on stored runs, and once for real."""

import itertools
import json
import re
import shlex

import pytest
from builders.runs import fake_runs, some_trace
from test_cli import run

from analysis.cost import CostModel
from analysis.measured.calibrate import FIT
from oracle.records import runs as files
from oracle.records.trace import iter_records, write_meta, write_part
from oracle.timing import Clock

LONG = "heuristic_transient:tokens=5,threshold=0.4"
POLICIES = ["constant:tokens=5", LONG]


def stored(folder, speed=None, dtype="float32"):
    """Folders of a trace and of its runs."""
    source = some_trace()
    for name in ("trace", "runs"):
        (folder / name).mkdir(parents=True)
    write_meta(folder / "trace", source.meta | {"prompts": {"dataset": "organisation/a-long-name-of-a-data-set"}})
    write_part(folder / "trace", 0, list(iter_records(source)))
    runs = fake_runs(source, [*FIT, *POLICIES], speed=speed, dtype=dtype)
    settings = {"tokens": 5, "schedule": "constant", "threshold": 0.4, "adaptive": False}
    files.write_meta(folder / "runs", runs.meta | {"policies": {name: settings for name in runs.policies}})
    for call in runs.calls:
        files.write_call(folder / "runs", call)
    return folder / "trace", folder / "runs"


def fits(output, width=80):
    return max(len(line.rstrip()) for line in output.splitlines()) <= width


def test_validation_of_stored_runs_for_people_and_programs(tmp_path):
    trace, runs = stored(tmp_path)
    words = ["validate", "--trace", trace, "--runs", runs]
    done = run(*words, "--plot", tmp_path / "picture.png", env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert "Within the budget." in done.stdout and fits(done.stdout)
    assert done.stdout.count("100.00%") == 2 and (tmp_path / "picture.png").stat().st_size > 10_000
    assert not (runs / "cost.json").exists()
    answer = json.loads(run(*words, "--json").stdout)
    assert answer["passed"] and answer["verdict"] == "pass" and answer["failures"] == answer["open"] == []
    assert [row["policy"] for row in answer["rows"]] == POLICIES
    assert set(answer["rows"][0]["error"]) == {"value", "low", "high"}


def test_a_validation_that_fails_says_why_and_exits_with_1(tmp_path):
    trace, runs = stored(tmp_path, speed=lambda repeat, prompt, policy: 1.3 if policy == LONG else 1.0)
    done = run("validate", "--trace", trace, "--runs", runs, env={"COLUMNS": "80"})
    assert done.exit_code == 1 and fits(done.stdout.partition("Error of the speedups")[0])
    assert f"the error of {LONG} on organisation/a-long-name-of-a-data-set is +30.0% (+30.0% to +30.0%)" in done.stdout
    lenient = ["--median", "0.5", "--worst", "0.5"]
    assert run("validate", "--trace", trace, "--runs", runs, *lenient).exit_code == 0


def test_a_validation_that_cannot_tell_says_so_and_exits_with_0(tmp_path):
    trace, runs = stored(tmp_path, speed=lambda repeat, prompt, policy: 1 + 0.3 * (repeat == prompt % 3))
    done = run("validate", "--trace", trace, "--runs", runs, "--worst", "0.0001", "--median", "0.0001")
    assert done.exit_code == 0, done.output
    assert "Undecided: nothing breaks the budget" in done.stdout and "is undecided" in done.stdout
    assert "Noise floor: a perfect simulator's error would be below" in done.stdout


def test_calibration_of_stored_runs(tmp_path):
    _, runs = stored(tmp_path)
    done = run("calibrate", tmp_path / "new" / "cost.json", "--runs", runs, env={"COLUMNS": "80"})
    assert done.exit_code == 0 and fits(done.stdout), done.output
    assert CostModel.load(tmp_path / "new" / "cost.json").measured_range["tokens"] == [1, 21]
    words = ["simulate", tmp_path / "trace", "-p", "dynamic"]
    assert "the prices have no standard errors, count as exact." in run(*words).stdout
    assert "and the prices' standard errors." in run(*words, "--cost", tmp_path / "new" / "cost.json").stdout


@pytest.mark.parametrize("command", ["measure", "validate"])
def test_a_policy_in_a_file_may_be_measured_by_name(tmp_path, command):
    file = tmp_path / "mine.py"
    file.write_text("def rule(signals):\n    return signals.confidence < 0.5\n", encoding="utf-8")
    words = [command, *([tmp_path / "out"] if command == "measure" else []), "--dataset", "nowhere.jsonl", "-p"]
    assert "nowhere.jsonl" in run(*words, f"{file}:rule").stderr  # the next thing that is looked at
    assert "called 'ruler'" in run(*words, f"{file}:ruler").stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["calibrate", "--fit", "heuristic"], "drafts neither drawn nor fixed lengths"),
        (["calibrate", "--fit", "constant:tokens=3"], "at least two lengths"),
        (["validate", "-p", FIT[0]], "is one that the prices are fitted on"),
        (["validate", "-p", "dynamik"], "did you mean 'dynamic'"),
        (["measure", "--threads", "0"], "--threads is 0"),
        (["measure", "-p", "oracle:detect"], "exists in simulation only"),
        (["report", "no-such-trace", "-p", "dynamik"], "did you mean 'dynamic'"),
        (["report", "no-such-trace", "-p", "oracle:detec"], "did you mean 'oracle:detect'"),
        (["measure", "--dataset", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_bad_usage_is_said_before_anything_runs(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words)
    assert done.exit_code == 2 and message in done.output, done.output
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_real_measurement_calibration_and_validation_of_the_embedded_pair(tmp_path, monkeypatch):
    # Every reading is a millisecond after the last one: prices must not hang on what else the machine does.
    ticks = itertools.count()
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: Clock(lambda: next(ticks) / 1000))
    short = ["--limit", "2", "--max-new-tokens", "12", "--repeats", "1", "--dataset", "demo-code", "--threads", "1"]
    done = run("measure", tmp_path / "runs", *short, "-p", "dynamic", "-p", LONG, env={"COLUMNS": "80"})
    assert done.exit_code == 0 and fits(done.stdout), done.output
    assert re.search(r"^dynamic +20 +constant +0.4 +no$", done.stdout, re.MULTILINE)
    # No constant ran, so that plain decoding is the baseline.
    assert "Baseline: none; its whole calls over" in done.stdout
    words = ["measure", tmp_path / "runs", *short, "-p", "dynamic", "-p", LONG, "--resume", "--baseline"]
    rows = json.loads(run(*words, "dynamic", "--json").stdout)
    assert [row["policy"] for row in rows] == ["dynamic", LONG] and {row["baseline"] for row in rows} == {"dynamic"}
    assert rows[0]["baseline_ratio"]["value"] == 1 != rows[1]["baseline_ratio"]["value"]
    assert "is not among the measured policies (none, dynamic, " in run(*words, "constant:tokens=9").stderr
    again = ["calibrate", tmp_path / "cost.json", *short]
    assert run(*again).exit_code == 0
    assert "is a cost model already; --force replaces it" in run(*again).output
    assert run(*again, "--resume").exit_code == 0
    lenient = ["--out", tmp_path / "all", "--median", "9", "--worst", "9", "-p", "dynamic"]
    assert run("validate", *short, *lenient).exit_code == 0


def test_measuring_until_the_ratios_are_known(tmp_path, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: Clock(lambda: next(ticks) / 1000))
    short = ["--max-new-tokens", "6", "--repeats", "1", "--threads", "1", "-p", "dynamic", "-p", "constant:tokens=2"]
    words = ["measure", tmp_path / "wide", *short, "--until", "90%"]
    done = run(*words, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    assert "Stopped after 10 prompts: the ratio of dynamic to constant:tokens=2 is known to within ±" in done.stderr
    assert done.stdout.index("dynamic") < done.stdout.index("constant:")  # as given, in whatever order they ran
    assert "Baseline: constant:tokens=2;" in done.stdout
    again = run(*words, "--resume")
    assert again.exit_code == 0 and again.stdout == run(*words, "--resume").stdout
    done = run("measure", tmp_path / "narrow", *short, "--until", "0.0001", "--limit", "3", "--baseline", "none")
    assert "Note: after all 3 prompts the ratio of " in done.stderr and " to none is known to within ±" in done.stderr


@pytest.mark.parametrize("share", ["2 percent", "0%", "200%", "nan", "-0.1", "%", "2%%"])
def test_a_width_that_is_none_is_refused(tmp_path, share):
    done = run("measure", tmp_path / "runs", f"--until={share}")
    assert done.exit_code == 2 and "--until is " in done.stderr and "2% or 0.02" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_half_precision_goes_through_and_names_its_near_ties(tmp_path):
    short = ["--limit", "2", "--max-new-tokens", "16", "--repeats", "1", "--dtype", "bfloat16", "--threads", "1"]
    done = run("measure", tmp_path / "runs", *short, "-p", "constant:tokens=4")
    assert done.exit_code == 0, done.output
    calls = files.Runs.load(tmp_path / "runs").calls
    assert all(call.equal or call.difference_margin < 0.5 for call in calls)
    assert ("leave plain decoding's" in done.output) == any(not call.equal for call in calls)


def test_the_next_steps_can_be_pasted(tmp_path):
    out = tmp_path / "it's $HOME"
    done = run("collect", out, "--limit", "1", "--max-new-tokens", "4", "--threads", "1")
    assert done.exit_code == 0, done.output
    steps = next(line for line in done.stderr.splitlines() if line.startswith("Next: ")).removeprefix("Next: ")
    assert shlex.split(steps) == [
        *("oracle", "simulate", str(out), "|"),
        *("oracle", "plot", str(out), "histogram"),
    ]
