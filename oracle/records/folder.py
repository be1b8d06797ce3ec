"""Folders that explain themselves: a versioned ``meta.json`` beside parts that appear whole or not at all."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.records.parts import Part, Unreadable, read_part, read_seal
from oracle.records.typed import check, read_json, short
from oracle.records.whole import writable, write_whole

__all__ = ["Kind", "writable", "write_whole"]


@dataclass(frozen=True)
class Kind:
    """What a folder holds: how its schema is versioned, how its parts are named, and what to call it in messages."""

    key: str  # name of the schema version in meta.json
    version: int
    name: str  # "trace": what one is called
    holds: str  # "a trace": what a folder of it holds
    command: str  # the command that makes one
    meta: Any  # the type of meta.json
    prefix: str  # of the parts' names: PREFIX-NUMBER[-RUN].parquet
    digits: int  # of the number, at least
    unit: str  # the column that tells rows apart, within a part and between parts
    units: str  # what such rows are called
    marks: frozenset[str]  # columns by which a part without a seal is known as one of ours
    merged: str | None = None  # name of the file that takes in finished parts, if any

    def read_meta(self, path: str | Path) -> dict[str, Any]:
        """The folder's ``meta.json``.  Raises ValueError if there is none, it is not ours, or its schema is unknown."""
        file = Path(path) / "meta.json"
        if not file.is_file():
            raise ValueError(f"{path}: not a {self.name} (no meta.json there); `{self.command} {path}` makes one")
        try:
            meta = read_json(file)
        except ValueError as error:
            problem = str(error)[:200]
            raise ValueError(f"{file}: not readable as JSON ({problem}); make it again with `{self.command}`") from None
        version = meta.get(self.key)
        if type(version) is not int or version != self.version:
            reads = f"this version of the toolkit reads schema {self.version}"
            raise ValueError(f"{file}: {self.name} schema {short(version)}, but {reads}")
        return check(self.meta, meta, str(file))

    def write_meta(self, path: str | Path, meta: dict[str, Any]) -> None:
        """Write ``meta.json``, the schema version added."""
        text = json.dumps({self.key: self.version, **meta}, indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(Path(path) / "meta.json", lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))

    def part_name(self, number: int, run_id: str | None) -> str:
        """``number`` orders the parts and is free of clashes within a run; the run's id keeps other runs' apart."""
        run = f"-{run_id[:8]}" if run_id else ""
        return f"{self.prefix}-{number:0{self.digits}d}{run}.parquet"

    def is_part_name(self, name: str) -> bool:
        """Whether a file of this name would be taken for a part."""
        return name == self.merged or self._number(name) is not None

    def part_files(self, path: Path) -> list[Path]:
        """What is named as a part, in order: the merged file, then by number."""
        found = [file for file in path.iterdir() if self.is_part_name(file.name)]
        return sorted(found, key=lambda file: (self._number(file.name) or (-1, ""), file.name))

    def parts(self, path: str | Path, meta: dict[str, Any]) -> list[Part]:
        """The finished parts of the run that ``meta`` describes.

        Raises ValueError, naming the file, for a part that cannot be read, is another run's, or holds what another part
        holds already; and where numbered parts of an older trace miss one in between.
        """
        parts, _ = self._kept_and_merged(Path(path), meta)
        self._expect_no_gap(Path(path), [part for part in parts if part.seal is None])
        self._expect_once(parts)
        return parts

    def merged_away(self, path: Path, meta: dict[str, Any]) -> list[Path]:
        """Single parts that the merged file has taken in: a run killed between both steps leaves them."""
        _, merged = self._kept_and_merged(path, meta) if self.merged is not None else ([], [])
        return [part.file for part in merged]

    def owns(self, file: Path, meta: dict[str, Any]) -> bool:
        """Whether a file that is named as a part is proved to belong to the run that ``meta`` describes."""
        run_id = meta.get("run_id")
        if not file.is_file():
            return False
        try:
            columns, seal = read_seal(file)
        except Unreadable:
            # A damaged part is known by the run's id in its name; nobody else names a file so.
            return run_id is not None and file.name.endswith(f"-{run_id[:8]}.parquet")
        if seal is None:
            return run_id is None and columns >= self.marks
        return seal.run_id == run_id

    def unreadable(self, file: Path, problem: object) -> ValueError:
        """The error for a part that cannot be used."""
        again = f"move it away, then {self.resume_line(file.parent)} makes it again"
        return ValueError(f"{file}: not readable as part of a {self.name} ({problem}); {again}")

    def unfinished(self, path: str | Path, done: int, planned: int | None) -> str | None:
        """What to say of a run that has not ended; None for one that has, or that does not say what was planned.

        Raises ValueError where there is more than was planned.
        """
        if planned is None or done == planned:
            return None
        if done > planned:
            raise ValueError(
                f"{path}: {done} {self.units} where {planned} were planned: it is not one run's; make it again"
            )
        return f"{done} of {planned} {self.units}: unfinished; {self.resume_line(path)} goes on"

    def resume_line(self, path: str | Path) -> str:
        return f"`{self.command} {shlex.quote(str(path))} --resume`"

    def _number(self, name: str) -> tuple[int, str] | None:
        found = re.fullmatch(rf"{self.prefix}-(\d{{{self.digits},12}})(-[0-9a-f]{{8}})?\.parquet", name, re.ASCII)
        return None if found is None else (int(found[1]), found[2] or "")

    def _kept_and_merged(self, path: Path, meta: dict[str, Any]) -> tuple[list[Part], list[Part]]:
        parts = [self._part(file, meta.get("run_id")) for file in self.part_files(path)]
        inside = {unit for part in parts if part.file.name == self.merged for unit in part.units}
        taken = [self._taken_in(part, inside) for part in parts]
        return (
            [part for part, out in zip(parts, taken, strict=True) if not out],
            [part for part, out in zip(parts, taken, strict=True) if out],
        )

    def _part(self, file: Path, run_id: str | None) -> Part:
        try:
            part = read_part(file, self.unit)
        except Unreadable as error:
            raise self.unreadable(file, error) from None
        found = part.seal.run_id if part.seal else None
        if found != run_id:
            raise ValueError(
                f"{file} belongs to another run than the meta.json beside it (run {found or 'without an id'}, "
                f"not {run_id or 'one without an id'}); move it away"
            )
        return part

    def _taken_in(self, part: Part, inside: set[str | int]) -> bool:
        if part.file.name == self.merged or len(part.units) != 1 or part.units[0] not in inside:
            return False
        number = part.units[0]
        # Under any other name it is a copy that somebody made, which is refused.
        return isinstance(number, int) and part.file.name == self.part_name(
            number, part.seal.run_id if part.seal else None
        )

    def _expect_no_gap(self, path: Path, parts: list[Part]) -> None:
        numbers = [self._number(part.file.name) for part in parts]
        plain = [found[0] for found in numbers if found is not None and not found[1]]
        if self.merged is not None or plain == list(range(len(plain))):
            return
        missing = next(number for number in range(len(plain)) if plain[number] != number)
        raise ValueError(f"{path}: {self.part_name(missing, None)} is missing but later parts are there; collect again")

    def _expect_once(self, parts: Iterable[Part]) -> None:
        holder: dict[str | int, Path] = {}
        for part in parts:
            for unit in part.units:
                if unit in holder:
                    where = "twice" if holder[unit] == part.file else f"and so does {holder[unit].name}"
                    raise ValueError(
                        f"{part.file} holds {self.unit} {short(unit)} {where}: "
                        f"no {self.name} holds one twice; move the copy away"
                    )
                holder[unit] = part.file
