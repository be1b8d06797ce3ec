"""Typed reading: JSON files of ours, and values that users hand over, checked against declared types in one place.

Every refusal names the file, the field, the value and what would be legal, in a few hundred characters at most.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

MOST_BYTES = 64 * 2**20
MOST_COUNT = 2**31 - 1
MOST_PRICE = 1e9
_DEEPEST = 100
_SHOWN = 80  # characters of a value, or of a name, in a message

_MESSAGES = {"tuple_type": "it must be a list", "list_type": "it must be a list", "dict_type": "it must be an object"}


def says(text: str) -> WrapValidator:
    """Last in an ``Annotated`` type: every refusal of it reads "it must be ``text``"."""

    def wrapped(value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("legal", "it must be {text}", {"text": text}) from None

    return WrapValidator(wrapped)


def _unwrapped(value: Any) -> Any:
    """NumPy's numbers as Python's; everything else as it is."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


Price = Annotated[
    float,
    Field(strict=True, ge=0, le=MOST_PRICE, allow_inf_nan=False),
    BeforeValidator(_unwrapped),
    says(f"a finite number that is not negative, at most {MOST_PRICE:g}"),
]
Number = Annotated[
    float,
    Field(strict=True, ge=-(MOST_PRICE**2), le=MOST_PRICE**2, allow_inf_nan=False),
    BeforeValidator(_unwrapped),
    says("a finite number"),
]
Count = Annotated[
    int,
    Field(strict=True, ge=0, le=MOST_COUNT),
    BeforeValidator(_unwrapped),
    says(f"a whole number from 0 to {MOST_COUNT}"),
]
Positive = Annotated[
    int,
    Field(strict=True, ge=1, le=MOST_COUNT),
    BeforeValidator(_unwrapped),
    says(f"a whole number from 1 to {MOST_COUNT}"),
]
Text = Annotated[str, Field(strict=True), says("text")]
Flag = Annotated[bool, Field(strict=True), says("true or false")]
Object = Annotated[dict[str, Any], Field(strict=True), says("an object of named values")]


def whole(name: str, value: Any, least: int = 1) -> int:
    """``value`` as Python's own whole number from ``least`` on, of NumPy's types too.  Raises ValueError."""
    number = _unwrapped(value)
    if type(number) is not int or number < least:
        raise ValueError(f"{name} is {short(value)}; it must be a whole number from {least} on")
    if number > MOST_COUNT:
        raise ValueError(f"{name} is {short(value)}; it must be at most {MOST_COUNT}")
    return number


def check(kind: Any, value: Any, where: str) -> Any:
    """``value`` as the type ``kind``.  Raises ValueError: "``where``: field is value; it must be ..."."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"{where}: {_problem(error)}") from None


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object from a file (UTF-8, a mark at its start allowed).

    Raises ValueError without the file's name for what is no JSON object, names a field twice, holds a number that is
    not finite, is nested deeper than 100 levels or larger than 64 MB; OSError where it cannot be read.
    """
    with file.open("rb") as handle:  # read up to the limit: a file's size may change, and a device has none
        data = handle.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MB")
    try:
        value = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError:
        raise ValueError(f"it is nested deeper than {_DEEPEST} levels") from None
    if not isinstance(value, dict):
        raise ValueError(f"it holds {short(value)}; an object of named values is wanted")
    if is_deep(value):
        raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
    return value


def short(value: Any) -> str:
    """A value as it is shown in a message: its repr, cut where it is long."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (str, bytes)):
        value = value[: _SHOWN + 1]
    elif isinstance(value, (list, tuple, dict)) and len(value) > 20:
        return f"{type(value).__name__} of {len(value)} entries"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a huge integer inside; nested without end
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def is_deep(value: Any) -> bool:
    """Whether lists and objects stand in each other so deeply that functions which call themselves would not end."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_DEEPEST):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    # Names of union members ("list[int]") are not the user's fields; none of our types has any.
    field = ".".join(str(step)[:_SHOWN] for step in first["loc"][:4])
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "extra_forbidden":
        return f"unknown field {short(first['loc'][-1])}"
    message = (
        _MESSAGES.get(first["type"], first["msg"])
        .replace("Input should be", "it must be")
        .removeprefix("Value error, ")
    )
    return f"{field or 'it'} is {short(first['input'])}; {message[:200]}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"field {short(twice)} is given twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:_SHOWN]} is not a finite number")
    return number
