"""Files that appear whole or not at all, and whether a file could be written before anything is spent on it.

Paths are taken as they are given: nothing is a URI, and ``~`` is what the shell made of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

# File systems that cannot flush a directory say so with one of these; the rename itself has happened all the same.
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF)


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file and rename it to ``target``: no reader sees, no killed run leaves half of it.

    The permissions of a file that is there stay; a link is followed, and the file that it names is replaced.  A device
    or a pipe is written straight: it has no whole.  Raises OSError that names ``target``; the old file is kept then.
    """
    with _named(target):
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            write(target)
            return
        place = Path(os.path.realpath(target))
        # A name of its own: two runs into one folder must not write through each other's file.
        temporary = _beside(place)
        try:
            write(temporary)
            if mode is not None:
                temporary.chmod(stat.S_IMODE(mode))
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)
        _flush_folder(place.parent)


def writable(target: Path, folder: bool = False) -> None:
    """Raise OSError that names ``target`` where no file could be written there, its folder made first if need be.

    With ``folder`` it is to be a folder, which may be there, that files are written into.  Nothing is left behind: the
    check makes a file in the nearest folder that exists, and removes it.
    """
    with _named(target):
        mode = None if folder else _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            return
        place = Path(os.path.realpath(target))
        place = place if folder else place.parent
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{place} is a file, not a folder")
        probe = _beside(place / "probe")
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        probe.unlink()


def temporary_of(name: str) -> str | None:
    """The file that a temporary name of ``write_whole`` stood for; None for any other name."""
    pieces = name.rsplit(".", 2)
    if not name.startswith(".") or len(pieces) != 3 or pieces[2] != "tmp" or not _is_hex(pieces[1]):
        return None
    return pieces[0][1:] or None


def _is_hex(text: str) -> bool:
    return len(text) == 8 and set(text) <= set("0123456789abcdef")


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.tmp")


def _mode(target: Path) -> int | None:
    """What is there (``st_mode``), links followed; None for nothing.  Raises OSError for what may not be replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, a file is wanted")
    if stat.S_ISREG(mode) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is there and write-protected")
    return mode


def _flush_folder(folder: Path) -> None:
    """Make the rename itself outlast a power cut, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def _named(target: Path) -> Iterator[None]:
    """An OSError in the block names ``target``, not a temporary file that is gone when somebody reads of it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error)[:200], str(target)) from error
