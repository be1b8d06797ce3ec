"""Bounds for a program of somebody else's that is run in this process: its time, and the memory that it takes."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any


class TooLong(Exception):
    """It was still at work after its time."""


@functools.lru_cache(maxsize=8)
def raises_to_a_power(template: str) -> bool:
    """Whether a template uses the operator ``**`` other than to hand on named arguments."""
    from jinja2 import Environment

    before = ""
    for _, kind, value in Environment().lex(template):
        if kind == "operator" and value == "**" and before not in ("(", ","):
            return True
        before = before if kind == "whitespace" else value
    return False


@contextlib.contextmanager
def bounded_time(seconds: float) -> Iterator[None]:
    """Raise TooLong in whatever Python code still runs in this thread after so many seconds, at its next line."""
    end = time.monotonic() + seconds

    def check(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > end:
            raise TooLong
        return check

    before = sys.gettrace()
    sys.settrace(check)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Let the process grow by at most so many bytes meanwhile (MemoryError), on systems that tell how large it is."""
    size = Path("/proc/self/statm")
    if not size.is_file():
        yield
        return
    import resource

    pages = int(size.read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + most
    soft = wanted if limits[0] == resource.RLIM_INFINITY else min(wanted, limits[0])
    resource.setrlimit(resource.RLIMIT_AS, (soft, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
