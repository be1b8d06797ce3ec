"""The keys of a policy as text: ``key=value,key=value``, and the policy of a class that they make."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from oracle.policies.contract import Policy, value_text

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def built(kind: type[Policy], text: str, name: str, rest: str) -> Policy:
    """The policy of class ``kind`` with the keys of ``rest``; ``text`` is the whole of it and ``name`` its name.

    Raises ValueError with the legal keys or values.
    """
    values = values_of(text, name, rest, {item.name: item.default for item in dataclasses.fields(kind)})
    try:
        policy = kind(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"policy {text!r}: {error}") from None
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"policy {text!r}: {key}={value} is not a finite number")
    return policy


def values_of(text: str, name: str, rest: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The keys and values written in ``rest``; ``fields`` are the legal keys and their defaults."""
    values: dict[str, Any] = {}
    for pair in filter(None, (piece.strip() for piece in rest.split(","))):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if key not in fields or not equals:
            legal = ", ".join(_key_text(key, default) for key, default in fields.items()) or "no keys"
            raise ValueError(f"policy {text!r}: {pair!r} is not a key=value that {name} knows; legal: {legal}")
        if key in values:
            raise ValueError(f"policy {text!r}: {key} is given twice")
        values[key] = _convert(text, key, value, fields[key])
    return values


def _key_text(key: str, default: Any) -> str:
    return f"{key}=..." if default is dataclasses.MISSING else f"{key}={value_text(default)}"


def _convert(text: str, key: str, value: str, default: Any) -> Any:
    """``value`` as the type of the key's default; a number where there is none."""
    if isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value not in ("True", "False"):
            raise ValueError(f"policy {text!r}: {key}={value!r} is not True or False")
        return value == "True"
    if isinstance(default, float) and value.lstrip("+-").lower() in ("nan", "inf", "infinity"):
        return float(value)  # the policy says what it takes instead
    integer = _INTEGER.fullmatch(value) is not None
    if isinstance(default, int):
        if not integer:
            raise ValueError(f"policy {text!r}: {key}={value!r} is not a whole number")
        return _int(text, key, value)
    if not integer and _DECIMAL.fullmatch(value) is None:
        raise ValueError(f"policy {text!r}: {key}={value!r} is not a number")
    return _int(text, key, value) if integer and not isinstance(default, float) else float(value)


def _int(text: str, key: str, value: str) -> int:
    if len(value) > 30:  # Python refuses to read numbers of thousands of digits, in words of its own
        raise ValueError(f"policy {text!r}: {key} has {len(value)} digits; give a smaller number")
    return int(value)
