"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(label: str, unit: str, total: int, done: int, wanted: bool) -> Iterator[Callable[[int, str], None]]:
    """Yields a function of (how many have just finished, a remark to show); ``done`` of ``total`` were there before."""
    if not wanted or not sys.stderr.isatty():
        yield lambda count, remark: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TextColumn(unit + "  {task.fields[remark]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=total, completed=done, remark="")
        yield lambda count, remark: shown.update(task, advance=count, remark=remark)
