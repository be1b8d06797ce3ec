"""Every policy by name, and policies as text: ``name`` or ``name:key=value,key=value``.

To add a policy, write a small class beside its like and list it in `POLICIES`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from oracle.policies import files
from oracle.policies.contract import NAMES, Policy, value_text
from oracle.policies.counting import Constant, Heuristic, HeuristicTransient, Plain, Staircase
from oracle.policies.drawn import Random
from oracle.policies.files import FromFunction
from oracle.policies.learning import AdaEDL, Roc
from oracle.policies.thresholds import Dynamic, Kangaroo, MaxConfidence, PMin, Survival, Svip

POLICIES: dict[str, type[Policy]] = {
    "none": Plain,
    "constant": Constant,
    "heuristic": Heuristic,
    "heuristic_transient": HeuristicTransient,
    "dynamic": Dynamic,
    "roc": Roc,
    "max-confidence": MaxConfidence,
    "kangaroo": Kangaroo,
    "svip": Svip,
    "survival": Survival,
    "adaedl": AdaEDL,
    "p-min": PMin,
    "staircase": Staircase,
    "random": Random,
}
NAMES.update((kind, name) for name, kind in POLICIES.items())
# What is compared where no policy is named.
USUAL = ("constant:tokens=5", "heuristic", "dynamic", "oracle:detect", "oracle:clairvoyant", "oracle:optimal")

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def as_policy(policy: str | Policy | Callable) -> Policy:
    """The policy that a user handed over: its text, an object, or a plain function ``stop(signals)``.

    A text that names a file of the user's own runs that file.  Raises ValueError for anything else.
    """
    if isinstance(policy, str):
        return parse(policy, run_files=True)
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, type) and issubclass(policy, Policy):
        raise ValueError(f"{policy.__name__} is a class; give an object of it, {policy.__name__}()")
    if callable(policy) and not isinstance(policy, type):
        return FromFunction(policy)
    raise ValueError(
        f"{policy!r} is no policy; give a text such as 'dynamic', an object of a subclass of oracle.policies.Policy, "
        "or a function stop(signals)"
    )


def parse(text: str, *, run_files: bool = False) -> Policy:
    """The policy that ``text`` names.  Raises ValueError with the legal names or keys.

    ``path/to/file.py:Name:key=value`` names a class or function of a user's own file.  The file is run with
    ``run_files`` only, which is for a text that the user typed, never for one that was read from a trace or from runs.
    """
    text = str(text).strip()
    if own := files.split(text):
        path, name, rest = own
        kind = files.load(path, name, text, run=run_files)
    else:
        name, _, rest = text.partition(":")
        name = name.strip()
        if name.endswith(".py"):
            raise ValueError(f"policy {text!r}: name the class or function too: path/to/file.py:Name:key=value")
        if name == "oracle":
            raise ValueError(
                f"{text!r} exists in simulation only: nobody can run an oracle; legal: {', '.join(POLICIES)}"
            )
        if name not in POLICIES:
            raise ValueError(f"unknown policy {name!r}{suggest(name, POLICIES)}; legal: {', '.join(POLICIES)}")
        kind = POLICIES[name]
    if isinstance(kind, FromFunction):
        return dataclasses.replace(kind, **_values(text, name, rest, {"tokens": kind.tokens}))
    values = _values(text, name, rest, {item.name: item.default for item in dataclasses.fields(kind)})
    try:
        policy = kind(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"policy {text!r}: {error}") from None
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"policy {text!r}: {key}={value} is not a finite number")
    return policy


def recorded(text: str) -> Policy | None:
    """The policy that a text in a record names; None for one of a user's own, which such a text cannot bring back."""
    try:
        return parse(text)
    except ValueError:
        return None


def name_of(policy: str | Policy | Callable) -> str:
    """What results call a policy that a user handed over: its text as given, or the object's own."""
    return policy.strip() if isinstance(policy, str) else str(as_policy(policy))


def by_name(policies: Iterable[str | Policy | Callable]) -> dict[str, str | Policy | Callable]:
    """Policies by what results call them.  Raises ValueError where two different ones have one name."""
    named: dict[str, str | Policy | Callable] = {}
    for policy in policies:
        text = name_of(policy)
        before = named.setdefault(text, policy)
        if before is not policy and before != policy and as_policy(before) != as_policy(policy):
            raise ValueError(f"two policies are called {text!r}; give each function or class a name of its own")
    return named


def suggest(name: str, names: Iterable[str]) -> str:
    """The name that was probably meant, as a remark; empty where none is close."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def summary(name: str) -> str:
    """What a listed policy does, in one line."""
    return str(POLICIES[name].__doc__).strip().splitlines()[0]


def usage(name: str) -> str:
    """A listed policy with its keys and their defaults, as it is written."""
    return str(POLICIES[name]())


def list_policies() -> dict[str, str]:
    """Every listed policy with its keys and defaults as text, and what it does in a sentence."""
    return {usage(name): " ".join((POLICIES[name].__doc__ or "").split("\n\n")[0].split()) for name in POLICIES}


def _values(text: str, name: str, rest: str, fields: dict[str, Any]) -> dict[str, Any]:
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
