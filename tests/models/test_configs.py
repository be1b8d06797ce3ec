"""Configurations are read by value: whatever type a checkpoint chose, one meaning or one clear line."""

import json
import math
import warnings

import numpy as np
import pytest
import torch
from builders.pairs import VOCABULARY, tiny, tiny_pair
from builders.tokenizers import save, word_tokenizer

from oracle.collect import collect
from oracle.measure import measure
from oracle.models.checks import check_pair
from oracle.models.configs import eos_token_ids, positions, rows, token_ids
from oracle.models.decoding import switched_off
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.records.trace import Trace


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (None, ()),
        ([], ()),
        (-1, ()),
        ([-1, 4], (4,)),
        (7, (7,)),
        (np.int64(7), (7,)),
        (7.0, (7,)),
        ("7", (7,)),
        ("w9", (9,)),
        (["</s>", 5, 2], (2, 5)),
        ([[7], [3, [5]]], (3, 5, 7)),
        ((3, 3), (3,)),
        ({5, 4}, (4, 5)),
        (torch.tensor(7), (7,)),
        (torch.tensor([9, 4]), (4, 9)),
        (torch.tensor([]), ()),
        (np.array([[9], [4]]), (4, 9)),
        ([np.int32(9), torch.tensor(4)], (4, 9)),
    ],
)
def test_ids_in_any_type(value, ids):
    assert token_ids(value, "eos_token_id", word_tokenizer().get_vocab()) == ids


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (True, "'True'"),
        ([5, False], r"'False' \(in \[5, False\]\)"),
        (2.5, "'2.5'"),
        (math.nan, "'nan'"),
        (-2, "'-2'"),
        (2**70, "'1180591620717411303424'"),
        ("</end>", "'</end>'"),
        ("", "''"),
        ({"id": 5}, "\"{'id': 5}\""),
        (np.array([True]), r"'True' \(in \[ True\]\)"),
    ],
)
def test_what_names_no_token_is_one_clear_line(value, named):
    with pytest.raises(
        ValueError, match=f"^eos_token_id: {named} names no token; correct it there: a token id, a list"
    ):
        token_ids(value, "eos_token_id", word_tokenizer().get_vocab())


def test_a_text_needs_a_tokenizer():
    pair = tiny_pair()
    pair.target.generation_config.eos_token_id = "w9"
    with pytest.raises(ValueError, match="eos_token_id of the target's generation config: 'w9' names no token"):
        check_pair(pair)
    assert eos_token_ids(Pair(pair.target, pair.draft, word_tokenizer())) == (9,)


@pytest.mark.parametrize("value", [[], -1, torch.tensor([]), VOCABULARY, [500]])  # what no model can write ends nothing
def test_that_nothing_ends_a_text_is_said_where_it_is_asked_for(value):
    pair = tiny_pair()
    with warnings.catch_warnings(action="error"):
        check_pair(pair)  # nobody has said anything: token ids without a tokenizer
    pair.target.generation_config.eos_token_id = value
    with pytest.warns(UserWarning, match="target's generation config is .*: no token ends a text.*its limit"):
        check_pair(pair)


@pytest.mark.parametrize(
    ("stored", "ids"), [("</s>", (2,)), ([[4], [2]], (2, 4)), (3.0, (3,)), ("5", (5,)), ([5, 6], (5, 6))]
)
def test_a_checkpoint_on_disk_is_read_by_value_too(stored, ids, tmp_path):
    save(tmp_path, tiny(), word_tokenizer())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": stored}))
    assert eos_token_ids(load_pair(target=tmp_path, draft=tmp_path, device="cpu")) == ids


@pytest.mark.parametrize("stored", [True, {"a": 1}, "</end>", -7])
def test_a_checkpoint_on_disk_that_says_nonsense_is_refused(stored, tmp_path):
    save(tmp_path, tiny(), word_tokenizer())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": stored}))
    with pytest.raises(ValueError, match="generation config: .* names no token"):
        load_pair(target=tmp_path, draft=tmp_path, device="cpu")


@pytest.mark.parametrize("value", [[], -1, [-1], [[]]])
def test_where_nothing_ends_a_text_nothing_does_in_any_run(value, tmp_path):
    """The configuration, which names a token, is not asked when it was said that there is none."""
    pair = tiny_pair()
    said = collect(pair, [[5, 6]], tmp_path / "open", max_new_tokens=12) and Trace.load(tmp_path / "open").target_tokens
    pair.target.config.eos_token_id = pair.draft.config.eos_token_id = int(said[3])
    pair.target.generation_config.eos_token_id = value
    with pytest.warns(UserWarning, match="no token ends a text"):
        collect(pair, [[5, 6]], tmp_path / "none", max_new_tokens=12)
        runs = measure(pair, [[5, 6]], ["constant:tokens=2", "svip"], max_new_tokens=12, repeats=1)
    trace = Trace.load(tmp_path / "none")
    assert trace.target_tokens.tolist() == said.tolist() and trace.meta["eos_token_ids"] == []
    assert "no token ends a text" in trace.meta["remarks"][0]
    assert {tuple(call.tokens.tolist()) for call in runs.calls} == {tuple(said.tolist())}


def test_generation_settings_that_the_library_cannot_read_are_one_clear_line(tmp_path):
    save(tmp_path, tiny(), word_tokenizer())
    (tmp_path / "generation_config.json").write_text(json.dumps({"compile_config": {"mode": "default"}}))
    with pytest.raises(
        ValueError, match=r"correct or remove its generation_config.json, which cannot be read \(.*compile"
    ):
        load_pair(target=tmp_path, draft=tmp_path, device="cpu")


def test_what_the_library_finds_wrong_is_told_in_full(tmp_path):
    save(tmp_path, tiny(), word_tokenizer())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": "97"}))
    with pytest.raises(ValueError, match="cannot be loaded .*'vocab_size'.* expected int, got str"):
        load_pair(target=tmp_path, draft=tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("value", "limit"),
    [(64, 64), (64.0, 64), (np.int64(64), 64), (torch.tensor(64), 64)]
    + [(nothing, None) for nothing in (None, -1, 0, 10**30, 1e30, math.inf, math.nan)],
)
def test_positions_in_any_type(value, limit):
    model = tiny()
    vars(model.config)["max_position_embeddings"] = value
    assert positions(model) == limit


@pytest.mark.parametrize("value", ["64", True, 64.5, [64]])
def test_positions_that_are_no_number_are_one_clear_line(value):
    model = tiny()
    vars(model.config)["max_position_embeddings"] = value
    with pytest.raises(
        ValueError, match="max_position_embeddings is .*; it must be a whole number: correct its config"
    ):
        positions(model)


@pytest.mark.parametrize("value", [None, 0, -5, "97", True, 97.5])
def test_rows_that_are_no_number_are_one_clear_line(value):
    model = tiny()
    vars(model.config)["vocab_size"] = value
    with pytest.raises(ValueError, match="vocab_size is .*; it must be a whole number from 1 on"):
        rows(model)


def test_settings_of_any_type_are_named_or_left_alone():
    model = tiny()
    config = model.generation_config
    config.compile_config = {"mode": "default"}
    config.eos_token_id = torch.tensor([3, 4])
    assert switched_off(model) == {}  # neither says which token is chosen
    config.suppress_tokens = np.array([5, 6])
    assert list(switched_off(model)) == ["suppress_tokens"]
