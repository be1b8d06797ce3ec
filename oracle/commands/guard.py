"""Whatever ends a command before its time: one line on stderr, and an exit status that says which.

2 is bad usage, 1 a run that failed, 130 Ctrl-C, 143 a request to terminate.  Nothing here loads more than the standard
library, so that the guard stands before anything else is imported.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from oracle.commands.text import LIMIT, one_line, shell

RESUMABLE = ("collect", "measure", "calibrate", "validate", "diagnose", "study")
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_IMPORTING = "<frozen importlib._bootstrap>"


class Terminated(KeyboardInterrupt):
    """SIGTERM: cleans up as Ctrl-C does."""


class Stops:
    """Turns SIGINT and SIGTERM into exceptions, and into an end at once where an exception would be lost.

    ``asked`` is the signal that came, None before.  An exception that is raised while a module is being imported may
    end in a handler of that module's, or in a callback where Python prints and drops it; nothing is half written then.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.asked: int | None = None

    def install(self) -> None:
        """For the rest of the process; a signal that the parent has switched off (nohup) stays off."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._stop)
        sys.unraisablehook = self._unraisable

    def done(self) -> None:
        """The answer is out: a signal that comes while the interpreter takes itself apart changes nothing."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked is not None, self.asked or number
        if again or _importing(frame):
            self._leave()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _unraisable(self, found: sys.UnraisableHookArgs) -> None:
        if self.asked is not None and issubclass(found.exc_type, KeyboardInterrupt):
            self._leave()
        sys.__unraisablehook__(found)

    def _leave(self) -> None:
        shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides the cursor
        # Past Python's own buffers: this may have interrupted a write to them.
        os.write(2, f"{shown}{farewell(self.words, self.asked or signal.SIGINT)}\n".encode())
        os._exit(128 + (self.asked or signal.SIGINT))


def guarded(command: Callable[[], object], words: Sequence[str], stops: Stops | None = None) -> int:
    """Run ``command`` and return its exit status, after one line on stderr where it did not end well.

    ``words`` are those of the command line; with ``--debug`` among them an error is raised as it is.
    """
    try:
        found = command()
        sys.stdout.flush()
        status = found if isinstance(found, int) else 0
    except BrokenPipeError:  # the reader (head, less) has seen enough
        _discard(sys.stdout)
        status = 0
    except SystemExit as end:  # rich's way to end when the reader is gone
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        status = 0
    except KeyboardInterrupt as stop:
        return _stopped(words, signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    except Exception as error:
        if stops is None or stops.asked is None:
            if "--debug" in words:
                raise
            return _complain(error)
        status = 1
    if stops is not None and stops.asked is not None:  # somebody's handler took the exception for its own
        return _stopped(words, stops.asked)
    return status


def open_streams() -> None:
    """Make both standard streams take whatever is written to them, also where the parent has closed one (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the rest of the process
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal's encoding lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")


def farewell(words: Sequence[str], number: int) -> str:
    """What to say when a command is stopped: what is kept, and how to go on where it can."""
    what = "Terminated" if number == signal.SIGTERM else "Interrupted"
    command = next((word for word in words if not word.startswith("-")), None)
    given = any(word == "--runs" or word.startswith("--runs=") for word in words)
    if command not in RESUMABLE or given:
        return f"{what}."
    again = shell("oracle", *(word for word in words if word not in ("--force", "--resume")), "--resume")
    if len(again) > LIMIT:
        again = "the same command with --resume"
    return f"{what}; what was finished is kept.  To go on: {again}"


def _stopped(words: Sequence[str], number: int) -> int:
    _print(farewell(words, number))
    return 128 + number


def _complain(error: Exception) -> int:
    """Print what went wrong; the status."""
    from typer.exceptions import TyperException

    if isinstance(error, TyperException):
        return _misused(error)
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        # Whoever writes a file names it, so this was standard output; what it still holds would fail again.
        _discard(sys.stdout)
        _print(f"Error: the answer cannot be written to standard output ({error.strerror})")
        return 1
    unexpected = not isinstance(error, (ValueError, RuntimeError, OSError))
    advice = "  (run again with --debug for the details)" if unexpected else ""
    name = f"{type(error).__name__}: " if unexpected or not str(error) else ""
    _print(f"Error: {one_line(f'{name}{error}')}{advice}")
    return 2 if isinstance(error, ValueError) else 1


def _misused(error) -> int:
    """Words that the parser of the command line refuses."""
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if not message.strip():  # no words at all: the help stands there already
        return error.exit_code
    advice = f"  (`{context.command_path} --help` lists what there is)" if context is not None else ""
    _print(f"Error: {one_line(message)}{advice}")
    return error.exit_code


def _discard(stream) -> None:
    """What is left in the stream's buffer goes nowhere, or Python would try again, and complain, at its end."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _print(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # nobody listens there either; the status says it
        _discard(sys.stderr)


def _importing(frame: FrameType | None) -> bool:
    return any(each.f_code.co_filename == _IMPORTING for each in _outwards(frame))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
