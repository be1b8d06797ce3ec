"""``oracle study`` and ``oracle table`` as they are typed."""

import json
import tomllib

import pytest
from test_cli import run

from analysis.intervals import Estimate
from analysis.tables.speedups import Line, Row
from oracle.commands.options import PairOptions
from oracle.commands.study import show_study, written
from oracle.workflows.study import Study
from oracle.workflows.study.recipe import load_recipe


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_the_plan_of_the_published_table_names_its_seven_rows_and_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("study", "published", "--list")
    assert done.exit_code == 0 and max(map(len, done.output.splitlines())) <= 80
    for cell in load_recipe("published").cells:
        assert cell.name in done.output and cell.models.target in done.output
    (one,) = json.loads(run("study", "published", "--list", "--json", "--only", "opt/summarization").output)
    assert one["calls"] == 20 * 3 * 5 and one["published"]["speedups"] == {"heuristic": 1.82, "dynamic": 2.71}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study"], "a study needs a recipe, such as published, or --task"),
        (["study", "publishd"], "Did you mean 'published'"),
        (["study", "published", "--task", "code"], "--task is for a study without a recipe"),
        (["study", "published", "--pair", "demo"], "--pair is for a study without a recipe"),
        (["study", "published", "--only", "gpt"], "--only 'gpt' names none of the cells"),
        (["study", "published", "--format", "html"], "legal: terminal, markdown, latex, csv"),
        (["study", "--task", "demo-code", "--policy", "dinamic"], "unknown policy 'dinamic'"),
        (["table", "--format", "html"], "legal: terminal, markdown, latex, csv"),
        (["table", "--policy", "dinamic"], "unknown policy 'dinamic'"),
    ],
)
def test_what_will_not_do_is_said_before_anything_runs(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words)
    assert done.exit_code == 2 and message in done.output, done.output
    assert list(tmp_path.iterdir()) == []


def test_options_become_a_recipe_that_says_the_same():
    pair = PairOptions(target="org/big-7b", draft='./my "small" one/')
    text = written(pair, ["demo-code", "texts/my prompts.jsonl"], {"limit": 5, "policies": ["dynamic"]})
    found = tomllib.loads(text)
    assert found["pairs"] == [{"name": "big-7b+my-small-one", "target": "org/big-7b", "draft": './my "small" one/'}]
    assert found["tasks"] == [{"name": "demo-code"}, {"name": "my-prompts", "dataset": "texts/my prompts.jsonl"}]
    assert found["defaults"] == {"limit": 5, "policies": ["dynamic"]}
    assert tomllib.loads(written(PairOptions(), ["demo-code"], {}))["pairs"] == [{"name": "demo"}]


def _done(problem=None):
    lines = (
        Line("heuristic", "", 0.89, Estimate(0.85, 0.8, 0.9), Estimate(0.861, 0.84, 0.88)),
        Line("heuristic_transient:tokens=5,threshold=0.4", "", None, Estimate(10.5, 10.1, 12.3), None),
        Line("dynamic:threshold=0.4,tokens=20", "tuned policy", simulated=Estimate(1.1, 1.0, 1.2)),
    )
    rows = (Row("big+small/code", "org/big", "org/small", "code", 60, 20, lines, "A paper", problem),)
    return Study("A title", rows, "runs/x", "runs/x/index.html", 3.0)


def test_the_table_fits_a_terminal_and_says_everything(capsys):
    show_study(_done("measure failed: out of memory"), "terminal", as_json=False)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for each in ("0.89", "0.85 [0.80, 0.90]", "0.86 [0.84, 0.88]", "tuned policy", "60 prompts, 20", "out of memory"):
        assert each in text
    show_study(_done(), "csv", as_json=False)
    assert capsys.readouterr().out.startswith("cell,target,draft,")
    show_study(_done(), "terminal", as_json=True)
    assert json.loads(capsys.readouterr().out)["rows"][0]["lines"][0]["published"] == 0.89


@pytest.mark.parametrize("failed", [True, False])
def test_a_study_with_a_cell_that_failed_ends_with_one(failed, tmp_path, monkeypatch):
    monkeypatch.setattr("oracle.workflows.study.run.study", lambda *given, **named: _done("no" if failed else None))
    monkeypatch.chdir(tmp_path)
    assert run("study", "published").exit_code == (1 if failed else 0)


def test_the_sample_in_the_published_form_in_every_format():
    shown = run("table", "-p", "dynamic")
    assert shown.exit_code == 0 and "static tuned" in shown.output and "speedup, dynamic" in shown.output
    (one,) = json.loads(run("table", "--json").stdout)
    assert one["prompts"] == 80 and set(one["speedups"]) == {"heuristic", "static 5", "static tuned", "oracle"}
    assert "| oracle SL: mean |" in run("table", "--format", "markdown").stdout
    assert r"\begin{tabular}" in run("table", "--format", "latex").stdout
    assert "static 5," in run("table", "--format", "csv").stdout
