"""The ``oracle`` command's way in: the guard stands first, then everything else is loaded."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from oracle.commands.guard import Stops, guarded

if TYPE_CHECKING:
    from oracle.commands.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command that the process's words name, then end the process."""
    words = sys.argv[1:]
    stops = Stops(words)
    stops.install()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal's encoding lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    status = guarded(lambda: _run(words), words, stops)
    stops.done()
    sys.exit(status)


def _run(words: list[str]) -> int:
    from oracle.commands.app import run

    return run(words)


def __getattr__(name: str):
    if name == "app":  # loads every command's words, and typer: not before it is asked for
        from oracle.commands.app import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "__main__":
    main()
