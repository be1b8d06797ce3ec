"""Whether what a command writes has a place, asked before its work is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path


def check_file(target: Path, endings: Sequence[str] = ()) -> None:
    """Raise ValueError unless a file can be written at ``target``, with one of the ``endings`` where there are any."""
    from oracle.records.folder import writable

    if endings and target.suffix.lower() not in endings:
        raise ValueError(f"cannot write {target.name!r}: name it with one of {', '.join(endings)}")
    if target.is_dir():
        raise ValueError(f"{target} is a folder; name a file, such as {target / 'result'}{(*endings, '')[0]}")
    with _explained(target):
        writable(target)


def check_folder(target: Path) -> None:
    """Raise ValueError unless ``target`` is, or can become, a folder that files can be written to."""
    from oracle.records.folder import writable

    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file; name a folder")
    with _explained(target):
        writable(target, folder=True)


@contextlib.contextmanager
def _explained(target: Path) -> Iterator[None]:
    """A place that was named and cannot be written is bad usage, found before anything has run."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"cannot write to {target} ({error.strerror or error}); name another place") from None
