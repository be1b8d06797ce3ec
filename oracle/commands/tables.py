"""Tables for people (rich) and the same rows for programs (JSON)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import typer


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; the first column is text, the others are numbers or text already formatted."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title),
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
        table.add_row(*[Text(cell if isinstance(cell, str) else number_text(cell)) for cell in row])
    Console().print(table)


def number_text(value: Any) -> str:
    """1234 as 1,234; 0.123456 as 0.123; what is not finite by name."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def interval_text(value: Any) -> str:
    """A ratio never stands without its interval: 1.23 [1.10, 1.40]; [-] where one prompt says nothing of others."""
    if math.isnan(value.value):
        return "-"
    if math.isnan(value.low):
        return f"{value.value:.2f} [-]"
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def percent_text(value: Any) -> str:
    """A difference with its interval, in per cent, on two lines."""
    interval = "[-]" if math.isnan(value.low) else f"[{100 * value.low:+.0f},{100 * value.high:+.0f}]"
    return f"{100 * value.value:+.1f}\n{interval}"


def policy_text(text: str, width: int = 17) -> str:
    """A policy's text, broken after its name and its keys where it is too long for a column."""
    if len(text) <= width or text.startswith("oracle:"):
        return text
    return text.replace(":", ":\n ", 1).replace(",", ",\n ").replace("heuristic_", "heuristic_\n ")


def short_count(value: int) -> str:
    """A count in at most six characters: 12,345, then 123k and 1.23M."""
    if value < 100_000:
        return f"{value:,}"
    return f"{value / 1e3:.0f}k" if value < 999_500 else f"{value / 1e6:.2f}M"


def show_json(value: Any) -> None:
    """Print standard JSON on stdout; numbers that are not finite become null."""
    typer.echo(json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """The same in JSON's types: NumPy's numbers unwrapped, what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
