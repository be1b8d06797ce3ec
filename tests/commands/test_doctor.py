"""``oracle doctor``: what is missing is said with what to do, and nothing hangs."""

import json
import threading
from dataclasses import replace

import pytest
from test_cli import run

from oracle.workflows import doctor
from oracle.workflows.doctor import PACKAGES, Device, Health, advice, bfloat16_ratio, hub_problem

WELL = Health({}, 2, 1, [Device("cpu", "processor")], 0.5, None, True, 10**10, 10**11, "pair")


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *given, **named: 1 / 0)


def test_it_says_what_there_is_and_ends_well(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run("doctor")
    assert done.exit_code == 0 and all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "cpu: processor" in done.stdout and "not reached (ZeroDivisionError)" in done.stdout
    assert "- The hub is not reached" in done.stdout
    found = json.loads(run("doctor", "--json").stdout)
    assert list(found["versions"]) == list(PACKAGES) and found["versions"]["torch"]
    assert found["bfloat16_ratio"] > 0 and found["disk"] > 0 and found["pair"] and found["cores"] >= 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bfloat16_ratio": 3.0}, "3.0 times slower than float32 here: give --dtype float32"),
        ({"hub": "no route"}, "The hub is not reached"),
        ({"scikit_learn": False}, "policy roc"),
        ({"pair": None}, "The shipped pair is not found"),
        ({"disk": 10**9}, "1.0 GB of disk"),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(change, words):
    told = advice(replace(WELL, **change))
    assert len(told) == 1 and words in told[0] and not advice(WELL)


def test_a_hub_that_never_answers_does_not_hold_us_up(monkeypatch):
    release = threading.Event()
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *given, **named: release.wait(60))
    assert hub_problem(0.01) == "no answer within 0.01 s"
    release.set()


def test_the_ratio_is_of_the_two_data_types(monkeypatch):
    import torch

    times = {torch.bfloat16: 3.0, torch.float32: 2.0}
    monkeypatch.setattr(doctor, "_seconds", lambda device, dtype: times[dtype])
    assert bfloat16_ratio("cpu") == 1.5
