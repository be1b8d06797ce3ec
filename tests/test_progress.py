"""Bars are for people: on a terminal and in a notebook, nowhere else."""

import sys
import types

import pytest

from oracle.progress import bar


def run(wanted=True):
    with bar("measuring", "calls", total=4, done=1, wanted=wanted) as advance:
        advance(2, "dynamic")
        advance(1, "roc")


@pytest.mark.parametrize("where", ["a terminal", "a notebook"])
def test_a_bar_is_shown_to_people(where, monkeypatch, capsys):
    if where == "a notebook":
        kernel = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(config={"IPKernelApp": {}}))
        monkeypatch.setitem(sys.modules, "IPython", kernel)
    else:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run()
    said = capsys.readouterr()
    assert "measuring" in said.err and "1/4" in said.err and "4/4" in said.err and not said.out


@pytest.mark.parametrize("wanted", [True, False])
def test_a_file_gets_none(wanted, capsys):
    run(wanted)
    said = capsys.readouterr()
    assert not said.err and not said.out
