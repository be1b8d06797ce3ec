"""A policy of a user's own in every place that takes policies."""

import dataclasses

import numpy as np
import pytest
from builders.runs import COST, fake_runs, some_trace

from analysis.examine import Source, examine
from analysis.report import page
from analysis.validation.validate import validate
from oracle.policies import Policy


@dataclasses.dataclass(frozen=True)
class Unsure(Policy):
    tokens: int = 6
    least: float = 0.2

    def budget(self, state):
        return self.tokens

    def stop(self, signals, state):
        return np.minimum.accumulate(signals.confidence, axis=1) < self.least


@pytest.fixture(scope="module")
def source():
    return some_trace()


@pytest.fixture(scope="module")
def runs(source):
    return fake_runs(source, ["constant:tokens=5", Unsure()])


def test_it_is_validated_where_it_is_handed_over(source, runs):
    found = validate(source, runs, COST, policies=[Unsure(), "constant:tokens=5"])
    assert [row.policy for row in found.rows] == [str(Unsure()), "constant:tokens=5"]
    assert found.rows[0].identical == 1 and found.rows[0].error.value == pytest.approx(0, abs=1e-9)


def test_runs_of_it_alone_cannot_bring_it_back(source, runs):
    found = validate(source, runs, COST)
    assert [row.policy for row in found.rows] == ["constant:tokens=5"]
    assert any(str(Unsure()) in reason and "policy of your own" in reason for reason in found.failures)


def test_it_is_in_the_report_beside_its_measured_speedup(source, runs):
    found = examine(Source(source, runs=runs, cost=COST), "mine", ["dynamic", Unsure()])
    assert str(Unsure()) in [result.policy for result in found.results]
    assert str(Unsure()) in found.measured and str(Unsure()) not in found.left_out
    without = examine(Source(source, runs=runs, cost=COST), "mine", ["dynamic"])
    assert "hand it over" in without.left_out[str(Unsure())]
    assert str(Unsure()) in page.render([found])
