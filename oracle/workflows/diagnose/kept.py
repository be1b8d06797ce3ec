"""``diagnose.json``: what a diagnosis was asked for, what it planned, and what it has spent; so that it can go on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from oracle.records.folder import Kind
from oracle.records.lock import NAME, lock
from oracle.records.runs import FOLDER as RUNS
from oracle.records.trace import FOLDER as TRACE
from oracle.records.typed import read_json
from oracle.records.whole import temporary_of, write_whole
from oracle.records.writing import own_path
from oracle.workflows.diagnose.plan import Plan

FILE = "diagnose.json"
_KEY, _VERSION = "diagnose_schema", 1


@dataclass(frozen=True)
class Kept:
    """What goes on where a diagnosis was interrupted."""

    settings: dict[str, Any]  # what must not change in between
    plan: Plan
    spent: float = 0.0  # seconds, up to the last step that ended
    check: dict[str, Any] = field(default_factory=dict)  # how the check was planned; empty: not yet

    def save(self, out: Path) -> Kept:
        """Write it into the folder, whole; the same."""
        text = json.dumps({_KEY: _VERSION, **asdict(self)}, indent=1, allow_nan=False)
        write_whole(out / FILE, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))
        return self

    def checked(self, **plan: Any) -> Kept:
        """The same with a plan of the check."""
        return replace(self, check=plan)


def expect_free(out: str | Path, *, resume: bool, force: bool) -> Path:
    """The folder.  Raises ValueError where it may not be written, before any model is loaded."""
    path = own_path(out)
    if resume and force:
        raise ValueError("resume goes on with what is there and force replaces it: give one of them")
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; a diagnosis is a directory")
    if not path.exists():
        return path
    if not (path / FILE).exists():
        others = [each.name for each in path.iterdir() if each.name != NAME and temporary_of(each.name) is None]
        if others:
            raise ValueError(
                f"{path} holds {min(others)[:100]!r} and no {FILE}, so it is not a diagnosis and nothing in it is "
                "touched; name another folder"
            )
    elif not resume and not force:
        raise ValueError(
            f"{path} holds a diagnosis already; --resume goes on with it, --force replaces it, or name another folder"
        )
    else:
        _read(path)
    return path


def known(out: Path, settings: dict[str, Any]) -> Kept | None:
    """What an interrupted diagnosis left; None where there is none.  Raises ValueError where it was asked otherwise."""
    if not (out / FILE).exists():
        return None
    found = _read(out)
    for name, value in settings.items():
        if found.settings.get(name) != value:
            before, now = (f"{each!r:.120}" for each in (found.settings.get(name), value))
            raise ValueError(
                f"{out} was begun with {name} {before}, this run has {now}; use the same settings to go on with it, "
                "--force to replace it, or another folder"
            )
    return found


def begun_with(out: Path) -> dict[str, Any]:
    """The settings of what is there; none where there is nothing."""
    return _read(out).settings if (out / FILE).exists() else {}


@contextlib.contextmanager
def held(out: Path) -> Iterator[None]:
    """The folder, made, with other writers kept out.  Raises RuntimeError where it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with lock(out):
            yield
    except OSError as error:
        raise RuntimeError(f"{error.filename or out}: cannot be written ({error.strerror or error})") from error


def clear(out: Path) -> None:
    """Remove what an earlier diagnosis left in its folders: files that are proved to be ours, and no other.

    Raises ValueError where something in them is not.
    """
    for folder in (*sorted(out.glob("draft-*")), out / "check"):
        _clear(RUNS, folder / "runs")
        _clear(TRACE, folder / "trace")
        for name in ("tuned.json", "cost.json"):
            (folder / name).unlink(missing_ok=True)


def _clear(kind: Kind, path: Path) -> None:
    if not (path / "meta.json").is_file():
        return
    meta, files = kind.read_meta(path), kind.part_files(path)
    for file in files:
        if not kind.owns(file, meta):
            raise ValueError(f"{file} is not a part of the {kind.name} there: move it away")
    for file in (*reversed(files), path / "meta.json"):
        file.unlink()


def _read(out: Path) -> Kept:
    file = out / FILE
    try:
        stored = read_json(file)
        if stored.pop(_KEY, None) != _VERSION:
            raise ValueError(f"its {_KEY} is not {_VERSION}")
        return Kept(**{**stored, "plan": Plan(**stored["plan"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{file}: not a diagnosis that can be gone on with ({error!s:.200}); name another folder"
        ) from None
