"""Policies as text, as files of a user's own, and as plain functions."""

import dataclasses

import numpy as np
import pytest
from builders.traces import pattern, trace
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.replay.simulate import simulate
from oracle.policies import POLICIES, Policy, as_policy, parse
from oracle.policies.contract import MOST_TOKENS
from oracle.policies.counting import Constant
from oracle.policies.library import fixed_length, settings_of, what_runs
from oracle.policies.names import by_name, recorded, summary, usage
from oracle.policies.thresholds import Dynamic, PMin


def some_policy(kind):
    """Objects of a class with any legal numbers."""
    most = getattr(kind, "MOST", MOST_TOKENS)
    values = {int: st.integers(1, most), float: st.floats(0, 1)}
    fields = dataclasses.fields(kind)
    return st.builds(kind, **{item.name: values.get(type(item.default), st.just(item.default)) for item in fields})


@settings(derandomize=True, deadline=None)
@given(st.one_of([some_policy(kind) for kind in POLICIES.values()]))
def test_a_policys_text_is_read_back_as_the_same_policy(policy):
    assert parse(str(policy)) == policy


@pytest.mark.parametrize("name", POLICIES)
def test_every_listed_policy_says_what_it_does(name):
    assert len(summary(name)) > 20 and parse(usage(name)) == parse(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("constant:tokens=2147483648", "at most 2147483647"),
        ("constant:tokens=" + "9" * 5000, "digits"),
        ("constant:tokens=1_0", "not a whole number"),
        ("constant:tokens=٣", "not a whole number"),
        ("dynamic:threshold=0_1", "not a number"),
        ("dynamic:threshold=٠.٤", "not a number"),
        ("dynamic:threshold=0x1", "not a number"),
        ("dynamic:threshold=inf", "between 0"),
        ("dynamic:threshold=-inf", "between 0"),
        ("p-min:n_min=-1", "at least 0"),
        ("p-min:n_max=0", "at least 1"),
        ("p-min:p_min=1.1", "between 0"),
        ("svip:factor=nan", "between 0"),
        ("pmin", "did you mean 'p-min'"),
    ],
)
def test_numbers_out_of_range_or_not_written_plainly_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


@pytest.mark.parametrize("wrong", [{"tokens": 2.5}, {"tokens": True}, {"tokens": "5"}, {"threshold": "0.4"}])
def test_an_object_checks_its_numbers_too(wrong):
    with pytest.raises(ValueError, match="must be a"):
        Constant(**wrong)


def test_a_text_keeps_every_digit():
    assert str(Dynamic(threshold=0.1 + 0.2)) == "dynamic:tokens=20,threshold=0.30000000000000004"
    assert str(Dynamic(threshold=np.float64(0.25))) == "dynamic:tokens=20,threshold=0.25"


FILE = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.policies import Policy


@dataclass(frozen=True)
class Unsure(Policy):
    tokens: int = 6
    least: float = 0.5
    loud: bool = False
    title: str = "x"

    def budget(self, state):
        return self.tokens

    def stop(self, signals, state):
        return np.minimum.accumulate(signals.confidence, axis=1) < self.least


def nervous(signals):
    return signals.margin < 0.3


