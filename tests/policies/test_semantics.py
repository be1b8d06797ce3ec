"""The table of releases, and what each release makes of a policy."""

import importlib.metadata

import numpy as np
import pytest

from analysis.cost import CostModel
from analysis.replay.simulate import simulate
from oracle.policies import parse, semantics
from oracle.policies.contract import Signals, after_prompt
from oracle.policies.semantics import RELEASES, caveats, default_policy, in_force, release, under
from oracle.records.trace import Trace
from oracle.shipped import data_path


@pytest.mark.parametrize(
    ("version", "first"),
    [("4.44.2", "4.44.2"), ("4.45", "4.45.0"), ("4.46.1", "4.45.0"), ("4.48.3", "4.47.0"), ("4.57.6", "4.50.0"),
     ("5.1.0", "5.0.0"), ("5.24.0", "5.20.0"), ("5.24.0.dev0", "5.20.0"), ("6.0", "5.20.0")],
)  # fmt: skip
def test_the_rules_of_a_release(version, first):
    assert release(version).first == first


@pytest.mark.parametrize("version", ["4.30", "5.15.0", "5.4.0"])
def test_a_release_that_nobody_looked_at_is_refused(version):
    with pytest.raises(ValueError, match="are not known; known are 4.44.2, 4.45.0 to 4.46.3,"):
        release(version)


def test_what_names_no_release_is_refused():
    with pytest.raises(ValueError, match="'newest': give a release of transformers such as 4.45"):
        release("newest")


def test_the_installed_release_decides_where_none_is_named(monkeypatch):
    assert semantics.installed() == importlib.metadata.version("transformers")
    for version, first in (("4.57.6", "4.50.0"), ("5.15.0", "5.6.0")):
        monkeypatch.setattr(semantics, "installed", lambda version=version: version)
        assert in_force().first == first


@pytest.mark.parametrize("row", RELEASES, ids=str)
def test_a_default_has_the_defaults_of_its_release(row):
    policy = parse(row.default)
    assert (policy.tokens, policy.threshold) == (row.tokens, row.threshold)


def test_what_releases_make_of_policies():
    made = {
        version: [str(under(parse(text), version)).partition(":")[0] for text in ("heuristic", "roc", "constant")]
        for version in ("4.44.2", "4.46", "4.49", "4.57", "5.2", "5.24")
    }
    assert made == {
        "4.44.2": ["heuristic-4.46", "dynamic", "constant"],
        "4.46": ["heuristic-4.46", "dynamic", "constant"],
        "4.49": ["heuristic", "roc-4.49", "constant"],
        "4.57": ["heuristic", "roc-4.57", "constant"],
        "5.2": ["heuristic", "dynamic", "constant"],
        "5.24": ["heuristic", "roc", "constant"],
    }
    assert str(under(parse("heuristic_transient:tokens=3"), "4.45")) == "heuristic_transient-4.46:tokens=3,threshold=0"
    assert under(parse("heuristic-4.46"), "5.24") == parse("heuristic-4.46")
    assert [default_policy(True, version) for version in ("4.44", "4.46", "4.57", "5.2", "5.24")] == [
        "heuristic", "dynamic", "roc", "dynamic", "roc",
    ]  # fmt: skip


def told(confidence):
    values = np.array([confidence], np.float32)
    return Signals.of(values, values, values)


@pytest.mark.parametrize(("name", "at_once"), [("roc-4.49", False), ("roc-4.57", True)])
def test_when_a_refitted_threshold_acts(name, at_once):
    """Six tokens, the last refused: the threshold that parts them is the fifth's confidence."""
    policy = parse(name)
    confidence = [0.9, 0.8, 0.7, 0.6, 0.55, 0.5]
    state = policy.update(policy.start(1), np.array([6]), np.array([5]), told(confidence))
    fitted = float(np.float32(0.55))
    assert state.threshold[0] == (fitted if at_once else 0.4)
    state = after_prompt(policy, state)
    assert state.threshold[0] == fitted and state.count[0] == 0
    # A call that does not begin with 0.4 keeps its first threshold, and refits the next one's.
    state = policy.update(state, np.array([6]), np.array([2]), told(confidence))
    assert state.threshold[0] == fitted
    assert after_prompt(policy, policy.update(state, np.array([6]), np.array([5]), told(confidence))).threshold[0] > 0


def test_a_replay_follows_the_release_that_is_named():
    sample = Trace.load(data_path("sample"))
    policy, cost = "heuristic:tokens=5,threshold=0.4", CostModel(draft=0.1)
    old, new = (simulate(sample, policy, cost, semantics=version) for version in ("4.46", "5.24"))
    assert old.policy == new.policy == policy
    assert (
        old.drafted.tolist() == simulate(sample, policy.replace("heuristic", "heuristic-4.46"), cost).drafted.tolist()
    )
    assert old.draft_tokens < new.draft_tokens


def test_what_a_release_leaves_open_is_said():
    policies = [parse("constant"), parse("dynamic"), parse("svip"), parse("heuristic:threshold=0.3")]
    assert caveats(policies, "4.45") == caveats(policies, "5.24.0") == []
    (late,) = caveats(policies, "9.9")
    assert "9.9 is later than all releases that were looked at" in late
    without = caveats(policies, "4.44")
    assert len(without) == 2 and all("has no threshold" in each for each in without)
