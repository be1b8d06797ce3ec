"""The ``oracle`` command's way in: the guard stands first, then everything else is loaded.

Nothing is imported up here but what Python has loaded by itself: Ctrl-C meets `main` as early as it can.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oracle.commands.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command that the process's words name, then end the process."""
    words = sys.argv[1:]
    try:
        from oracle.commands.guard import Stops, guarded, open_streams

        stops = Stops(words)
        stops.install()
    except KeyboardInterrupt:  # before there is a guard
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    open_streams()
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
