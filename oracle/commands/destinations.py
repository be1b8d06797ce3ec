"""Whether what a command writes has a place, asked before its work is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

PAGE = b"Made by oracle-lookahead"  # stands in every page
PICTURE = b"oracle-lookahead"  # in what a picture says of its maker
_MOST = 2**26  # bytes of a file that are read to find out who made it


def check_file(target: Path, endings: Sequence[str] = (), *, made: bytes | None = None, force: bool = False) -> None:
    """Raise ValueError unless a file can be written at ``target``, with one of the ``endings`` where there are any.

    ``made`` is what every file holds that the command wrote itself: one that lacks it is somebody else's, and is
    replaced with ``force`` only.
    """
    from oracle.records.folder import writable

    if endings and target.suffix.lower() not in endings:
        raise ValueError(f"cannot write {target.name!r}: name it with one of {', '.join(endings)}")
    with _explained(target):
        if target.is_dir():
            raise ValueError(f"{target} is a folder; name a file, such as {target / 'result'}{(*endings, '')[0]}")
        writable(target)
        if made is not None and not force and target.is_file() and not _is_made(target, made):
            raise ValueError(
                f"{target} is there and this command did not make it; --force replaces it, or name another file"
            )


def _is_made(target: Path, made: bytes) -> bool:
    """Whether a file is ours, or empty."""
    with target.open("rb") as handle:
        content = handle.read(_MOST)
    return not content or made in content


def check_folder(target: Path) -> None:
    """Raise ValueError unless ``target`` is, or can become, a folder that files can be written to."""
    from oracle.records.folder import writable

    with _explained(target):
        if target.exists() and not target.is_dir():
            raise ValueError(f"{target} is a file; name a folder")
        writable(target, folder=True)


@contextlib.contextmanager
def _explained(target: Path) -> Iterator[None]:
    """A place that was named and cannot be written is bad usage, found before anything has run."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"cannot write to {target} ({error.strerror or error}); name another place") from None