number = 3
"""


@pytest.fixture
def own_file(tmp_path):
    file = tmp_path / "my rules.py"
    file.write_text(FILE, encoding="utf-8")
    return file


def test_a_class_in_a_file_of_ones_own_is_a_policy(own_file):
    text = f"{own_file}:Unsure:tokens=4,loud=True"
    policy = as_policy(text)
    assert (policy.tokens, policy.least, policy.loud, policy.title) == (4, 0.5, True, "x")
    assert str(policy) == f"{own_file}:Unsure:tokens=4,least=0.5,loud=True,title=x"
    assert parse(str(policy)) == policy == as_policy(text)
    t = trace(pattern("++++++", confidence=[0.9, 0.4, 0.9, 0.9, 0.9, 0.9]))
    found = simulate(t, text)
    assert found.policy == text and found.drafted.tolist() == [2, 2]  # up to 0.4; then the room for two


def test_a_function_in_a_file_of_ones_own_is_a_policy(own_file):
    t = trace(pattern("++++++", confidence=[0.9, 0.4, 0.9, 0.9, 0.9, 0.9]))  # the margin is half of it
    assert simulate(t, f"{own_file}:nervous").drafted.tolist() == [2, 2]
    assert simulate(t, f"{own_file}:nervous:tokens=1").drafted.tolist() == [1, 1, 1]


def test_a_file_is_run_only_where_its_name_was_typed(tmp_path):
    file = tmp_path / "mark.py"
    file.write_text(FILE + f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    with pytest.raises(ValueError, match="which is run only where you name it"):
        parse(f"{file}:Unsure")
    assert recorded(f"{file}:Unsure") is None
    assert not (tmp_path / "ran").exists()
    simulate(trace(pattern("++")), f"{file}:Unsure")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Unsur", "no class .* called 'Unsur'; it has Unsure, nervous"),
        ("number", "has under that name no policy"),
        ("Policy", "has under that name no policy"),
        ("Unsure:token=3", "legal: tokens=6, least=0.5, loud=False, title=x"),
        ("Unsure:loud=yes", "not True or False"),
        ("nervous:threshold=3", "legal: tokens=20"),
        ("", "called ''"),
    ],
)
def test_what_a_file_does_not_have_is_said_with_its_name(own_file, name, message):
    with pytest.raises(ValueError, match=message):
        as_policy(f"{own_file}:{name}")


def test_a_file_that_is_missing_or_fails_is_said_with_its_name(tmp_path):
    with pytest.raises(ValueError, match="gone.py: no such file"):
        as_policy(f"{tmp_path}/gone.py:Rule")
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="bad.py: running this file of policies failed: ZeroDivisionError"):
        as_policy(f"{tmp_path}/bad.py:Rule")


def test_an_object_of_ones_own_class_and_a_function_are_policies():
    @dataclasses.dataclass(frozen=True)
    class Two(Policy):
        tokens: int = 2

        def budget(self, state):
            return self.tokens

    def low(signals):
        return signals.confidence < 0.5

    t = trace(pattern("++++++", confidence=[0.9, 0.4, 0.9, 0.9, 0.9, 0.9]))
    assert simulate(t, Two()).policy == "Two:tokens=2"
    assert simulate(t, Two()).drafted.tolist() == [2, 2]
    assert simulate(t, low).policy == "low:tokens=20"
    assert simulate(t, low).drafted.tolist() == [2, 2]
    assert str(Policy()) == "Policy"


def test_a_class_that_inherits_from_a_listed_one_is_not_mistaken_for_it():
    @dataclasses.dataclass(frozen=True)
    class Mine(Dynamic):
        def stop(self, signals, state):
            return np.cumsum(signals.confidence, axis=1) > 1.5

    t = trace(pattern("++++++"))  # 0.9 each: the second token is the first above 1.5
    assert simulate(t, Mine()).drafted.tolist() == [2, 2]
    assert str(Mine()) == "Mine:tokens=20,threshold=0.4"
    assert settings_of(Mine()) is None and fixed_length(Mine(threshold=0.0)) is None
    assert what_runs(Mine(threshold=0.0)) == Mine(threshold=0.0) != what_runs(Dynamic(threshold=0.0))


@pytest.mark.parametrize("wrong", [PMin, 3, None, object()])
def test_what_is_no_policy_is_refused_in_words(wrong):
    with pytest.raises(ValueError, match="give"):
        simulate(trace(pattern("++")), wrong)


FAULTY = """
from dataclasses import dataclass

from oracle.policies import Policy, TokenRule


@dataclass(frozen=True)
class Rule(Policy):
    tokens: int = 3

    def budget(self, state):
        return self.tokens


class Start(Rule):
    def start(self, lanes, cost=None):
        return lanes["a"]


class Budget(Rule):
    def budget(self, state):
        return state.tokens


class Stop(Rule):
    def stop(self, signals, state):
        return low(signals)


class Judge(TokenRule):
    def budget(self, state):
        return 3

    def judge(self, signals):
        return low(signals)


class Send(Rule):
    def send(self, passes, stopped, state):
        return low(passes)


class Update(Rule):
    def update(self, state, drafted, accepted, signals):
        return low(drafted)


class Next(Rule):
    def next_prompt(self, state):
        return low(state)


def low(signals):
    return signals.confidnce < 0.3  # line 54
"""


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("Start", "start"),
        ("Budget", "budget"),
        ("Stop", "stop"),
        ("Judge", "judge"),
        ("Send", "send"),
        ("Update", "update"),
        ("Next", "next_prompt"),
        ("low", "stop"),
    ],
)
def test_what_fails_in_a_users_own_code_is_said_with_policy_method_and_place(tmp_path, name, method):
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY, encoding="utf-8")
    line = r"\d+" if name in ("Start", "Budget") else "54"
    message = (
        rf"policy .*faulty\.py:{name}.*: its {method} failed \(.*faulty\.py, line {line}\): (Attribute|Type)Error: "
    )
    with pytest.raises(ValueError, match=message) as raised:
        simulate(trace(pattern("++++++")), f"{file}:{name}")
    assert isinstance(raised.value.__cause__, (AttributeError, TypeError))


def test_two_policies_of_one_name_are_refused():
    def rule(least):
        return lambda signals: signals.confidence < least

    first = rule(0.1)
    assert by_name([first, first, "dynamic", "dynamic", "oracle:detect", "oracle:detect"]).keys() == {
        "<lambda>:tokens=20", "dynamic", "oracle:detect"
    }  # fmt: skip
    assert len(by_name([Dynamic(), str(Dynamic())])) == 1
    with pytest.raises(ValueError, match="two policies are called '<lambda>:tokens=20'"):
        by_name([first, rule(0.2)])


def test_a_file_whose_name_begins_like_the_oracles_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "oracle_rules.py").write_text(FILE, encoding="utf-8")
    t = trace(pattern("++++++", confidence=[0.9, 0.4, 0.9, 0.9, 0.9, 0.9]))
    assert simulate(t, "oracle_rules.py:Unsure").drafted.tolist() == [2, 2]


def test_a_file_without_a_name_is_answered_with_how_to_write_it(own_file):
    with pytest.raises(ValueError, match=r"path/to/file\.py:Name"):
        parse(str(own_file))
