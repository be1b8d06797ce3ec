"""What the encoder makes of prompts is looked at: what is odd is named, and what a template needs is kept."""

import datetime
import json
from types import SimpleNamespace

import pytest
from builders.pairs import tiny_pair
from builders.tokenizers import WORDS, word_tokenizer
from tokenizers import processors

from oracle.collect import collect
from oracle.measure import measure
from oracle.models.pair import Pair
from oracle.prompts import chat as chat_module
from oracle.prompts.chat import Chat
from oracle.prompts.encode import encode
from oracle.prompts.facts import look
from oracle.prompts.fields import Turn
from oracle.prompts.forms import Prompt
from oracle.prompts.sets import PromptSet
from oracle.records.trace import Trace

TURNS = "{{ bos_token }} {% for m in messages %}{{ m.content }} {% endfor %}"
DATED = TURNS + "{{ strftime_now('w%d') }}"


def pair_of(template=None, end=False, begin=True):
    tokenizer = word_tokenizer(begin=begin, **({"chat_template": template} if template else {}))
    if end:  # what add_eos_token makes of a tokenizer
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    models = tiny_pair("llama")
    models.target.generation_config.eos_token_id = 2
    return Pair(models.target, models.draft, tokenizer)


def facts_of(pair, prompts, chat=None, source=()):
    encoded, skipped = encode(pair, prompts, 4, chat or False)
    return look(pair, encoded, skipped, dict(source), chat)


def test_nothing_is_odd_about_sound_prompts():
    found = facts_of(pair_of(), ["w5 w6", "w7"])
    assert (found.first, found.last, found.bos, found.lengths) == ("<s> w5 w6", "<s> w5 w6", "<s>", (2, 2.5, 3))
    assert (found.with_bos, found.twice_bos, found.ends_in_eos, found.eos) == (2, 0, 0, ((2, "</s>"),))
    assert (found.odd, found.skipped, found.date) == ({}, {}, None)


def test_an_end_token_at_the_end_of_every_prompt_is_named():
    assert facts_of(pair_of(end=True), ["w5", "w6"]).odd == {"ends": "all of 2 end in </s>: the tokenizer adds it"}
    assert facts_of(pair_of(), ["w5 </s>", "w6"]).odd == {"ends": "1 of 2 end in </s>: their text has it"}
    found = facts_of(pair_of(TURNS + "</s>"), ["w5"], Chat())
    assert found.odd == {"ends": "all of 1 end in </s>: the template writes it"}


def test_a_rendered_prompt_without_the_template_begins_twice():
    found = facts_of(pair_of(), ["<s> w5", "w6"])
    assert found.odd == {"begins": "1 of 2 begin with <s> twice: the text and the tokenizer have it"}
    found = facts_of(pair_of(TURNS), ["<s> w5"], Chat())
    assert found.twice_bos == 1 and "the template and the text have it" in found.odd["begins"]


def test_a_template_without_the_first_token_of_every_other_text():
    assert (
        "the chat template writes no <s>"
        in facts_of(pair_of("{{ messages[0].content }}"), ["w5"], Chat()).odd["begins"]
    )
    assert not facts_of(pair_of("{{ messages[0].content }}", begin=False), ["w5"], Chat()).odd


def test_ids_have_no_text():
    pair = tiny_pair("llama")
    pair.target.generation_config.eos_token_id = pair.target.config.eos_token_id = None
    found = facts_of(pair, [[5, 6], [7]])
    assert (found.first, found.last, found.bos) == ("5 6", "5 6", None)
    assert found.odd == {"eos": "no token ends a text, so every text goes on to its limit"}


@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{% for m in messages if m.role == 'human' %}{{ m.content }}{% endfor %}",
        "{{ bos_token }} w96 w95",
    ],
)
def test_a_template_that_leaves_the_prompt_out_makes_no_prompt(template):
    found, skipped = encode(pair_of(template), ["w5", "w6"], 4, chat=True)
    assert not found and {row["kind"] for row in skipped} == {"not in the chat template's text"}
    assert "the same whatever the prompt says" in skipped[0]["reason"]
    with pytest.raises(ValueError, match="there is no prompt to collect .*the same whatever"):
        collect(pair_of(template), ["w5"], "unused", chat=True)


def test_a_template_that_changes_a_text_keeps_it():
    template = "{{ bos_token }} {{ messages[-1].content | upper | lower | replace('w5', 'w6') }}"
    found, skipped = encode(pair_of(template), ["w5 w7"], 4, chat=True)
    assert found[0].tokens.tolist() == [1, 6, 7] and not skipped


