"""Tables as Markdown, LaTeX and CSV: what a name holds is shown, and never acts."""

import csv
import io
import re

import pytest

from analysis.intervals import Estimate
from analysis.tables.formats import Table, comma_separated, estimate_cell, latex, markdown

NASTY = "a|b*c_d`e<f>\\g\n{h}$i$ %j &k #l ~m ^n [o](p) \x1b[31m é"
TABLE = Table((("", "name"), ("rule", "one"), ("rule", "two")), ((NASTY, "1.00 [0.90, 1.10]", ""),), NASTY, (NASTY,))


def test_an_estimate_stands_with_its_interval_and_below_one_as_it_is():
    nan = float("nan")
    assert estimate_cell(Estimate(0.891, 0.8, 0.951)) == "0.89 [0.80, 0.95]"
    assert estimate_cell(Estimate(2, nan, nan)) == "2.00 [-]"
    assert estimate_cell(None) == estimate_cell(Estimate(nan, nan, nan)) == ""


def test_markdown_keeps_its_shape_whatever_a_cell_holds():
    lines = markdown(TABLE).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in table] == [4, 4, 4]
    assert table[0] == "| name | rule: one | rule: two |" and table[1] == "|---|---:|---:|"
    assert "\x1b" not in markdown(TABLE) and "<f" not in markdown(TABLE).replace("\\<f", "")


def test_an_interval_needs_no_escape_in_markdown():
    assert "| 0.89 [0.80, 0.95] |" in markdown(Table((("", "x"),), (("0.89 [0.80, 0.95]",),)))


@pytest.mark.parametrize("table", [TABLE, Table((("", "x"), ("", "y")), (("[z]", "--"),))])
def test_latex_has_nothing_that_is_not_escaped(table):
    """No compiler is at hand: every special character belongs to a command of ours, and every group is closed."""
    text = latex(table)
    body = re.sub(r"\\(begin|end)\{(table|tabular)\}|\\multicolumn\{\d\}\{c\}|\{[lr]+\}(?=\n)", "", text)
    commands = set(re.findall(r"\\([a-zA-Z]+)", body))
    assert commands <= {
        "centering", "hline", "caption", "textbackslash", "textasciicircum", "textasciitilde", "textless",
        "textgreater", "textbar", "pm", "ldots",
    }  # fmt: skip
    bare = re.sub(r"\\[a-zA-Z]+|\\[{}$&#%_\\]", "", body)
    assert not set('$#%_^~<>|"\x1b') & set(bare) and text.isascii()
    for open_, close in (("{", "}"),):
        depth = 0
        for each in re.sub(r"\\[{}]", "", text):
            depth += (each == open_) - (each == close)
            assert depth >= 0
        assert depth == 0
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows if "multicolumn" not in line} == {
        len(table.columns) - 1
    }
    assert not re.search(r"\\\\\s*\n\s*\[", text)  # a bracket there is an argument of the row's end
    assert "--" not in bare


def test_a_heading_stands_over_the_columns_of_its_group():
    assert r" & \multicolumn{2}{c}{rule} \\" in latex(TABLE)


def test_csv_is_read_back_as_it_was():
    text = comma_separated(["a", "b", "c"], [[NASTY, 0.1 + 0.2, None], ["x", float("nan"), 3]])
    assert list(csv.reader(io.StringIO(text))) == [["a", "b", "c"], [NASTY, repr(0.1 + 0.2), ""], ["x", "", "3"]]
