"""Writing into a folder of ours: what is there already, who may replace it, and how an interrupted run goes on.

A folder is ours when its ``meta.json`` says so, of the right kind and schema.  Only files that are proved to belong to
it are ever removed, and only when it is to be replaced.  A folder without a ``meta.json`` is taken when it holds no
Parquet file: then nothing in it can be mistaken for ours, and nothing in it is touched.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from oracle.records.folder import Kind
from oracle.records.lock import lock
from oracle.records.parts import Part, write_part
from oracle.records.typed import short
from oracle.records.whole import temporary_of

Bind = Callable[[dict[str, Any]], dict[str, Any]]  # of a meta, what must not change between a run and its resumption


@dataclass(frozen=True)
class Writing:
    """A folder that is open for writing."""

    kind: Kind
    path: Path
    meta: dict[str, Any]
    parts: tuple[Part, ...]  # finished before

    @property
    def run_id(self) -> str | None:
        return self.meta.get("run_id")

    @property
    def units(self) -> set[str | int]:
        """What is there already."""
        return {unit for part in self.parts for unit in part.units}

    def add(self, number: int, table: pa.Table) -> None:
        """Write a finished part; ``number`` is the part's place, and no other part's.  Raises RuntimeError."""
        self._write(self.kind.part_name(number, self.run_id), table)

    def merge(self, table: pa.Table) -> None:
        """Write all finished rows as one file, then remove the single parts.  Killed in between, it leaves both."""
        assert self.kind.merged is not None
        parts = self.kind.parts(self.path, self.meta)
        single = [part.file for part in parts if part.file.name != self.kind.merged]
        if not single:
            return
        self._write(self.kind.merged, table)
        with disk_errors(self.kind, self.path):
            for file in single:
                file.unlink()

    def _write(self, name: str, table: pa.Table) -> None:
        with disk_errors(self.kind, self.path):
            write_part(self.path / name, table, self.kind.unit, self.run_id)


@contextlib.contextmanager
def writing(
    kind: Kind, out: str | Path, meta: dict[str, Any], bind: Bind, *, resume: bool, force: bool
) -> Iterator[Writing]:
    """Open ``out`` for writing what ``meta`` describes, and keep other writers out until the end of the block.

    ``resume`` goes on with a run whose ``bind`` is the same, or begins; ``force`` replaces what is there.  Raises
    ValueError for a folder that may not be written, RuntimeError where another writer has it or it cannot be written.
    """
    if resume and force:
        raise ValueError(f"resume goes on with {kind.holds} and force replaces it: give one of them")
    path = own_path(out)
    with contextlib.ExitStack() as stack:
        with disk_errors(kind, path):
            _may_write(kind, path, resume, force)  # before anything is made there
            path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock(path))
            opened = _begin(kind, path, meta, bind, resume, force)
        yield opened


def expect_may_write(kind: Kind, out: str | Path, *, resume: bool, force: bool) -> None:
    """Raise ValueError where `writing` would refuse the folder: to be asked before any model is loaded."""
    path = own_path(out)
    with disk_errors(kind, path):
        _may_write(kind, path, resume, force)


def own_path(out: str | Path) -> Path:
    """``out`` as a path.  Raises ValueError for an empty one, and for "." (which is what an empty one becomes)."""
    path = Path(out)
    if not path.parts:
        raise ValueError(f"{str(out)!r} is the working directory itself; name a folder of its own, such as runs/first")
    return path


@contextlib.contextmanager
def disk_errors(kind: Kind, path: Path) -> Iterator[None]:
    """Turn an OSError into a RuntimeError that names the file, says what is kept, and how to go on."""
    try:
        yield
    except OSError as error:
        problem = str(error.strerror or error)[:200]
        raise RuntimeError(
            f"{error.filename or path}: cannot be written ({problem}); finished parts are kept, resume goes on: "
            f"{kind.resume_line(path)} with the same options"
        ) from error


def _may_write(kind: Kind, path: Path, resume: bool, force: bool) -> dict[str, Any] | None:
    """The meta that is there, None where there is none.  Raises ValueError where writing is not allowed."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; a {kind.name} is a directory")
    if not path.exists():
        return None
    if not (path / "meta.json").exists():
        _expect_nothing_alike(kind, path)
        return None
    try:
        before = kind.read_meta(path)
    except ValueError as error:
        raise ValueError(f"{error}; nothing there is touched, choose another folder") from None
    if not resume and not force:
        advice = "force replaces it, resume goes on with it, or choose another folder"
        raise ValueError(f"{path} holds {kind.holds} already; {advice}")
    for file in kind.part_files(path) if force else ():
        if not kind.owns(file, before):
            raise ValueError(
                f"{file} is not a part of the {kind.name} there, so force does not remove it: move it away"
            )
    return before


def _expect_nothing_alike(kind: Kind, path: Path) -> None:
    alike = sorted(file.name for file in path.iterdir() if file.name.lower().endswith(".parquet"))
    if alike:
        raise ValueError(
            f"{path} holds {short(alike[0])} but no meta.json, so it is not a {kind.name} of ours and nothing in it is "
            "touched; choose another folder (one without a meta.json is taken only if it holds no .parquet file)"
        )


def _begin(kind: Kind, path: Path, meta: dict[str, Any], bind: Bind, resume: bool, force: bool) -> Writing:
    before = _may_write(kind, path, resume, force)
    if before is not None and resume:
        _expect_same(path, bind(before), bind(meta))
        parts = tuple(kind.parts(path, before))
        _sweep(kind, path, before)
        return Writing(kind, path, before, parts)
    # The last one first, so that whoever is interrupted here leaves a whole, shorter run.
    for file in reversed(kind.part_files(path) if before is not None else []):
        file.unlink()
    meta = {kind.key: kind.version, "run_id": uuid.uuid4().hex, **meta}
    kind.write_meta(path, meta)
    _sweep(kind, path, meta)
    return Writing(kind, path, meta, ())


def _sweep(kind: Kind, path: Path, meta: dict[str, Any]) -> None:
    """Remove what a killed run left: temporary files of our own names, and parts that were merged into one file."""
    for file in list(path.iterdir()):
        stands_for = temporary_of(file.name)
        if stands_for is not None and (stands_for == "meta.json" or kind.is_part_name(stands_for)):
            file.unlink()
    for file in kind.merged_away(path, meta):
        file.unlink()


def _expect_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if before.get(name) != value:
            raise ValueError(
                f"{path} was begun with {name} {_shown(before.get(name))}, this run has {_shown(value)}; "
                "use the same settings to go on with it, force to replace it, or another folder"
            )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
