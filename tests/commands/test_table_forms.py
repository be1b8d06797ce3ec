"""Tables as they are printed: their width on a terminal, and as Markdown, LaTeX and CSV."""

import csv
import io

import pytest
from builders.traces import EOS, pattern
from test_cli import run

from oracle.commands.tables import printed_as, show_table, tell
from oracle.commands.widths import fitted, parts, wrapped
from oracle.records.trace import write_meta, write_part

COLUMNS = ["policy", "speedup\n[95 %]", "% of\nall"]
ROWS = [["heuristic_\n transient:\n tokens=8", "2.51 [2.34, 2.68]", 1], ["a|b & c", "-", 1234]]


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "trace").mkdir()
    write_meta(tmp_path / "trace", {"eos_token_ids": [EOS], "max_overrun": 8, "prompts": {"dataset": "by-hand"}})
    write_part(tmp_path / "trace", 0, [pattern("+-++-+-+++")])
    return tmp_path / "trace"


def test_each_form_of_a_table_and_what_is_said_beside_it(capsys):
    found = {}
    for form in ("markdown", "latex", "csv"):
        with printed_as(form):
            show_table("By hand", COLUMNS, ROWS)
            tell("Beside it.")
        out, err = capsys.readouterr()
        found[form] = out.splitlines()
        assert err == "Beside it.\n"
    assert found["markdown"] == [
        "By hand", "", "| policy | speedup [95 %] | % of all |", "|---|---:|---:|",
        r"| heuristic\_transient:tokens=8 | 2.51 [2.34, 2.68] | 1 |", r"| a\|b &amp; c | - | 1,234 |",
    ]  # fmt: skip
    assert r"a{}b \& c & {-} & 1,234 \\".replace("{}", r"\textbar{}") in found["latex"]
    assert list(csv.reader(found["csv"])) == [
        ["policy", "speedup [95 %]", "% of all"],
        ["heuristic_transient:tokens=8", "2.51 [2.34, 2.68]", "1"],
        ["a|b & c", "-", "1,234"],
    ]


@pytest.mark.parametrize("words", [["simulate"], ["simulate", "--ladder"], ["stats"], ["fit", "--draws", "2"]])
def test_the_commands_print_nothing_but_tables_in_a_form(words, trace):
    shown = run(*words, trace, "--format", "csv")
    assert shown.exit_code == 0, shown.output
    for table in shown.stdout.split("\n\n"):
        rows = list(csv.reader(io.StringIO(table.strip())))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1
    assert "\\begin{tabular}" in run(*words, trace, "--format", "latex").stdout


def test_a_form_that_is_not_known_and_one_beside_json(trace):
    for words, said in (
        (["--format", "html"], "legal: terminal"),
        (["--format", "csv", "--json"], "exclude each other"),
    ):
        for command in (
            ["simulate", trace],
            ["stats", trace],
            ["fit", trace],
            ["compare", trace, trace],
            ["table", trace],
        ):
            done = run(*command, *words)
            assert done.exit_code == 2 and said in done.stderr


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_column_of_a_table_cuts_a_word(width):
    cells = [["name", "what it is"], ["qwen2.5-coder", "Qwen2.5-Coder-7B-Instruct, and " * 4], ["demo", "[+36, +41]"]]
    widths = fitted(cells, width)
    assert sum(widths) + 1 <= width
    for row in cells:
        for cell, wide in zip(row, widths, strict=True):
            lines = wrapped(cell, wide).split("\n")
            assert all(len(line) <= wide for line in lines)
            pieces = {part for word in cell.split() for part in parts(word)}
            assert {part for line in lines for word in line.split() for part in parts(word)} == pieces


def test_where_columns_do_not_fit_each_row_is_a_block(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "24")
    show_table("", ["pair", "draft", "licence"], [["qwen", "smollm2instruct", "Apache licence"]])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "qwen", "  draft: smollm2instruct", "  licence: Apache", "licence",
    ]  # fmt: skip
    assert fitted([["qwen", "smollm2instruct", "Apache licence"]], 24) is None
    assert wrapped("threshold=0.46,tokens=12", 16) == "threshold=0.46,\ntokens=12" and parts("[2.34,2.61]") == [
        "[2.34,2.61]"
    ]
