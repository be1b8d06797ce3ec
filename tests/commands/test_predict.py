"""``oracle predict``, and its picture."""

import json

import pytest
from test_cli import run

from analysis.cost import CostModel
from analysis.plots import plot_prediction


def test_the_command_says_what_pays(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run("predict", "--acceptance", "0.8", "--draft-cost", "0.05")
    assert done.exit_code == 0
    assert "Best constant lookahead: 8, speedup 3.09, 4.33 tokens an iteration." in done.stdout
    assert "Break-even: a draft step of 0.8 target steps at this acceptance; an acceptance of 0.05" in done.stdout
    assert "No constant lookahead" in run("predict", "--acceptance", "0.3", "--draft-cost", "0.33").stdout
    dear = run("predict", "--acceptance", "0.9", "--verify", "1:1,2:2.5").stdout
    assert "no draft is cheap enough" in dear and "no acceptance is high enough" in dear


def test_the_command_answers_programs():
    words = ["predict", "--acceptance", "0.8", "--draft-cost", "0.05", "--verify", "1:1,4:1.1,8:1.4", "--tokens", "7"]
    answer = json.loads(run(*words, "--json").stdout)
    assert answer["best"] == {"tokens": 5, "tokens_per_iteration": 3.68928, "speedup": pytest.approx(2.45952)}
    assert answer["verify"] == [[1, 1.0], [4, 1.1], [8, 1.4]] and 7 in [row["tokens"] for row in answer["rows"]]
    rows = json.loads(run("predict", "--published", "--json").stdout)
    assert rows[0]["data"] == "MBPP" and rows[0]["measured"] == 1.46
    table = run("predict", "--published").stdout
    assert "-16%" in table and "+21%" in table


def test_the_picture_holds_the_point_and_where_a_draft_loses(tmp_path, recwarn):
    for acceptance, cost in ((0.8, CostModel(draft=0.05)), (0.2, CostModel(draft=2.0, verify=((1, 1.0), (2, 2.5))))):
        ax = plot_prediction(acceptance, cost)
        ax.figure.draw_without_rendering()
        point = ax.lines[-1].get_xydata().tolist()
        assert point == [[acceptance, cost.draft]]
        assert "here a draft loses" in [text.get_text() for text in ax.texts]
    assert not [str(warning.message) for warning in recwarn]
    file = tmp_path / "p.png"
    done = run("predict", "--acceptance", "0.8", "--draft-cost", "0.05", "--plot", file)
    assert done.exit_code == 0 and file.stat().st_size > 10_000
