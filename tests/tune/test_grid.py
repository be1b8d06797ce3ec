"""Which settings are tried, and in which order of simplicity they stand."""

import pytest

from analysis.replay.sweep import library_policies
from analysis.tune.grid import ALL, DEFAULT, GRIDS, beside_default, settings_of
from analysis.tune.simplicity import ORDER, rank, simplest
from oracle.policies import POLICIES, parse


def test_the_default_is_what_transformers_can_be_set_to_and_holds_all_that_the_sweep_tries():
    found = settings_of(DEFAULT)
    assert set(library_policies()) <= set(found)
    assert sum(family == "dynamic" for family in found.values()) == 50 * 11  # a cap of one is a constant
    assert found["constant:tokens=5"] == "constant" and set(found.values()) == set(DEFAULT)


@pytest.mark.parametrize("family", GRIDS)
def test_every_setting_of_a_grid_is_a_policy_and_no_two_are_one(family):
    if family == "disco":
        return
    rules = [parse(text) for text in settings_of([family]) if text.partition(":")[0] == family]
    assert len(rules) == len(set(rules)) > 0


def test_keys_hold_a_number_fast():
    found = [text for text in settings_of(["svip:tokens=20"]) if text.startswith("svip")]
    assert len(found) == 19 and all(parse(text).tokens == 20 for text in found)
    assert [text for text in settings_of(["staircase"]) if "staircase" in text] == ["staircase"]


def test_keys_hold_a_number_of_transformers_own_rules_too():
    found = settings_of(beside_default(["dynamic:tokens=10", "svip"]))
    dynamic = [text for text, family in found.items() if family == "dynamic"]
    assert len(dynamic) == 50 and all(parse(text).tokens == 10 for text in dynamic)
    assert set(found.values()) == {*DEFAULT, "svip"}
    assert list(settings_of(beside_default(["constant:tokens=5"]))) == list(settings_of(DEFAULT))


def test_all_are_those_that_need_no_training():
    assert set(settings_of([ALL]).values()) == set(POLICIES) - {"none", "random", "disco"}


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("banana", "unknown policy 'banana'; legal: "),
        ("dynamik", "did you mean 'dynamic'"),
        ("disco", "oracle train disco OTHER-TRACE"),
        ("dynamic:tokens=0", "tokens=0: must be at least 1"),
        ("oracle:detect", "nobody can run an oracle"),
    ],
)
def test_what_cannot_be_tuned_is_said_in_a_sentence(family, words):
    with pytest.raises(ValueError, match=words):
        settings_of([family])


def test_the_order_of_simplicity():
    assert sorted(ORDER) == sorted(POLICIES)
    named = ["tapout", "svip", "dynamic:threshold=0.3,tokens=5", "heuristic", "constant:tokens=3", "none"]
    assert sorted(named, key=rank) == named[::-1]
    assert simplest(named) == "none" and simplest(named[:3]) == "dynamic:threshold=0.3,tokens=5"
    assert rank("my.py:Rule") > rank("random") and rank("specdec++:file=a.json") > rank("my.py:Rule")
    assert simplest(["constant:tokens=5", "constant:tokens=2"]) == "constant:tokens=5"
