"""``oracle diagnose``: budgets as they are typed, and a screen that fits."""

import importlib
import warnings

import pytest
from builders.found import found
from test_cli import run

from oracle.commands.diagnose import seconds_of, show_diagnosis
from oracle.settings import settings
from oracle.workflows.diagnose.plan import Plan
from oracle.workflows.diagnose.result import Diagnosis

command = importlib.import_module("oracle.commands.diagnose")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), ("45", 45), (" 2 M ", 120)])
def test_a_budget_as_it_is_typed(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "0m", "-5m", "1e9h", "5d", "nan"])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(ValueError, match="legal: a time such as 90s, 10m or 1h"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "soon"], "--budget is 'soon'"),
        (["--target", "x"], "--target is given without --draft"),
        (["--draft", "x"], "--draft is given without --target"),
        (["--pair", "demo", "--draft", "x"], "exclude each other"),
        (["--target", "x", "--draft", "y", "--draft", "y"], "--draft 'y' is given twice"),
    ],
)
def test_bad_words_are_refused_before_anything_is_loaded(words, said):
    done = run("diagnose", *words)
    assert done.exit_code == 2 and said in done.stderr


def whole(facts, policy="constant:tokens=3"):
    return Diagnosis(
        target="org/big",
        draft=facts.draft,
        data="mine",
        machine={"dtype": "float32", "threads": 1},
        answer="faster",
        policy=policy,
        settings=settings(policy),
        found=facts,
        plan=Plan(recorded=20, measured=12, repeats=1, max_new_tokens=64, kept=100, seconds=500.0),
        seconds=590.0,
        folder="out",
        report="out/report.html",
    )


@pytest.mark.parametrize("policy", ["constant:tokens=3", "none"])
def test_the_screen_is_80_wide_and_some_forty_lines(monkeypatch, capsys, policy):
    monkeypatch.setenv("COLUMNS", "80")
    show_diagnosis(whole(found(), policy))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) <= 46
    assert lines[0].startswith("FASTER.")
    text = "\n".join(lines)
    for word in ("ADVICE", "WHY.", "CHANGE.", "PASTE", "SURER.", "Report: out/report.html", "drafting"):
        assert word in text
    assert ("num_assistant_tokens" in text) == (policy != "none")


def test_the_command_hands_on_what_was_typed(monkeypatch, tmp_path):
    seen = {}

    def work(pairs, prompts, out, **options):
        seen.update(options, pairs=pairs, prompts=len(prompts), out=out)
        return whole(found())

    monkeypatch.setattr("oracle.workflows.diagnose.diagnose", work)
    monkeypatch.setattr(command.DraftsOptions, "load", lambda self: [self.named, *(self.draft or [])])
    words = ["--dataset", "demo-text", "--limit", "9", "--json", "--resume"]
    done = run("diagnose", tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    assert (seen["pairs"], seen["prompts"], seen["budget"], seen["seed"]) == (["demo"], 9, None, 0)
    assert seen["resume"] and '"policy": "constant:tokens=3"' in done.stdout
    run("diagnose", tmp_path / "out", "--target", "a", "--draft", "b", "--draft", "c", "--budget", "1h")
    assert seen["pairs"] == [None, "b", "c"] and seen["budget"] == 3600


def test_a_warning_of_every_step_is_one_remark(monkeypatch, tmp_path):
    def work(*given, **options):
        for _ in range(3):
            with warnings.catch_warnings():  # as libraries do, after which Python forgets what it said
                warnings.warn("the draft's tokenizer lacks <tool>", stacklevel=1)
        return whole(found())

    monkeypatch.setattr("oracle.workflows.diagnose.diagnose", work)
    monkeypatch.setattr(command.DraftsOptions, "load", lambda self: [])
    done = run("diagnose", tmp_path / "out", "--dataset", "demo-text", "--limit", "9")
    lines = [line for line in done.stderr.splitlines() if "lacks <tool>" in line]
    assert done.exit_code == 0 and lines == ["Warning: the draft's tokenizer lacks <tool>."]


def test_a_taken_folder_is_refused_before_models_are_loaded(tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    done = run("diagnose", tmp_path, "--target", "nowhere/at-all", "--draft", "nor/this")
    assert done.exit_code == 2 and "holds 'mine.txt' and no diagnose.json" in done.stderr
