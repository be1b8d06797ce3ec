import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest

from analysis.cost import CostModel, iid_speedup, iid_tokens_per_iteration


@pytest.mark.parametrize(
    ("acceptance", "tokens", "draft", "expected"),
    [(0.8, 5, 0.05, 2.9514), (0.8, 5, 0.33, 1.3922), (0.6, 5, 0.065, 1.7988), (0.9, 20, 0.05, 4.4529)],
)
def test_textbook_speedups(acceptance, tokens, draft, expected):
    assert iid_speedup(acceptance, tokens, CostModel(draft=draft)) == pytest.approx(expected, abs=5e-5)


def test_textbook_tokens():
    assert iid_tokens_per_iteration(0.8, 5) == pytest.approx(3.6893, abs=5e-5)
    assert iid_tokens_per_iteration(1.0, 5) == 6


def test_verification_is_linear_between_the_measured_counts_and_beyond():
    cost = CostModel(draft=0.1, verify=((1, 1.0), (2, 1.5), (6, 2.5)))
    assert cost.verification(np.array([1, 2, 4, 6, 10])).tolist() == [1.0, 1.5, 2.0, 2.5, 3.5]


def test_a_round_by_hand():
    cost = CostModel(
        draft=1.0, draft_first=3.0, draft_context=0.1, verify=((1, 10.0), (4, 16.0)), verify_context=0.5, iteration=2.0
    )
    # Three draft steps: 3 + 1 + 1, at contexts 20, 21, 22: 6.3; verification of four: 16 + 0.5 * 20; constant 2.
    assert cost.round(np.array([3]), np.array([20])).tolist() == pytest.approx([5 + 6.3 + 26 + 2])
    # Nothing drafted: no draft step at all.
    assert cost.round(np.array([0]), np.array([20])).tolist() == [10 + 10 + 2]
    assert cost.step(20) == 20


def test_a_drafting_phase_is_a_table_linear_between_and_a_step_a_token_beyond():
    cost = CostModel(draft=0.5, draft_first=9.0, draft_phase=((1, 1.0), (3, 2.0), (5, 4.0)))
    assert cost.drafting(np.array([0, 1, 2, 3, 4, 5, 7])).tolist() == [0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
    grown = dataclasses.replace(cost, draft_context=0.1)
    assert grown.drafting(np.array([3]), 20).tolist() == pytest.approx([2.0 + 6.3])


def test_plain_decoding_may_have_its_own_price():
    assert CostModel(draft=0.1, plain=0.9, plain_context=0.01).step(10) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"draft": -1.0},
        {"draft": float("nan")},
        {"draft": 0.1, "iteration": float("inf")},
        {"draft": 0.1, "verify": ()},
        {"draft": 0.1, "verify": ((2, 1.0),)},
        {"draft": 0.1, "verify": ((1, 1.0), (1, 2.0))},
        {"draft": 0.1, "verify": ((1, 2.0), (2, 1.0))},
        {"draft": 0.1, "verify": ((1, 0.0),)},
        {"draft": True},
        {"draft": [0.1]},
        {"draft": 0.1, "verify": ((1.9, 1.0),)},
        {"draft": 0.1, "verify": ((1, True),)},
        {"draft": 0.1, "verify": 5},
        {"draft": 0.1, "plain": 0.0},
        {"draft": 10**400},
        {"draft": 0.1, "draft_phase": ((2, 1.0),)},
        {"draft": 0.1, "draft_phase": ((1, 1.0), (2, 0.9))},
    ],
)
def test_impossible_prices_are_refused(fields):
    with pytest.raises(ValueError):
        CostModel(**fields)