# --- system messages and earlier turns --------------------------------------------------------------------------------

TOLD = Prompt("0", "w5", before=(Turn("system", "w8"), Turn("user", "w3"), Turn("assistant", "w4")))


def test_turns_before_the_question_are_in_the_chat_and_named_without_it():
    found, _ = encode(pair_of(TURNS), [TOLD], 4, chat=Chat(system="w9"))  # its own system message stays
    assert found[0].tokens.tolist() == [1, 8, 3, 4, 5] and not found[0].remarks
    odd = facts_of(pair_of(), [TOLD, "w6"]).odd
    assert odd == {"turns": "system message of 1, earlier turns of 1 (--chat takes them)"}


def test_a_template_that_leaves_turns_out_is_named_and_of_an_option_refused():
    last = "{{ bos_token }} {{ messages[-1].content }}"
    odd = facts_of(pair_of(last), [TOLD], Chat()).odd
    assert "system message of 1, earlier turns of 1 (the template has no place)" in odd["turns"]
    with pytest.raises(ValueError, match="leaves the system message out .*leave --system out"):
        encode(pair_of(last), ["w5"], 4, chat=Chat(system="w9"))
    found, _ = encode(pair_of(TURNS), ["w5"], 4, chat=Chat(system="w9"))
    assert found[0].tokens.tolist() == [1, 9, 5]


def test_a_chat_without_the_template_is_refused_in_a_line():
    with pytest.raises(ValueError, match=r"prompt 0 is a chat, .*give --chat \(chat=True\).*--prompt-field"):
        encode(pair_of(), [Prompt("0", "w5", chat_only=True)], 4)


# --- the template's arguments and its date ----------------------------------------------------------------------------


def test_an_argument_reaches_the_template_and_one_that_it_does_not_read_is_refused():
    template = TURNS + "{% if enable_thinking is defined and enable_thinking == false %}w90{% endif %}"
    found, _ = encode(pair_of(template), ["w5"], 4, chat=Chat(arguments={"enable_thinking": False}))
    assert found[0].tokens.tolist() == [1, 5, 90]
    with pytest.raises(ValueError, match="reads nothing called 'enable_thinkin'.*Did you mean 'enable_thinking'"):
        encode(pair_of(template), ["w5"], 4, chat=Chat(arguments={"enable_thinkin": False}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"system": " "}, "the system message is ' '"),
        ({"system": 3}, "the system message is 3"),
        ({"arguments": {"messages": []}}, "'messages' is no name"),
        ({"arguments": {"a b": 1}}, "'a b' is no name"),
        ({"arguments": {"a": float("nan")}}, "no values of JSON"),
        ({"arguments": {"a": {1, 2}}}, "no values of JSON"),
        ({"date": "today"}, "the date is 'today'; give one such as 2026-12-01"),
        ({"date": 3}, "the date is 3"),
    ],
)
def test_what_no_template_can_be_given(given, message):
    with pytest.raises(ValueError, match=message):
        Chat(**given)


def test_a_template_is_told_the_date_of_the_chat():
    found = facts_of(pair_of(DATED), ["w5"], Chat(date="2026-12-07"))
    assert (found.last, found.date) == ("<s> w5 <pad>", "2026-12-07")  # w07 is no word
    assert facts_of(pair_of(DATED), ["w5"], Chat(date="2026-12-17T10:00:00")).last == "<s> w5 w17"
    assert facts_of(pair_of(TURNS), ["w5"], Chat(date="2026-12-17")).date is None
    given = "{% if not date_string is defined %}{% set date_string = strftime_now('w%d') %}{% endif %}"
    found = facts_of(pair_of(TURNS + given + "{{ date_string }}"), ["w5"], Chat(arguments={"date_string": "w33"}))
    assert (found.last, found.date) == ("<s> w5 w33", None)


