"""Sentences for people: remarks on stderr, so that stdout holds only the answer; answers in words on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from oracle.commands.text import bounded, shell, visible


def note(text: str) -> None:
    """A remark on stderr."""
    typer.echo(visible(bounded(text, 2000)), err=True)


def say(text: str, *, lines: bool = False) -> None:
    """An answer on stdout; ``lines`` where it is text of ours that has several lines."""
    typer.echo(visible(text, lines=lines))


def note_next(*commands: Sequence[str | Path]) -> None:
    """What to type next, each command quoted so that it can be pasted as it stands."""
    typer.echo("Next: " + "   |   ".join(shell(*words) for words in commands), err=True)
