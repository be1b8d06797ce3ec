"""The folder of a job of many steps: who may write it, what it is known by, and how an earlier one is cleared away."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.records.folder import Kind
from oracle.records.lock import NAME, lock
from oracle.records.typed import read_json
from oracle.records.whole import temporary_of, write_whole
from oracle.records.writing import own_path


@dataclass(frozen=True)
class JobFolder:
    """A kind of job: one JSON file in its folder makes the folder one of this kind, and says how far it has come."""

    name: str  # for people, with its article where one stands: "a diagnosis"
    file: str
    key: str  # of the schema's number in the file
    version: int

    @property
    def noun(self) -> str:
        return self.name.split(" ", 1)[1]

    def read(self, out: Path) -> dict[str, Any]:
        """What the file of the folder holds.  Raises ValueError where it is none of ours, or of another schema."""
        try:
            stored = read_json(out / self.file)
            if stored.pop(self.key, None) != self.version:
                raise ValueError(f"its {self.key} is not {self.version}")
            return stored
        except (OSError, ValueError) as error:
            raise self.unusable(out, error) from None

    def unusable(self, out: Path, error: Exception) -> ValueError:
        """The error of a folder that cannot be gone on with."""
        return ValueError(
            f"{out / self.file}: not {self.name} that can be gone on with ({error!s:.200}); name another folder"
        )

    def write(self, out: Path, stored: dict[str, Any]) -> None:
        """Write the file, whole."""
        write_json(out / self.file, {self.key: self.version, **stored})

    def expect_free(self, out: str | Path, *, resume: bool, force: bool) -> Path:
        """The folder.  Raises ValueError where it may not be written, before any model is loaded."""
        path = own_path(out)
        if resume and force:
            raise ValueError("resume goes on with what is there and force replaces it: give one of them")
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; {self.name} is a directory")
        if not path.exists():
            return path
        if not (path / self.file).exists():
            others = [each.name for each in path.iterdir() if each.name != NAME and temporary_of(each.name) is None]
            if others:
                raise ValueError(
                    f"{path} holds {min(others)[:100]!r} and no {self.file}, so it is not {self.name} and nothing in "
                    "it is touched; name another folder"
                )
        elif not resume and not force:
            raise ValueError(
                f"{path} holds {self.name} already; --resume goes on with it, --force replaces it, or name another "
                "folder"
            )
        return path


def write_json(file: Path, stored: dict[str, Any]) -> None:
    """An object of finite numbers, lists and text as a file, whole."""
    text = json.dumps(stored, indent=1, allow_nan=False)
    write_whole(file, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def expect_same(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise ValueError where a job was begun otherwise than it is to go on."""
    for name, value in now.items():
        if before.get(name) != value:
            was, wanted = (f"{each!r:.120}" for each in (before.get(name), value))
            raise ValueError(
                f"{out} was begun with {name} {was}, this run has {wanted}; use the same settings to go on with it, "
                "--force to replace it, or another folder"
            )


@contextlib.contextmanager
def held(out: Path) -> Iterator[None]:
    """The folder, made, with other writers kept out.  Raises RuntimeError where it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with lock(out):
            yield
    except OSError as error:
        raise RuntimeError(f"{error.filename or out}: cannot be written ({error.strerror or error})") from error


def clear_records(kind: Kind, path: Path) -> None:
    """Remove the trace or the runs in a folder: files that are proved to be ours, and no other.

    Raises ValueError where something among them is not.
    """
    if not (path / "meta.json").is_file():
        return
    meta, files = kind.read_meta(path), kind.part_files(path)
    for file in files:
        if not kind.owns(file, meta):
            raise ValueError(f"{file} is not a part of the {kind.name} there: move it away")
    for file in (*reversed(files), path / "meta.json"):
        file.unlink()
