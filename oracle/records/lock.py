"""One writer a folder.

The lock is the operating system's (``flock``), held by an open file: it ends with the process, however that ends, and
readers never look at it.  Where the system or the file system has no such lock (Windows, some network drives), the file
itself is the lock: it then outlasts a killed process, and the message says when to delete it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NAME = ".oracle.lock"  # a name of our own: somebody else's .lock in the folder is not ours to write to or to remove
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the folder for writing.  Raises RuntimeError if another writer has it, OSError if no file can be made."""
    file = folder / NAME
    handle = _take(file)
    try:
        os.truncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        # Removed while it is still held; whoever opened it before finds out that it is gone (see `_take`).
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        os.close(handle)


def _take(file: Path) -> int:
    """The open lock file, locked."""
    while True:
        handle, made = _open(file)
        try:
            held = _flock(handle)
        except BlockingIOError:
            os.close(handle)
            raise RuntimeError(f"{file.parent} is being written by {_holder(file)}; wait for its end") from None
        if held is None and not made:
            os.close(handle)
            raise RuntimeError(
                f"{file.parent} is being written by {_holder(file)}; if that has ended, delete {file} and start again"
            )
        if held is None or _same(handle, file):
            return handle
        os.close(handle)  # its holder removed it between our opening and our locking


def _open(file: Path) -> tuple[int, bool]:
    """The file, and whether it was made by this call."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), True
    except FileExistsError:
        return os.open(file, os.O_RDWR | os.O_CREAT, 0o666), False


def _flock(handle: int) -> bool | None:
    """True when locked, None where there are no such locks.  Raises BlockingIOError where another holds it."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def _same(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False


def _holder(file: Path) -> str:
    try:
        with file.open(encoding="utf-8", errors="replace") as handle:
            text = handle.read(200).strip()
    except OSError:
        text = ""
    return text or "another process"
