"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oracle.commands.numbers import number_text
from oracle.commands.text import bounded, visible


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; the first column is text, the others are numbers or text already formatted."""
    from rich import box
    from rich.console import Console
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
    for number, column in enumerate(columns):
        # Text objects, because names of files and models may hold what rich would read as markup.  On a narrow terminal
        # a cell takes another line: nothing is ever cut off.
        table.add_column(Text(column), justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*[Text(_cell(value)) for value in row])
    Console().print(table)


def _cell(value: Any) -> str:
    return visible(bounded(value), lines=True) if isinstance(value, str) else number_text(value)
