"""Folders that explain themselves: a versioned ``meta.json`` beside the data, and files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """What a folder holds: how its schema is versioned, and what to call it and to advise when it is not one."""

    key: str  # name of the schema version in meta.json
    version: int
    name: str
    command: str  # the command that makes one

    def read_meta(self, path: str | Path) -> dict:
        """The folder's ``meta.json``.  Raises ValueError where there is none, it is not ours, or its schema is unknown."""
        file = Path(path) / "meta.json"
        if not file.is_file():
            raise ValueError(f"{path}: not a {self.name} (no meta.json there); `{self.command} {path}` makes one")
        try:
            meta = json.loads(file.read_bytes().decode("utf-8-sig"))
        except ValueError as error:
            raise ValueError(f"{file}: not readable as JSON ({error}); make it again with `{self.command}`") from None
        version = meta.get(self.key) if isinstance(meta, dict) else None
        if version != self.version:
            reads = f"this version of the toolkit reads schema {self.version}"
            raise ValueError(f"{file}: {self.name} schema {version!r}, but {reads}")
        return meta

    def write_meta(self, path: str | Path, meta: dict) -> None:
        """Write ``meta.json``, the schema version added."""
        text = json.dumps({self.key: self.version, **meta}, indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(Path(path) / "meta.json", lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file and rename it to ``target``: a reader, or a killed run, never leaves half of it."""
    # A name of its own: two runs into one folder must not write through each other's file.
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def writable(target: Path) -> None:
    """Raise ValueError unless a file or a folder can be made, or written, at ``target``; nothing is left behind.

    Asked before long work, whose result would have no place otherwise.
    """
    place = target if target.is_dir() else target.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    problem = f"{place} is no folder" if not place.is_dir() else None
    if problem is None:
        probe = place / f".{uuid.uuid4().hex[:8]}.tmp"
        try:
            probe.touch(exist_ok=False)
        except OSError as error:
            problem = f"{place}: {error.strerror or error}"
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)
    if problem is not None:
        raise ValueError(f"cannot write to {target} ({problem}); name another place")
