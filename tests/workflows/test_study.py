"""The published table from its shipped recipe, on tiny models of the same architectures; failures; going on."""

import itertools
import json
import re
import tomllib

import pytest
from builders.published import ROWS, local_recipe

from analysis.published import TRANSFORMERS_BENCHMARKS
from oracle.records.runs import Runs
from oracle.records.trace import Trace
from oracle.timing import Clock
from oracle.workflows.study import kept, load_recipe, run, stages, study
from oracle.workflows.study.recipe import shipped

POLICIES = ("heuristic", "dynamic")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Every reading of the clock is a millisecond after the last one."""
    ticks = itertools.count()
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: Clock(lambda: next(ticks) / 1000))


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory):
    return local_recipe(tmp_path_factory.mktemp("recipe"))


@pytest.fixture
def no_page(monkeypatch):
    """No page of a cell is drawn."""
    monkeypatch.setitem(stages.STAGES, "report", lambda work: {})


def test_the_shipped_recipe_holds_the_published_table():
    cells = load_recipe("published").cells
    found = [
        (*(getattr(cell.models, role) for role in ("target", "draft")), *cell.published.speedups.values())
        for cell in cells
    ]
    assert found == [(each.target, each.draft, each.heuristic, each.dynamic) for each in TRANSFORMERS_BENCHMARKS]
    words = {
        "summarisation": "summarization",
        "open-ended generation": "open-ended",
        "code generation (Python)": "code",
    }
    assert [cell.task.name for cell in cells] == [words[each.task] for each in TRANSFORMERS_BENCHMARKS]
    assert {cell.published.source for cell in cells} == {each.source for each in TRANSFORMERS_BENCHMARKS}
    assert {(cell.task.max_prompt_tokens, cell.task.max_new_tokens) for cell in cells} == {(256, 128)}


def test_every_shipped_recipe_can_be_read():
    assert "published" in shipped() and all(load_recipe(name).cells for name in shipped())


def test_the_published_table_runs_from_the_recipe_to_every_form_of_the_table(recipe_file, tmp_path):
    recipe, out, told = load_recipe(recipe_file), tmp_path / "out", []
    found = study(recipe, out, tell=told.append, command=["oracle", "study"])
    assert not found.failed and tuple(each.name for each in found.rows) == ROWS
    assert sum("loading" in line for line in told) == len({name.split("/")[0] for name in ROWS})  # once a pair
    for cell, row in zip(recipe.cells, found.rows, strict=True):
        given = {line.policy: line for line in row.lines if not line.role}
        assert tuple(given) == POLICIES and (row.recorded, row.clocked) == (4, 3)
        for policy, line in given.items():
            assert line.published == cell.published.speedups[policy]
            assert line.measured.low < line.measured.value < line.measured.high
            assert line.simulated.low < line.simulated.value < line.simulated.high
        for role in ("tuned constant", "tuned policy"):
            assert row.of_role(role).simulated.value > 0
        folder = out / "cells" / row.name
        trace, runs = Trace.load(folder / "trace"), Runs.load(folder / "runs")
        assert {call.id for call in runs.calls} < set(trace.ids) and set(POLICIES) < set(runs.policies)
        assert max(len(call.prompt_tokens) for call in runs.calls) == 6  # the prompts are cut
        assert (folder / "report.html").is_file() and (folder / "cost.json").is_file()
    assert (out / "recipe.toml").read_bytes() == recipe_file.read_bytes()
    session = json.loads((out / "study.json").read_text())["sessions"][0]
    assert session["command"] == ["oracle", "study"] and session["versions"]["torch"] and session["seconds"] > 0
    page = (out / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(cells/[^"]*)"', page)
    assert [(out / link).is_file() for link in links] == [True] * len(ROWS)
    for form, name in kept.TABLES.items():
        text = (out / name).read_text(encoding="utf-8")
        assert text == found.text(form)
        for row in found.rows:
            assert f"{row.lines[0].published:.2f}".rstrip("0") in text and row.task.split("-")[0] in text
    before = {file: file.stat().st_mtime_ns for file in (out / "cells").rglob("*.parquet")}
    told.clear()
    again = study(recipe, out, resume=True, tell=told.append)
    assert repr(again.rows) == repr(found.rows) and told == []  # as text: NaN is not equal to itself
    assert {file: file.stat().st_mtime_ns for file in (out / "cells").rglob("*.parquet")} == before


@pytest.mark.parametrize("stage", stages.STAGES)
def test_a_study_that_is_stopped_goes_on_where_it_was(stage, recipe_file, tmp_path, monkeypatch, no_page):
    recipe, done = load_recipe(recipe_file).only(["codegen"]), []

    def noted(name, work):
        done.append(name)
        return stages_before[name](work)

    def stopped(work):
        raise KeyboardInterrupt

    stages_before = dict(stages.STAGES)
    with monkeypatch.context() as patch:
        patch.setitem(stages.STAGES, stage, stopped)
        with pytest.raises(KeyboardInterrupt):
            study(recipe, tmp_path / "out")
    for name in stages_before:
        monkeypatch.setitem(stages.STAGES, name, lambda work, name=name: noted(name, work))
    found = study(recipe, tmp_path / "out", resume=True)
    assert done == list(stages_before)[list(stages_before).index(stage) :] and not found.failed


def test_a_cell_that_fails_is_named_and_the_others_go_on(recipe_file, tmp_path, monkeypatch, no_page):
    text = recipe_file.read_text().replace("./opt-target", "./nowhere")
    broken = recipe_file.with_name("broken.toml")
    broken.write_text(text)
    real = stages.STAGES["calibrate"]

    def full(work):
        if work.cell.task.name == "open-ended":
            raise MemoryError
        return real(work)

    monkeypatch.setitem(stages.STAGES, "calibrate", full)
    told = []
    found = study(
        load_recipe(broken).only(["opt", "llama-3/open-ended", "codegen"]), tmp_path / "out", tell=told.append
    )
    assert found.failed == ("opt/summarization", "opt/open-ended", "llama-3/open-ended")
    reasons = {row.name: row.problem for row in found.rows}
    assert reasons["opt/summarization"].startswith("collect failed: ") and "nowhere" in reasons["opt/summarization"]
    assert reasons["llama-3/open-ended"] == "calibrate failed: MemoryError" and reasons["codegen/code"] is None
    assert sum("opt: loading" in line for line in told) == 1  # what cannot be loaded is not tried again for each task
    assert found.rows[0].lines[0].published == 1.82 and found.rows[0].lines[0].measured is None
    for form in kept.TABLES:
        assert "nowhere" in found.text(form)
    monkeypatch.setitem(stages.STAGES, "calibrate", real)
    again = study(load_recipe(broken).only(["llama-3/open-ended"]), tmp_path / "out", resume=True)
    assert not again.failed and again.rows[0].of_role("tuned policy") is not None


def test_a_study_is_bound_to_its_settings_and_replaces_only_its_own(recipe_file, tmp_path, no_page):
    recipe, out = load_recipe(recipe_file).only(["codegen"]), tmp_path / "out"
    study(recipe, out)
    with pytest.raises(ValueError, match="holds a study already"):
        study(recipe, out)
    with pytest.raises(ValueError, match="begun with repeats 1, this run has 3"):
        study(load_recipe(recipe_file, repeats=3).only(["codegen"]), out, resume=True)
    (out / "mine.txt").write_text("mine")
    (out / "cells" / "codegen" / "code" / "mine.txt").write_text("mine")
    found = study(load_recipe(recipe_file, repeats=2).only(["codegen"]), out, force=True)
    assert not found.failed and Runs.load(out / "cells" / "codegen" / "code" / "runs").repeats == 2
    assert len(list(out.rglob("mine.txt"))) == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="not a study"):
        study(recipe, tmp_path / "other", force=True)


def test_the_log_of_a_study_keeps_every_session(recipe_file, tmp_path, monkeypatch):
    for name in stages.STAGES:
        monkeypatch.setitem(stages.STAGES, name, lambda work: {})
    monkeypatch.setattr(run, "row", lambda cell, kept: run.Row(cell.name, "t", "d", cell.task.name))
    recipe = load_recipe(recipe_file)
    study(recipe.only(["opt"]), tmp_path / "out", command=["first"])
    study(recipe, tmp_path / "out", resume=True, command=["second"])
    sessions = json.loads((tmp_path / "out" / "study.json").read_text())["sessions"]
    assert [each["command"] for each in sessions] == [["first"], ["second"]]
    assert [len(each["cells"]) for each in sessions] == [2, len(ROWS)]


def test_the_local_recipe_is_the_shipped_one_but_for_places_and_sizes(recipe_file):
    local, shipped_one = (tomllib.loads(file.read_text()) for file in (recipe_file, shipped()["published"]))
    kept_rows = [row for row in shipped_one["rows"] if f"{row['pair']}/{row['task']}" in ROWS]
    assert local["rows"] == kept_rows and local["title"] == shipped_one["title"]
