"""``diagnose.json``: what a diagnosis was asked for, what it planned, and what it has spent; so that it can go on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from oracle.records.runs import FOLDER as RUNS
from oracle.records.trace import FOLDER as TRACE
from oracle.workflows.diagnose.plan import Plan
from oracle.workflows.folders import JobFolder, clear_records, expect_same

DIAGNOSIS = JobFolder("a diagnosis", "diagnose.json", "diagnose_schema", 1)


@dataclass(frozen=True)
class Kept:
    """What goes on where a diagnosis was interrupted."""

    settings: dict[str, Any]  # what must not change in between
    plan: Plan
    spent: float = 0.0  # seconds, up to the last step that ended
    check: dict[str, Any] = field(default_factory=dict)  # how the check was planned; empty: not yet

    def save(self, out: Path) -> Kept:
        """Write it into the folder, whole; the same."""
        DIAGNOSIS.write(out, asdict(self))
        return self

    def checked(self, **plan: Any) -> Kept:
        """The same with a plan of the check."""
        return replace(self, check=plan)


def expect_free(out: str | Path, *, resume: bool, force: bool) -> Path:
    """The folder.  Raises ValueError where it may not be written, before any model is loaded."""
    path = DIAGNOSIS.expect_free(out, resume=resume, force=force)
    if (path / DIAGNOSIS.file).exists():
        _read(path)
    return path


def known(out: Path, settings: dict[str, Any]) -> Kept | None:
    """What an interrupted diagnosis left; None where there is none.  Raises ValueError where it was asked otherwise."""
    if not (out / DIAGNOSIS.file).exists():
        return None
    found = _read(out)
    expect_same(out, found.settings, settings)
    return found


def begun_with(out: Path) -> dict[str, Any]:
    """The settings of what is there; none where there is nothing."""
    return _read(out).settings if (out / DIAGNOSIS.file).exists() else {}


def clear(out: Path) -> None:
    """Remove what an earlier diagnosis left in its folders: files that are proved to be ours, and no other.

    Raises ValueError where something in them is not.
    """
    for folder in (*sorted(out.glob("draft-*")), out / "check"):
        clear_records(RUNS, folder / "runs")
        clear_records(TRACE, folder / "trace")
        for name in ("tuned.json", "cost.json"):
            (folder / name).unlink(missing_ok=True)


def _read(out: Path) -> Kept:
    stored = DIAGNOSIS.read(out)
    try:
        return Kept(**{**stored, "plan": Plan(**stored["plan"])})
    except (ValueError, TypeError, KeyError) as error:
        raise DIAGNOSIS.unusable(out, error) from None
