"""A table of text as Markdown, LaTeX or CSV; what names and policies hold is shown in each, and never acts."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.intervals import Estimate

Column = tuple[str, str]  # (group of columns it belongs to, or "", its own title)


@dataclass(frozen=True)
class Table:
    """Cells of text: a row of R, each with a cell for each of C columns; neighbours of one group share a heading."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    text: int = 1  # the first columns, which hold text; the others are numbers, set to the right


def number_cell(value: float | None) -> str:
    """Two digits; nothing where there is no number."""
    return "" if value is None or value != value else f"{value:.2f}"


def estimate_cell(value: Estimate | None) -> str:
    """A number and its interval; ``[-]`` where too few prompts stand behind one; nothing where there is no number."""
    if value is None or value.value != value.value:
        return ""
    interval = "[-]" if value.low != value.low else f"[{value.low:.2f}, {value.high:.2f}]"
    return f"{value.value:.2f} {interval}"


def markdown(table: Table) -> str:
    """A table as GitHub shows it, its caption before and its notes after it."""
    head = [f"{group}: {title}" if group else title for group, title in table.columns]
    rule = ["---" if place < table.text else "---:" for place in range(len(head))]
    lines = [_pipes(map(_markdown, head)), f"|{'|'.join(rule)}|"]
    lines += [_pipes(map(_markdown, row)) for row in table.rows]
    caption = [_markdown(table.caption), ""] if table.caption else []
    notes = ["", *(f"- {_markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n".join([*caption, *lines, *notes]) + "\n"


def latex(table: Table) -> str:
    """A ``table`` environment that needs no package."""
    kinds = "l" * table.text + "r" * (len(table.columns) - table.text)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{kinds}}}", r"\hline"]
    if any(group for group, _ in table.columns):
        heads = _groups(table.columns)
        lines.append(_ampersands(_over(group, size) for group, size in heads))
    lines.append(_ampersands(_latex(title) for _, title in table.columns))
    lines += [r"\hline", *(_ampersands(map(_latex, row)) for row in table.rows), r"\hline", r"\end{tabular}"]
    if told := " ".join([table.caption, *table.notes]).strip():
        lines.append(rf"\caption{{{_latex(told)}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def comma_separated(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows for programs: full numbers, an empty field for what there is not."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([["" if value is None or value != value else value for value in row] for row in rows])
    return made.getvalue()


def _groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Each heading and how many neighbours are under it; a column without a group stands alone."""
    found: list[tuple[str, int]] = []
    for group, _ in columns:
        if group and found and found[-1][0] == group:
            found[-1] = (group, found[-1][1] + 1)
        else:
            found.append((group, 1))
    return found


def _over(group: str, size: int) -> str:
    return rf"\multicolumn{{{size}}}{{c}}{{{_latex(group)}}}" if group else ""


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


_MARKDOWN = {each: f"\\{each}" for each in "\\`*_{}[]<>#|~"} | {"&": "&amp;"}
_LATEX = {each: f"\\{each}" for each in "{}$&#%_"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "{''}",
    "[": "{[}",  # after the end of a row a bracket would be read as its argument
    "]": "{]}",
    "-": "{-}",  # two in a row would become one dash
    "*": "{*}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "…": r"\ldots{}",
    "–": "{--}",
}


def _markdown(text: str) -> str:
    # Brackets of an interval stand as they are: nothing follows that could make a link of them.
    return _escaped(text, {**_MARKDOWN, "[": "[", "]": "]"} if "](" not in text and "][" not in text else _MARKDOWN)


def _latex(text: str) -> str:
    # A letter that the fonts of a document may lack is named: nothing keeps the document from being set.
    return "".join(each if each.isascii() else f"U+{ord(each):04X}" for each in _escaped(text, _LATEX))


def _escaped(text: str, table: dict[str, str]) -> str:
    """On one line, with the characters that mean something written so that they are shown."""
    plain = " ".join(text.split())
    return "".join(table.get(each, each) for each in plain if unicodedata.category(each) not in ("Cc", "Cf", "Cs"))
