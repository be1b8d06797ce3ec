"""What README promises, held against the code."""

import json
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import typer
from builders.traces import pattern, trace
from typer.testing import CliRunner

import oracle
from analysis.plots.panels import PANELS
from oracle.cli import app
from oracle.commands.plot import KINDS
from oracle.policies import POLICIES, parse

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
POLICIES_MD = (ROOT / "data" / "POLICIES.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands


def blocks(language, text=README):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def written():
    """Every command line of README: those of its shell blocks and those in its running text."""
    lines = [line for block in blocks("bash") for line in block.splitlines() if re.match(r"(\S+/)?oracle ", line)]
    return lines + re.findall(r"`(oracle [a-z][^`]*)`", README)


def test_the_commands_listed_are_those_there_are():
    table = README.split("| command | answers |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    assert set(re.findall(r"`oracle (\w+)", table)) == set(COMMANDS)


@pytest.mark.parametrize("line", sorted(set(written())))
def test_every_command_line_names_options_that_exist(line):
    name = line.split()[1]
    known = {flag for option in COMMANDS[name].params for flag in (*option.opts, *option.secondary_opts)}
    assert {word for word in line.split() if word.startswith("-")} <= known


def test_options_in_running_text_exist():
    known = {flag for each in COMMANDS.values() for option in each.params for flag in option.opts}
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    assert set(re.findall(r"`(--[a-z-]+)", prose)) <= known


def test_the_kinds_of_pictures_are_listed():
    kinds = re.search(r"\| `oracle plot [^|]*\| ([a-z, ]+) \|", README)[1].split(", ")
    assert set(kinds) == {*KINDS} and {*PANELS} <= {*KINDS}


def test_every_policy_that_is_written_parses():
    section = README.split("**Policies**")[1].split("\n\n")[0]
    texts = [text for text in re.findall(r"`([^`]+)`", section) if not text.startswith("name")]
    assert "dynamic:threshold=0.4,tokens=20" in texts
    for text in texts:
        parse(text)


def test_the_document_of_policies_gives_the_defaults():
    listed = [text for text in re.findall(r"^\| `([^`]+)` \|", POLICIES_MD, re.MULTILINE)]
    own = [text for text in listed if not text.startswith("oracle:")]
    assert [text.partition(":")[0] for text in own] == list(POLICIES)
    for text in own:
        assert parse(text) == POLICIES[text.partition(":")[0]]()


@pytest.mark.parametrize(
    "document", ["README.md", *(str(each.relative_to(ROOT)) for each in ROOT.glob("data/**/*.md"))]
)
def test_links_lead_somewhere(document):
    file = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", file.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (file.parent / target).exists(), target


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("document", ["README.md", "data/results/FINDINGS.md"])
def test_shell_blocks_are_read_by_the_shells(shell, document):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for block in blocks("bash", (ROOT / document).read_text(encoding="utf-8")):
        subprocess.run([shell, "-n", "-c", block], check=True)


def test_the_lines_of_python_run_as_written(tmp_path, monkeypatch):
    (block,) = blocks("python")
    *before, last = block.strip().splitlines()
    assert last.startswith("found = oracle.diagnose(")  # which takes a minute and has tests of its own
    monkeypatch.chdir(tmp_path)
    found = {}
    with warnings.catch_warnings(action="ignore"):
        exec(compile("\n".join(before), "README.md", "exec"), found)
    assert found["result"].speedup > 0 and (tmp_path / "page.html").exists() and (tmp_path / "histogram.png").exists()


def test_a_policy_of_ones_own_runs_as_written():
    block = next(each for each in blocks("python", POLICIES_MD) if "class Unsure" in each)
    recorded = trace(pattern("++++++++", confidence=[0.9, 0.9, 0.25, 0.9, 0.9, 0.9, 0.9, 0.9]))
    found = {"oracle": oracle, "trace": recorded}
    exec(compile(block, "POLICIES.md", "exec"), found)
    rule = found["Unsure"]
    assert oracle.simulate(recorded, rule(least=0.2)).drafted.tolist() == [7]
    assert oracle.simulate(recorded, rule(least=0.3)).drafted.tolist() == [3, 3]
    assert oracle.simulate(recorded, rule(tokens=2, least=0.3)).policy == "Unsure:tokens=2,least=0.3"

    def stop(signals):
        return np.minimum.accumulate(signals.confidence, axis=1) < 0.3

    assert oracle.simulate(recorded, stop).drafted.tolist() == [3, 3]


@pytest.mark.parametrize("name", ["simulate", "tune", "stats"])
def test_without_a_trace_a_recording_of_a_real_pair_is_used(name):
    done = CliRunner().invoke(app, [name, "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout) and "shipped sample" in done.stderr


def test_the_numbers_of_the_validation_are_those_stored():
    validation = (ROOT / "data" / "results" / "VALIDATION.md").read_text(encoding="utf-8")
    median, worst = re.search(
        r"differ by ([\d.]+) % in the median and ([\d.]+) % at worst", " ".join(README.split())
    ).groups()
    assert f"The error is {median}% in the median and {worst}% at worst" in validation


def test_the_readme_stays_short():
    assert len(README.split()) <= 1300
