"""Answers for programs: standard JSON on stdout."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from typing import Any

import typer

from oracle.commands.text import hidden


def show_json(value: Any) -> None:
    """Print standard JSON on stdout; numbers that are not finite become null."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    text = json.dumps(plain(value), indent=1, ensure_ascii=not utf8, allow_nan=False)
    # JSON may hold characters that a terminal obeys; written as escapes they mean the same to every reader.
    typer.echo("".join(_escape(character) if _acts(character) else character for character in text))


def plain(value: Any) -> Any:
    """The same in JSON's types: dataclasses as dicts, NumPy's numbers unwrapped, what is not finite as None."""
    if isinstance(value, type):
        raise TypeError(f"{value} is no value to print")
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _acts(character: str) -> bool:
    return character != "\n" and not character.isprintable() and hidden(character)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"
