"""Tables for people: on a terminal, and as text for papers, pages and programs."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from oracle.commands.bounds import expect_one_of
from oracle.commands.notes import note, say
from oracle.commands.numbers import number_text
from oracle.commands.text import bounded, visible
from oracle.commands.widths import fitted, wrapped

FORMATS = ("terminal", "markdown", "latex", "csv")
_BROKEN = re.compile(r"(?<=[:,_\-])\n ?")  # a name that stands on two lines in a column

_form: ContextVar[str] = ContextVar("form", default="terminal")
_printed: ContextVar[bool] = ContextVar("printed", default=False)  # whether a table stands before the next one


def check_form(form: str, as_json: bool) -> None:
    """Raise ValueError for a form that is not known, and for a form beside --json."""
    expect_one_of("--format", form, FORMATS)
    if as_json and form != "terminal":
        raise ValueError(f"--json and --format {form} exclude each other: give one of them")


@contextlib.contextmanager
def printed_as(form: str) -> Iterator[None]:
    """Tables within are printed in this form; what is said beside them goes to stderr where it is not the terminal's.

    Raises ValueError for a form that is not known.
    """
    expect_one_of("--format", form, FORMATS)
    tokens = _form.set(form), _printed.set(False)
    try:
        yield
    finally:
        _form.reset(tokens[0])
        _printed.reset(tokens[1])


def tell(text: str) -> None:
    """A sentence of an answer: on stdout beside tables for people, on stderr where stdout holds tables for papers."""
    if _form.get() == "terminal":
        say(text)
    elif text:
        note(text)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; the first column is text, the others are numbers or text already formatted."""
    cells = [[_cell(value) for value in row] for row in rows]
    if _form.get() != "terminal":
        if _printed.get():
            say("")
        say(_text(_form.get(), title, columns, cells), lines=True)
        _printed.set(True)
        return
    from rich.console import Console

    console = Console()
    if (widths := fitted([columns, *cells], console.width)) is None:
        _show_rows(console, title, columns, cells)
    else:
        _show_columns(console, title, columns, cells, widths)


def _show_columns(
    console: Any, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(visible(bounded(title))),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,
    )
    for number, (column, width) in enumerate(zip(columns, widths, strict=True)):
        # Text objects, because names of files and models may hold what rich would read as markup.  On a narrow terminal
        # a cell takes another line: nothing is ever cut off.
        side = "left" if number == 0 else "right"
        table.add_column(Text(wrapped(column, width)), justify=side, overflow="fold")
    for row in cells:
        table.add_row(*[Text(wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)])
    console.print(table)


def _show_rows(console: Any, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Where the columns do not fit beside each other: a block a row, a line a cell."""
    from rich.text import Text

    lines = [_joined(title)] if title else []
    for row in cells:
        lines.append(_joined(row[0]))
        lines += [
            f"  {_joined(name)}: {_joined(cell)}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell
        ]
    for line in lines:
        console.print(Text(wrapped(line, console.width)), overflow="fold")


def _text(form: str, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    from analysis.tables.formats import Table, comma_separated, latex, markdown

    head, body = [_joined(each) for each in columns], [tuple(map(_joined, row)) for row in cells]
    if form == "csv":
        return comma_separated(head, body).rstrip("\n")
    table = Table(tuple(("", each) for each in head), tuple(body), caption=_joined(title))
    return {"markdown": markdown, "latex": latex}[form](table).rstrip("\n")


def _joined(text: str) -> str:
    """The lines of a cell as one: a name that was broken after a joint is whole again, what is listed keeps a gap."""
    return " ".join(_BROKEN.sub("", text).split())


def _cell(value: Any) -> str:
    return visible(bounded(value), lines=True) if isinstance(value, str) else number_text(value)
