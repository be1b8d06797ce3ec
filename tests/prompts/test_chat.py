"""A chat template is somebody else's program: whatever it does, prompts are rendered within bounds or refused."""

import resource
import sys
import time

import pytest
from builders.pairs import tiny_pair
from builders.tokenizers import word_tokenizer

from oracle.models.pair import Pair
from oracle.prompts import chat
from oracle.prompts.chat import render_chat
from oracle.prompts.encode import encode
from oracle.prompts.fields import Turn

DOUBLING = "{% set n = namespace(x='w5 ') %}{% for _ in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}"
NESTED = "{% for a in range(99999) %}{% for b in range(99999) %}WORD{% endfor %}{% endfor %}"
SQUARING = "{% set n = namespace(x=123456789) %}{% for _ in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}"


def refused(template, message):
    limits, trace = resource.getrlimit(resource.RLIMIT_AS), sys.gettrace()
    with pytest.raises(ValueError, match=f"The chat template of the tokenizer .* cannot be used .*{message}.*--chat"):
        render_chat(word_tokenizer(chat_template=template), [Turn("user", "w5 w6")])
    assert resource.getrlimit(resource.RLIMIT_AS) == limits and sys.gettrace() is trace


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('only one\n user turn, please') }}", "only one user turn, please"),
        ("{{ 1 + 'a' }}", "unsupported operand"),
        ("{{ a.b.c }}", "'a' is undefined"),
        ("{% if %}", "Expected an expression"),
        ("{{ 5 // 0 }}", "division"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{% for _ in range(1000000000) %}w5 {% endfor %}", "Range too big"),
        ("{{ 9 ** (9 ** 9) }}", "computes a power"),
    ],
)
def test_a_template_that_fails_is_a_users_error_with_its_message(template, message):
    refused(template, message)


@pytest.mark.skipif(sys.platform != "linux", reason="only there the memory of a process can be bounded")
@pytest.mark.parametrize("template", [DOUBLING, "{{ 'w5 ' * 100000000000 }}", "{{ 'w5'.center(100000000000) }}"])
def test_a_template_that_takes_all_memory_is_stopped(template):
    refused(template, "more memory than any chat")


@pytest.mark.parametrize("template", [NESTED.replace("WORD", ""), NESTED.replace("WORD", "w5 "), SQUARING])
def test_a_template_that_never_ends_is_stopped(template, monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 0.3)
    began = time.monotonic()
    refused(template, "not done after 0.3 s")
    assert time.monotonic() - began < 10


def test_a_text_that_grows_beyond_any_chat_is_not_read():
    refused("{{ 'w5 ' * 1000000 }}", r"3000000 characters of 5, at most 1048656")


def test_named_arguments_are_no_power():
    template = "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(**{'a': 'w7'}) }} {{ f(* ['w8'], **{}) }} **w5**"
    assert render_chat(word_tokenizer(chat_template=template), [Turn("user", "w5")]).tokens == [7, 8, 0]


@pytest.mark.parametrize("template", ["{{ '' }}", "{{ messages[0]['content'] }}"])
def test_an_empty_rendering_or_turn_is_skipped_and_named(template):
    pair = tiny_pair("llama")
    pair = Pair(pair.target, pair.draft, word_tokenizer(chat_template=template))
    found, skipped = encode(pair, ["", " \n", "w5"], 4, chat=True)
    whole = "content" in template
    assert [item.tokens.tolist() for item in found] == ([[5]] if whole else [])
    assert [row["index"] for row in skipped] == ([0, 1] if whole else [0, 1, 2])
    assert {row["reason"] for row in skipped} == {"empty prompt"}


def test_a_turn_that_is_empty_never_becomes_the_template_alone():
    pair = tiny_pair("llama")
    pair = Pair(pair.target, pair.draft, word_tokenizer(chat_template="<s> {{ messages[0]['content'] }} w96"))
    found, skipped = encode(pair, ["  ", "w5"], 4, chat=True)
    assert [item.tokens.tolist() for item in found] == [[1, 5, 96]] and len(skipped) == 1
