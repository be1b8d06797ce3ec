"""The harness, run short: a few kills, and inputs of every kind.  By hand it runs as long as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the harness forks its runs")


def harness(*words):
    """In a process of its own: what forks must not run threads."""
    done = subprocess.run([sys.executable, *map(str, words)], cwd=HERE, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


def test_runs_killed_at_random_lose_nothing():
    told = harness(HERE / "kills.py", "--kills", 6)
    assert told[-1].endswith("0 faults") and int(told[-1].split()[0]) >= 6
    assert {line.split(": ")[1] for line in told[:-1]} > {"collect", "measure", "collect --force"}


def test_mutated_inputs_are_answered_rightly_or_refused_cleanly():
    told = harness(HERE / "mutations.py", "--inputs", 1800)
    ends = {tuple(line.split()[:2]) for line in told}
    for kind in ("policy", "prices", "prompts", "trace", "runs", "words"):
        assert {(kind, "answered"), (kind, "refused")} <= ends, told
    assert told[-1] == "1,800 inputs, 0 faults"


def test_the_harness_finds_a_fault(tmp_path):
    """A reader that lets a foreign exception out, one that never ends, and one that takes all memory."""
    script = tmp_path / "faulty.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import mutations
mutations.SECONDS = 1
mutations.warmed = lambda world: None
import subjects

def foreign(world, random, place):
    return subjects.Mutant("foreign", lambda: {{}}["missing"])

def endless(world, random, place):
    def use():
        while True:
            pass
    return subjects.Mutant("endless", use)

def wrong(world, random, place):
    def use():
        assert 1 == 2, "tokens do not add up"
    return subjects.Mutant("wrong", use)

def greedy(world, random, place):
    return subjects.Mutant("greedy", lambda: bytearray(3 * 2**30))

subjects.SUBJECTS = {{each.__name__: each for each in (foreign, endless, wrong, greedy)}}
mutations.MIX = list(subjects.SUBJECTS)
sys.argv = ["mutations.py", "--inputs", "4"]
sys.exit(mutations.main())
"""
    )
    done = subprocess.run([sys.executable, str(script)], text=True, capture_output=True, timeout=120)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "4 inputs, 4 faults", done.stdout + done.stderr
    for words in ("KeyError", "took too long", "tokens do not add up", "MemoryError"):
        assert words in done.stdout
