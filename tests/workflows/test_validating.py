"""From two models to a verdict in one call."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from builders.pairs import tiny_pair
from builders.runs import fake_runs, some_trace

import oracle
from analysis.measured.calibrate import FIT
from oracle.policies import Policy
from oracle.prompts.forms import Prompt
from oracle.prompts.sets import PromptSet
from oracle.timing import Clock
from oracle.workflows.validate import compare, validate

PROMPTS = [[5, 6, 7, 8], [9, 10, 11], [12, 13, 14, 15, 16]]
POLICIES = ["constant:tokens=2", "dynamic"]


@pytest.fixture(autouse=True)
def ticking(monkeypatch):
    """Every reading of the clock is a millisecond after the last one: no price hangs on what else the machine does."""
    ticks = itertools.count()
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: Clock(lambda: next(ticks) / 1000))


@dataclass(frozen=True)
class Priced(Policy):
    """Drafts 4 tokens where it is told prices, else 1."""

    def start(self, lanes, cost=None):
        return (np.full(lanes, 1 if cost is None else 4),)

    def budget(self, state):
        return state[0]


@pytest.mark.parametrize(("cost", "tokens"), [(None, 1), (oracle.CostModel(draft=0.25), 4)])
def test_a_policy_is_replayed_with_the_prices_that_it_ran_with(tmp_path, cost, tokens):
    settings = {"repeats": 1, "max_new_tokens": 12, "budget": oracle.Budget(median=99, worst=99)}
    found = validate(tiny_pair(), PROMPTS, [Priced()], tmp_path / "out", cost=cost, **settings)
    assert [row.identical for row in found.validation.rows] == [1]
    assert {budget for call in found.runs[0].of("Priced") for budget in call.budget} == {tokens}


def test_a_pair_and_prompts_become_a_verdict_on_disk_and_in_memory(tmp_path):
    told = []
    settings = {"repeats": 1, "max_new_tokens": 24, "budget": oracle.Budget(median=9, worst=9)}
    found = validate(tiny_pair(), PROMPTS, POLICIES, tmp_path / "out", tell=told.append, **settings)
    assert [row.policy for row in found.validation.rows] == POLICIES
    assert all(row.identical == 1 for row in found.validation.rows) and not found.failed
    assert [each.policies for each in found.calibrations] == [FIT]
    assert found.folders == (tmp_path / "out" / "runs-prompts",)
    assert found.traces[0].prompts == 3 and set(FIT) < set(found.runs[0].policies)
    assert told == ["prompts: collecting the trace, then measuring 1 repeats ..."]
    again = validate(tiny_pair(), PROMPTS, POLICIES, tmp_path / "out", resume=True, **settings)
    assert [row.measured for row in again.validation.rows] == [row.measured for row in found.validation.rows]
    stored = compare(tmp_path / "out" / "trace-prompts", found.folders[0], policies=POLICIES)
    assert [row.error for row in stored.validation.rows] == [row.error for row in found.validation.rows]


@pytest.mark.parametrize(
    ("policies", "message"),
    [([FIT[2]], "prices are fitted on"), (["dynamik"], "did you mean 'dynamic'")],
)
def test_bad_policies_are_refused_before_anything_runs(policies, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        validate(tiny_pair(), PROMPTS, policies, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_sets_of_one_name_would_share_a_folder(tmp_path):
    twice = [PromptSet("a", (Prompt("0", "x"),), {})] * 2
    with pytest.raises(ValueError, match="have one name"):
        validate(tiny_pair(), twice, POLICIES, tmp_path)


def test_given_prices_are_not_fitted_again():
    source = some_trace()
    runs = fake_runs(source, [*FIT, "dynamic"])
    prices = oracle.calibrate(runs).cost
    found = compare(source, runs, prices)
    assert found.calibrations == () and [row.policy for row in found.validation.rows] == ["dynamic"]
