"""Sentences for people: remarks on stderr, so that stdout holds only the answer; answers in words on stdout."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from oracle.commands.text import bounded, shell, visible


def note(text: str) -> None:
    """A remark on stderr."""
    typer.echo(visible(bounded(text, 2000)), err=True)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What the library warns of as remarks, not as lines of its source; each of them once, however many steps warn."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(f"Warning: {message}.")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def note_left_out(meta: Mapping[str, Any]) -> None:
    """Name the prompts that a trace or runs left out, and why; the first ones where there are many."""
    skipped = meta.get("skipped") or ()
    if skipped:
        named = "; ".join(f"{entry.get('id')} ({entry.get('reason')})" for entry in skipped[:5])
        more = f"; and {len(skipped) - 5} more, listed in meta.json" if len(skipped) > 5 else ""
        note(f"Note: {len(skipped)} {'prompt' if len(skipped) == 1 else 'prompts'} left out: {named}{more}.")


def note_date(meta: Mapping[str, Any]) -> None:
    """Say which date the prompts hold, where they hold one: on another day they would be other prompts."""
    if date := meta.get("template_date"):
        note(f"Note: the chat template wrote a date into the prompts; --date {date} gives the same ones again.")


def say(text: str, *, lines: bool = False) -> None:
    """An answer on stdout; ``lines`` where it is text of ours that has several lines."""
    typer.echo(visible(text, lines=lines))


def note_next(*commands: Sequence[str | Path]) -> None:
    """What to type next, each command quoted so that it can be pasted as it stands."""
    typer.echo("Next: " + "   |   ".join(shell(*words) for words in commands), err=True)
