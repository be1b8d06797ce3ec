"""The tasks of the published benchmark, and prompts cut to a length: what is asked stays."""

import datasets
import numpy as np
import pytest
from builders.pairs import tiny_pair
from builders.tokenizers import word_tokenizer

from oracle.models.pair import Pair
from oracle.prompts import hub as prompt_hub
from oracle.prompts.chat import Chat
from oracle.prompts.cut import shortened
from oracle.prompts.encode import CUT, encode
from oracle.prompts.forms import Prompt
from oracle.prompts.sets import HUB_SETS, load_prompts
from oracle.prompts.tasks import OPEN, TASKS


@pytest.fixture
def pair():
    found = tiny_pair("llama")
    return Pair(found.target, found.draft, word_tokenizer())


@pytest.fixture
def hub(monkeypatch):
    """A hub that holds a few rows of each data set, and what was asked of it."""
    rows = {
        "cnn_dailymail": {"article": ["w3 w4 w5"], "highlights": ["w6"], "id": ["a"]},
        "humaneval": {"task_id": ["HumanEval/0"], "prompt": ["def f():"], "canonical_solution": ["pass"]},
        "dolly": {
            "instruction": ["w3", "w4", "w5"],
            "context": ["", "w9", ""],
            "category": ["open_qa", "closed_qa", "brainstorming"],
        },
    }
    asked = []

    def load(name, config, **options):
        asked.append((name, config, options["split"]))
        known = next(key for key, each in HUB_SETS.items() if each.hub_id == name)
        return datasets.Dataset.from_dict(rows[known])

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(prompt_hub, "probe_hub", lambda *given: (None, "d" * 40))
    return asked


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_a_data_set_with_lengths(name, hub):
    task, found = TASKS[name], load_prompts(name)
    assert hub == [(HUB_SETS[task.dataset].hub_id, HUB_SETS[task.dataset].config, task.split)]
    assert found.name == name and found.source["task"] == name and found.source["prompt_tokens"] == 256
    assert {prompt.most_tokens for prompt in found} == {256} and task.max_new_tokens == 128


def test_what_is_said_wins_over_the_task(hub):
    found = load_prompts("summarization", split="test", limit=1, prompt_tokens=9)
    assert hub[0][2] == "test" and found.prompts[0].most_tokens == 9 and found.source["limit"] == 1


def test_open_ended_takes_the_open_categories_only(hub):
    found = load_prompts("open-ended")
    assert [prompt.instruction for prompt in found] == ["w3", "w5"] and "closed_qa" not in OPEN
    assert found.source["rows"] == 2
    assert len(load_prompts("dolly")) == 3


def test_a_data_set_is_cut_only_if_that_is_asked(hub):
    assert load_prompts("humaneval").prompts[0].most_tokens is None
    assert load_prompts("humaneval", prompt_tokens=5).prompts[0].most_tokens == 5
    with pytest.raises(ValueError, match="prompt_tokens must be a whole number from 1 up"):
        load_prompts("humaneval", prompt_tokens=0)


@pytest.mark.parametrize("name", TASKS)
def test_splits_and_rows_belong_together(name):
    for each in HUB_SETS.values():
        assert len(each.splits) == len(each.rows) and each.licence and each.fields
    assert TASKS[name].split in HUB_SETS[TASKS[name].dataset].splits


def test_the_end_of_the_part_goes_and_the_words_around_it_stay():
    text = "ask: one two three answer:"
    fits = lambda most: lambda shorter: len(shorter) <= most  # noqa: E731
    assert shortened(text, (5, 18), fits(99)) == text
    assert shortened(text, (5, 18), fits(22)) == "ask: one two answer:"
    assert shortened(text, (5, 18), fits(16)) == "ask: one answer:"
    assert shortened(text, None, fits(11)) == "ask: one"
    assert shortened("abcdefgh", None, fits(3)) == "abc"
    with pytest.raises(ValueError, match="words around"):
        shortened(text, (5, 18), fits(5))


def ids(pair, prompt, **options):
    found, skipped = encode(pair, [prompt], 4, **options)
    assert not skipped
    return found[0]


def test_a_prompt_is_cut_to_tokens_with_those_that_the_tokenizer_adds(pair):
    text = "w3 w4 " + "w5 " * 20 + "w6"
    span = (len("w3 w4 "), len(text) - len(" w6"))
    one = ids(pair, Prompt("0", text, most_tokens=8, span=span))
    assert one.tokens.tolist() == [1, 3, 4, 5, 5, 5, 5, 6] and CUT in one.remarks
    whole = ids(pair, Prompt("0", text, most_tokens=24, span=span))
    assert len(whole.tokens) == 24 and not whole.remarks
    np.testing.assert_array_equal(whole.tokens, ids(pair, text).tokens)


def test_what_cannot_be_cut_says_how_many_it_needs(pair):
    with pytest.raises(ValueError, match="prompt 0 cannot be cut to 2 tokens: .*--prompt-tokens"):
        ids(pair, Prompt("0", "w3 w4 w5 w6", most_tokens=2, span=(6, 8)))


def test_in_a_chat_the_users_turn_is_cut(pair):
    template = "{% for m in messages %}w90 {{ m.content }} w91 {% endfor %}"
    chatty = Pair(pair.target, pair.draft, word_tokenizer(begin=False, chat_template=template))
    one = ids(chatty, Prompt("0", "w50", instruction="w3 w4 w5 w6", most_tokens=2), chat=Chat())
    assert one.tokens.tolist() == [90, 3, 4, 91]


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"article": "w3 w4 w5"}, "w3 w4 w5"),
        ({"instruction": "Response", "input": ""}, "Response"),
        ({"instruction": "Sort.", "input": "Input"}, "Input"),
        ({"text": "assert", "test_list": ["assert f()"]}, "assert"),
    ],
)
def test_each_form_knows_which_part_may_be_shortened(row, part, tmp_path):
    import json

    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    prompt = load_prompts(tmp_path / "a.jsonl").prompts[0]
    start, end = prompt.span
    assert prompt.text[start:end] == part
    assert len(prompt.text[:start].strip()) > 0 and prompt.text[end:].strip()
