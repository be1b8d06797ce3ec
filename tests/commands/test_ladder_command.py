"""``oracle simulate --ladder`` and the picture of it."""

import json

import pytest
from builders.traces import EOS, pattern
from test_cli import run

import oracle
from analysis.ladder.replays import RUNGS
from oracle.records.trace import write_meta, write_part


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("trace")
    write_meta(found, {"eos_token_ids": [EOS], "max_overrun": 9, "prompts": {"dataset": "by-hand"}})
    branches = {at: [(1, 0.9)] * 9 for at in range(16)}
    texts = ["++-+++-+++++-+++", "+++++-+++-++", "--+-++--++", "+-+-+-++", "+++++++++", "++--++-++-+"]
    write_part(found, 0, [pattern(text, index=n, overruns=branches) for n, text in enumerate(texts)])
    return found


def test_the_ladder_fits_a_terminal_and_a_program(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("simulate", "--ladder", folder, "--draft-cost", "0.2")
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    table = lines[: next(at for at, line in enumerate(lines) if line.startswith("Headroom"))]
    assert all(len(line) <= 80 for line in table)
    assert [line.split("  ")[0].strip() for line in table if line.startswith(RUNGS)] == list(RUNGS)
    assert sum(line.startswith("Headroom") for line in lines) == 1
    assert "scikit-learn" in shown.output and "they take 10 prompts" in shown.output
    answer = json.loads(run("simulate", "--ladder", folder, "--draft-cost", "0.2", "--json").stdout)
    assert [each["name"] for each in answer["ladder"]["rungs"]] == list(RUNGS)
    assert answer["headroom"].startswith("Headroom") and answer["notes"]
    found = oracle.ladder(folder, 0.2)
    assert answer["ladder"]["rungs"][-1]["speedup"]["value"] == found.rungs[-1].speedup.value
    assert answer["ladder"]["rungs"][-1]["over_constant"]["low"] is None  # six prompts


@pytest.mark.parametrize("words", [["--policy", "dynamic"], ["--baseline", "none"], ["--allow-in-sample"]])
def test_a_ladder_has_its_own_rungs(folder, words):
    refused = run("simulate", "--ladder", folder, *words)
    assert refused.exit_code == 2 and "rungs and a baseline of its own" in refused.output


def test_the_picture_hangs_on_prices_and_others_do_not(folder, tmp_path):
    drawn = run("plot", folder, "headroom", "--draft-cost", "0.3", "-o", tmp_path / "h.png")
    assert drawn.exit_code == 0 and (tmp_path / "h.png").stat().st_size > 5000
    refused = run("plot", folder, "roc", "--draft-cost", "0.3", "-o", tmp_path / "r.png")
    assert refused.exit_code == 2 and "roc does not hang on --draft-cost" in refused.output
