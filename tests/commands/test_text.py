"""Text of any origin, as a terminal and a shell get it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oracle.commands.text import bounded, one_line, shell, visible

HOSTILE = [
    "plain",
    "two words",
    "it's",
    'say "hi"',
    "$HOME `id` $(id)",
    "a\\b",
    "*?[x]",
    "~/t",
    "!history",
    "über",
    "line\nbreak",
    "\x1b]52;c;aGk=\x07",
    "tab\tand \x7f",
    "\udcff raw byte",
    "it's \x1b with \\ both",
    "",
]


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize("word", HOSTILE)
def test_what_is_quoted_comes_back_from_a_shell(name, word):
    if not shutil.which(name):
        pytest.skip(f"no {name} here")
    quoted = shell(word)
    assert visible(quoted) == quoted
    done = subprocess.run([name, "-c", f"printf %s {quoted}"], stdout=-1, check=True)
    assert os.fsdecode(done.stdout) == word


def test_a_path_is_never_read_as_an_option():
    assert shell("oracle", "simulate", Path("-x"), "--json") == "oracle simulate ./-x --json"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("± ΔAIC é 日本 👍🏽", "± ΔAIC é 日本 👍🏽"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\nc", "a\\rb\\nc"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("\udcff", "\\udcff"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text, shown):
    assert visible(text) == shown


def test_line_breaks_of_our_own_stay():
    assert visible("a\n\x1b", lines=True) == "a\n\\x1b"


def test_long_text_keeps_its_ends_and_says_how_long_it_was():
    assert bounded("x" * 600) == "x" * 600
    cut = bounded("a" * 500_000 + "b" * 500_000)
    assert len(cut) == 600 and cut.startswith("aaa") and cut.endswith("bbb") and "(1,000,000 characters)" in cut


def test_a_message_is_one_line():
    assert one_line("a\n\n  b\tc\x07") == "a b c\\x07"