def at(monkeypatch, day):
    """Let it be another day."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 12, day, 8, 0, tzinfo=tz)

    # Only where the module reads it: a library that meets another class in the real place can crash.
    monkeypatch.setattr(chat_module, "datetime", SimpleNamespace(datetime=Clock))


def test_a_run_that_goes_on_another_day_keeps_the_date_of_its_prompts(tmp_path, monkeypatch):
    pair, out = pair_of(DATED), tmp_path / "trace"
    at(monkeypatch, 11)
    collect(pair, ["w5"], out, max_new_tokens=4, chat=True)
    at(monkeypatch, 12)
    again = collect(pair, ["w5"], out, max_new_tokens=4, chat=True, resume=True)
    meta = json.loads((out / "meta.json").read_text())
    assert Trace.load(out).prompt_tokens.tolist() == [1, 5, 11]
    assert meta["template_date"] == again.facts.date == "2026-12-11T08:00:00"
    with pytest.raises(ValueError, match="begun with template_date '2026-12-11T08:00:00', this run has '2026-12-12'"):
        collect(pair, ["w5"], out, max_new_tokens=4, chat=Chat(date="2026-12-12"), resume=True)
    fresh = collect(pair, ["w5"], tmp_path / "other", max_new_tokens=4, chat=True)
    assert fresh.facts.last == "<s> w5 w12"
    runs = measure(
        pair, ["w5"], ["constant:tokens=2"], max_new_tokens=4, repeats=1, chat=Chat(date=meta["template_date"])
    )
    assert runs.calls[0].prompt_tokens.tolist() == [1, 5, 11] and runs.meta["template_date"] == meta["template_date"]


def test_validating_measures_the_prompts_that_it_recorded(tmp_path, monkeypatch):
    from oracle.workflows import validate as workflow

    days = iter(range(11, 30))
    seen = []
    monkeypatch.setattr(
        workflow, "compare", lambda traces, runs, *given, **named: seen.append((traces, runs)) or Stop()
    )

    class Stop:
        validation, traces, runs, calibrations, notes = None, (), (), (), ()

    def measured(*given, **named):
        at(monkeypatch, next(days))
        return measure(*given, **named | {"repeats": 1})

    monkeypatch.setattr(workflow, "measure", measured)
    monkeypatch.setattr(workflow, "FIT", ())
    at(monkeypatch, next(days))
    workflow.validate(pair_of(DATED), ["w5"], ["constant:tokens=2"], tmp_path, max_new_tokens=4, chat=True)
    ((traces, runs),) = seen
    assert runs[0].calls[0].prompt_tokens.tolist() == traces[0].prompt_tokens.tolist() == [1, 5, 11]


@pytest.mark.parametrize(
    ("changed", "name"), [({"system": "w9"}, "system"), ({"arguments": {"x": 1}}, "template_args")]
)
def test_another_form_of_the_prompts_is_no_resumption(changed, name, tmp_path):
    pair = pair_of(TURNS + "{% if x %}{% endif %}")
    collect(pair, ["w5"], tmp_path, max_new_tokens=4, chat=True)
    with pytest.raises(ValueError, match=f"begun with {name} None, this run has"):
        collect(pair, ["w5"], tmp_path, max_new_tokens=4, chat=Chat(**changed), resume=True)


# --- collecting -------------------------------------------------------------------------------------------------------


def test_collecting_says_what_is_odd_before_it_runs_and_keeps_it(tmp_path):
    with pytest.warns(UserWarning, match="prompts, last token: all of 2 end in </s>: the tokenizer adds it"):
        found = collect(pair_of(end=True), ["w5", "w6", ""], tmp_path, max_new_tokens=4)
    assert found.facts.skipped == {"empty": 1} and found.facts.odd["skipped"] == "1 empty"
    trace = Trace.load(tmp_path)
    assert found.facts.ended == (trace.finish == "eos").sum()
    assert trace.meta["encoded"]["ends_in_eos"] == 2 and trace.meta["chat"] is False
    with pytest.warns(UserWarning, match="end in </s>"):
        measure(pair_of(end=True), ["w5"], ["constant:tokens=2"], max_new_tokens=4, repeats=1)


def test_a_hostile_token_is_shown_and_never_acts():
    words = [*WORDS[:1], "\x1b[2J\u202e", *WORDS[2:]]
    tokenizer = word_tokenizer(words, begin=False)
    tokenizer.bos_token = words[1]
    models = tiny_pair("llama")
    found = facts_of(Pair(models.target, models.draft, tokenizer), [[1, 1, 5]])
    assert found.odd["begins"].startswith("all of 1 begin with \\x1b[2J\\u202e twice")


def test_where_no_prompt_is_left_the_columns_that_hold_something_are_named():
    prompts = PromptSet("x", (Prompt("0", ""),), {"left_out": {"conversations in which no user asks (roles: bob)": 1}})
    with pytest.raises(ValueError, match=r"empty prompt\); what the rows hold beyond that: .*\(roles: bob\)"):
        collect(pair_of(), prompts, "unused")
