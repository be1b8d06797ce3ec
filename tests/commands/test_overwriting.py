"""No command replaces what it did not make, unless it is told to."""

import json
import os

import pytest
from test_cli import run
from test_cli_measured import stored

from analysis.cost import CostModel
from analysis.measured.calibrate import FIT


@pytest.fixture
def folders(tmp_path):
    return stored(tmp_path)


def test_validate_writes_prices_only_where_the_user_said(tmp_path, folders):
    trace, runs = folders
    (runs / "cost.json").write_text("somebody's notes")
    words = ["validate", "--trace", trace, "--runs", runs]
    before = sorted(tmp_path.rglob("*"))
    assert run(*words).exit_code == 0
    assert (runs / "cost.json").read_text() == "somebody's notes" and sorted(tmp_path.rglob("*")) == before
    assert run(*words, "--out", tmp_path / "out").exit_code == 0
    assert CostModel.load(tmp_path / "out" / "cost.json").machine["fitted_on"] == list(FIT)
    again = run(*words, "--out", tmp_path / "out")
    assert again.exit_code == 2 and "cost.json is there; --force replaces it" in again.output
    assert run(*words, "--out", tmp_path / "out", "--force").exit_code == 0


def test_calibrate_replaces_no_file_without_force(tmp_path, folders):
    _, runs = folders
    notes = tmp_path / "notes.json"
    notes.write_text("mine")
    for options in ([], ["--resume"]):
        done = run("calibrate", notes, "--runs", runs, *options)
        assert done.exit_code == 2 and "is no cost model; --force replaces it" in done.output
        assert notes.read_text() == "mine"
    assert run("calibrate", notes, "--runs", runs, "--force").exit_code == 0
    CostModel.load(notes)
    done = run("calibrate", notes, "--runs", runs)
    assert done.exit_code == 2 and "is a cost model already; --force replaces it" in done.output


@pytest.mark.parametrize("words", [["calibrate", ""], ["collect", ""], ["measure", "", "--limit", "1"]])
def test_an_empty_path_writes_nothing(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    done = run(*words)
    assert done.exit_code == 2 and "empty text" in done.output, done.output
    assert os.listdir(tmp_path) == []


def test_demo_goes_on_with_its_own_traces_and_replaces_no_others(tmp_path):
    words = ["demo", tmp_path / "d", "--limit", "1"]
    assert run(*words).exit_code == 0
    parts = {file: file.stat().st_mtime_ns for file in (tmp_path / "d").rglob("*.parquet")}
    assert len(parts) == 2 and run(*words).exit_code == 0
    other = run("demo", tmp_path / "d", "--limit", "2")
    assert other.exit_code == 2 and "was begun with prompts_planned 1, this run has 2" in other.output
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "d").rglob("*.parquet")} == parts


def test_commands_say_that_a_trace_is_unfinished(folders):
    trace, runs = folders
    for folder, more in ((trace, {"prompts_planned": 24}), (runs, {"prompts_planned": 24, "repeats": 3})):
        meta = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(meta | more))
    note = f"6 of 24 prompts: unfinished; `oracle collect {trace} --resume` goes on"
    for words in (["simulate", trace], ["iterations", trace], ["fit", trace, "--draws", "2"]):
        done = run(*words)
        assert done.exit_code == 0 and note in done.stderr.replace("\n", " "), done.output
    done = run("validate", "--trace", trace, "--runs", runs)
    assert note in done.stderr and "calls: unfinished; `oracle measure" in done.stderr


@pytest.mark.parametrize(
    ("words", "option", "name"),
    [
        (["report"], "-o", "page.html"),
        (["plot", "TRACE", "histogram"], "-o", "picture.png"),
        (["plot", "TRACE", "histogram"], "-o", "picture.svg"),
        (["plot", "TRACE", "histogram"], "-o", "picture.pdf"),
        (["iterations", "TRACE"], "--csv", "rows.csv"),
        (["validate", "--trace", "TRACE", "--runs", "RUNS"], "--plot", "points.png"),
    ],
)
def test_an_output_replaces_its_like_and_nobody_elses_file(tmp_path, folders, words, option, name):
    trace, runs = folders
    words = [*(str({"TRACE": trace, "RUNS": runs}.get(word, word)) for word in words), option, tmp_path / name]
    if words[0] == "report":
        words.insert(1, str(trace))
    (tmp_path / name).write_text("somebody's own")
    refused = run(*words)
    assert refused.exit_code == 2 and f"{name} is there and this command did not make it; --force" in refused.output
    assert (tmp_path / name).read_text() == "somebody's own"
    (tmp_path / name).write_text("")
    for more in ([], [], ["--force"]):  # over an empty file, over its own, and when told to
        assert run(*words, *more).exit_code == 0
        if more == []:
            made = (tmp_path / name).read_bytes()
    assert (tmp_path / name).read_bytes() == made != b""


@pytest.mark.parametrize(
    "words", [["collect"], ["measure"], ["plot", "histogram", "-o"], ["report", "-o"], ["calibrate"]]
)
def test_a_name_that_is_too_long_is_bad_usage(words):
    done = run(*words, "x" * 300 + ".png")
    assert done.exit_code == 2 and "cannot write to xxx" in done.output and "name another place" in done.output


def test_a_folder_that_may_not_be_written_is_refused_before_the_models_are_loaded(tmp_path, folders, monkeypatch):
    trace, runs = folders
    monkeypatch.setattr("oracle.models.pairs.load_pair", lambda *_, **__: pytest.fail("the models were loaded"))
    (tmp_path / "cost-runs").symlink_to(runs)
    for words in (
        ["collect", trace],
        ["collect", runs, "--force"],
        ["measure", runs],
        ["calibrate", tmp_path / "cost"],
    ):
        done = run(*words)
        assert done.exit_code == 2 and ("already; force replaces it" in done.output or "is touched" in done.output)
