"""A study from its recipe to its table: cell by cell, each pair loaded once, what has ended never done again."""

from __future__ import annotations

import functools
import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.report.index import write_index
from analysis.tables.formats import latex, markdown
from analysis.tables.speedups import Row, speedup_csv, speedup_table
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.records.whole import write_whole
from oracle.versions import version_of
from oracle.workflows.folders import held
from oracle.workflows.study import kept as records
from oracle.workflows.study.kept import STUDY, TABLES, Kept, folder_of, known
from oracle.workflows.study.recipe import Cell, Models, Recipe
from oracle.workflows.study.rows import row
from oracle.workflows.study.stages import STAGES, Work

_PACKAGES = ("oracle-lookahead", "torch", "transformers", "datasets", "numpy", "pyarrow")
# What one cell may fail of while the others go on; anything else is a mistake of ours, or the user's Ctrl-C.
_FAILURES = (ValueError, RuntimeError, OSError, MemoryError)


@dataclass(frozen=True)
class Study:
    """What came of a study."""

    title: str
    rows: tuple[Row, ...]  # a cell each, in the recipe's order
    folder: str
    index: str  # the page that leads to the others
    seconds: float

    @property
    def failed(self) -> tuple[str, ...]:
        """The cells that have a problem."""
        return tuple(each.name for each in self.rows if each.problem)

    def text(self, form: str) -> str:
        """The table as markdown, latex or csv."""
        return _texts(self.title, self.rows)[form]


def study(
    recipe: Recipe,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
    command: Sequence[str] = (),
) -> Study:
    """Record, clock, price, replay and tune every cell of ``recipe`` in folders of ``out``, and write the table.

    A stage of a cell that has ended is never done again: ``resume`` goes on after it; ``force`` begins anew.  A cell
    that fails is named with its reason, in the table too, and the others go on; ``resume`` tries it again.  ``tell`` is
    given a line before each stage; ``command`` is what was typed, for the record.  Raises ValueError for a folder that
    may not be written or was begun otherwise, RuntimeError where it cannot be written.
    """
    begun, say = time.monotonic(), tell or (lambda line: None)
    path = STUDY.expect_free(out, resume=resume, force=force)
    with held(path):
        if force:
            records.clear(path)
        cells = [(cell, known(path, cell) or Kept(cell.binding)) for cell in recipe.cells]
        log = _begin(path, recipe, command)
        done = _all(cells, path, recipe.threads, progress, say)
        rows = tuple(row(cell, done[cell.name]) for cell in recipe.cells)
        index = _write(path, recipe, rows)
        seconds = time.monotonic() - begun
        _end(path, log, seconds)
    return Study(recipe.title, rows, str(path), str(index), seconds)


def _all(
    cells: Sequence[tuple[Cell, Kept]], out: Path, threads: int | None, progress: bool, say: Callable[[str], None]
) -> dict[str, Kept]:
    """Every cell, those of one pair after each other, so that one pair is in memory and each is loaded once."""
    found: dict[str, Kept] = {}
    for models in dict.fromkeys(cell.models for cell, _ in cells):
        pair = _Once(functools.partial(_load, models, threads, say))
        for cell, kept in cells:
            if cell.models == models:
                found[cell.name] = _cell(Work(cell, folder_of(out, cell), pair, progress), kept, say)
        del pair
        _free()
    return found


class _Once:
    """A pair that is loaded when it is first asked for; where that fails, the same reason again."""

    def __init__(self, load: Callable[[], Pair]) -> None:
        self._load = load
        self._found: Pair | Exception | None = None

    def __call__(self) -> Pair:
        if self._found is None:
            try:
                self._found = self._load()
            except _FAILURES as error:
                self._found = error
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def _cell(work: Work, kept: Kept, say: Callable[[str], None]) -> Kept:
    """The stages that have not ended yet; the first that fails is the last."""
    left = [name for name in STAGES if name not in kept.stages]
    kept = replace(kept, problem=None).save(work.folder)
    for name in left:
        say(f"{work.cell.name}: {name} ({1 + list(STAGES).index(name)} of {len(STAGES)}) ...")
        begun = time.monotonic()
        try:
            found = STAGES[name](work)
        except _FAILURES as error:
            reason = " ".join(f"{error}".split()) or type(error).__name__
            say(f"{work.cell.name}: {name} failed: {reason}")
            _free()
            return replace(kept, problem=f"{name} failed: {reason}").save(work.folder)
        kept = kept.with_stage(name, time.monotonic() - begun, found).save(work.folder)
    return kept


def _load(models: Models, threads: int | None, say: Callable[[str], None]) -> Pair:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    say(f"{models.name}: loading {models.target or models.name}{f' and {models.draft}' if models.draft else ''} ...")
    return load_pair(
        None if models.target else models.name,
        target=models.target,
        draft=models.draft,
        dtype=models.dtype,
        device=models.device,
        draft_device=models.draft_device,
        allow_token_differences=models.allow_token_differences,
    )


def _free() -> None:
    """Give back the memory of models that nobody holds any more; nothing where none was loaded."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _begin(out: Path, recipe: Recipe, command: Sequence[str]) -> dict[str, Any]:
    """Copy the recipe, and note who begins what, where and with which versions."""
    write_whole(out / "recipe.toml", lambda temporary: temporary.write_bytes(recipe.text))
    before = STUDY.read(out).get("sessions") if (out / STUDY.file).exists() else None
    session = {
        "command": list(command),
        "recipe": recipe.file,
        "folder": os.getcwd(),
        "cells": [cell.name for cell in recipe.cells],
        "began": records.now(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in _PACKAGES},
    }
    log = {"title": recipe.title, "sessions": [*(before if isinstance(before, list) else ()), session]}
    STUDY.write(out, log)
    return log


def _end(out: Path, log: dict[str, Any], seconds: float) -> None:
    last = log["sessions"][-1] | {"ended": records.now(), "seconds": round(seconds, 3)}
    STUDY.write(out, log | {"sessions": [*log["sessions"][:-1], last]})


def _write(out: Path, recipe: Recipe, rows: Sequence[Row]) -> Path:
    """The table in every form, and the page that leads to those of the cells; the page."""
    for form, text in _texts(recipe.title, rows).items():
        write_whole(out / TABLES[form], lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
    pages = {cell.name: folder_of(Path(), cell) / "report.html" for cell in recipe.cells}
    links = {name: page.as_posix() for name, page in pages.items() if (out / page).exists()}
    return write_index(out / "index.html", recipe.title, rows, links)


def _texts(title: str, rows: Sequence[Row]) -> dict[str, str]:
    table = speedup_table(rows, title)
    return {"markdown": markdown(table), "latex": latex(table), "csv": speedup_csv(rows)}