def test_saved_and_loaded_is_the_same(tmp_path):
    cost = CostModel(
        draft=0.25, verify=((1, 1.0), (3, 1.5)), unit="s", machine={"cpu": "x"}, measured_range={"tokens": [1, 3]}
    )
    cost.save(tmp_path / "cost.json")
    loaded = CostModel.load(tmp_path / "cost.json")
    assert loaded == cost and loaded.machine == cost.machine and loaded.measured_range == cost.measured_range


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a readable cost model"),
        (json.dumps({"schema": 7}), "schema 7"),
        (json.dumps({"schema": 1, "draft": 0.1, "speed": 3}), "unknown field 'speed'"),
        (json.dumps({"schema": 1}), "draft"),
        (json.dumps([1]), r"it holds \[1\]; an object of named values"),
        (json.dumps({"schema": True, "draft": 0.1}), "schema True"),
        (json.dumps({"schema": 1, "draft": True}), "draft is True; it must be a finite number"),
        (json.dumps({"schema": 1, "draft": [0.1]}), r"draft is \[0.1\]; it must be a finite number"),
        (json.dumps({"schema": 1, "draft": "1"}), "draft is '1'; it must be a finite number"),
        (json.dumps({"schema": 1, "draft": 10**400}), "draft is an integer of 1329 bits"),
        (json.dumps({"schema": 1, "draft": 2e9}), "at most 1e"),
        (
            json.dumps({"schema": 1, "draft": 0.1, "verify": [[1.9, 1.0]]}),
            "verify.0.0 is 1.9; it must be a whole number",
        ),
        (json.dumps({"schema": 1, "draft": 0.1, "verify": [[1, 1.0], [2**31, 2.0]]}), "verify.1.0 is 2147483648"),
        (json.dumps({"schema": 1, "draft": 0.1, "verify": [1, 2]}), "verify.0 is 1; it must be a list"),
        (json.dumps({"schema": 1, "draft": 0.1, "plain": 0}), "plain is 0; it must be above 0"),
        (json.dumps({"schema": 1, "draft": 0.1, "unit": 3}), "unit is 3; it must be text"),
        (json.dumps({"schema": 1, "draft": 0.1, "machine": []}), "machine is "),
        (json.dumps({"schema": 1, "draft": 0.1, "measured_range": {"tokens": [7]}}), "measured_range.tokens is"),
        (json.dumps({"schema": 1, "draft": 0.1, "measured_range": {"tokens": [7, 1]}}), "lower end must come first"),
        ('{"schema": 1, "draft": NaN}', "NaN is not a finite number"),
        ('{"schema": 1, "draft": 1e999}', "1e999 is not a finite number"),
        ('{"schema": 1, "draft": 0.1, "draft": 0.2}', "'draft' is given twice"),
        ('{"schema": 1, "draft": 0.1, "machine": ' + 5000 * "[" + 5000 * "]" + "}", "nested deeper than 100"),
        ('{"schema": 1, "draft": "' + "x" * 10**6 + '"}', "draft is 'xxx"),
    ],
)
def test_a_foreign_file_is_refused_by_name(tmp_path, content, message):
    (tmp_path / "cost.json").write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        CostModel.load(tmp_path / "cost.json")
    assert str(tmp_path / "cost.json") in str(caught.value)
    assert len(str(caught.value).replace(str(tmp_path), "")) < 400


def test_a_mark_at_the_start_of_the_file_is_read_over(tmp_path):
    (tmp_path / "cost.json").write_text('{"schema": 1, "draft": 0.5}', encoding="utf-8-sig")
    assert CostModel.load(tmp_path / "cost.json").draft == 0.5


def test_numbers_of_numpy_are_numbers():
    cost = CostModel(draft=np.float32(0.5), verify=[[np.int64(1), np.float64(1)], (3, 2)])
    assert cost == CostModel(draft=0.5, verify=((1, 1.0), (3, 2.0))) and type(cost.draft) is float


def test_a_full_disk_leaves_the_old_cost_model_and_names_it(tmp_path, monkeypatch):
    file = tmp_path / "cost.json"
    CostModel(draft=0.25).save(file)
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    with pytest.raises(OSError, match="No space left on device.*cost.json"):
        CostModel(draft=0.5).save(file)
    assert CostModel.load(file).draft == 0.25 and list(tmp_path.iterdir()) == [file]


def test_leaving_the_measured_range_is_said():
    cost = CostModel(draft=0.1, measured_range={"tokens": [1, 7], "context": [10, 50]})
    assert cost.outside_range(np.array([0, 6]), np.array([10, 50])) is None
    assert "tokens 1-21 outside the measured 1-7 in 50.0%" in cost.outside_range(np.array([0, 20]), np.array([10, 50]))
