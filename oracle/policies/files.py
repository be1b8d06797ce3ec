"""A policy of the user's own: a class or a function ``stop(signals)`` in a Python file, or a function at hand.

``path/to/file.py:Name`` names it.  To use it is to run that file, so it is run only where the user typed its name.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np

from oracle.policies.contract import NAMES, Policy, Signals, State, whole

_OWN = re.compile(r"(?P<path>.+\.py):(?P<name>[^:]*)(?::(?P<rest>.*))?", re.DOTALL)
_FILES: dict[Path, ModuleType] = {}  # each is run once, so that one name stays one class


@dataclass(frozen=True)
class FromFunction(Policy):
    """At most ``tokens``, and none after one where ``function(signals)``, bool [lanes, width], says so."""

    function: Callable[[Signals], np.ndarray | None]
    tokens: int = 20
    name: str = ""  # as a user would write it; default: the function's own

    def __post_init__(self) -> None:
        whole("tokens", self.tokens, 1)

    def budget(self, state: State) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: State) -> np.ndarray | None:
        return self.function(signals)

    def __str__(self) -> str:
        name = self.name or getattr(self.function, "__name__", type(self.function).__name__)
        return f"{name}:tokens={self.tokens}"


def split(text: str) -> tuple[str, str, str] | None:
    """(path, name, keys) of a text that names a policy in a file, else None."""
    found = _OWN.fullmatch(text)
    return found and (found["path"].strip(), found["name"].strip(), found["rest"] or "")


def load(path: str, name: str, text: str, *, run: bool) -> type[Policy] | FromFunction:
    """The class or function ``name`` of the file ``path``; ``text`` is the policy as it was written, for messages.

    Raises ValueError where the file has not been run yet and ``run`` is false, where it cannot be run, or where it has
    no such policy.
    """
    file = Path(path).resolve()
    if file not in _FILES:
        if not run:
            raise ValueError(
                f"policy {text!r} is in a file of its own, which is run only where you name it; "
                f"give --policy {path}:{name} if you trust {path}"
            )
        _FILES[file] = _run(file, path)
    found = getattr(_FILES[file], name, None)
    spec = f"{path}:{name}"
    if isinstance(found, type) and issubclass(found, Policy) and found.__module__ == _FILES[file].__name__:
        NAMES.setdefault(found, spec)
        return found
    if callable(found) and not isinstance(found, type):
        return FromFunction(cast(Callable[[Signals], Any], found), name=spec)
    own = [
        key for key, value in vars(_FILES[file]).items() if getattr(value, "__module__", "") == _FILES[file].__name__
    ]
    what = "has no" if found is None else "has under that name no policy: no"
    raise ValueError(
        f"policy {text!r}: {path} {what} class of oracle.policies.Policy or function stop(signals) called {name!r}; "
        f"it has {', '.join(own) or 'nothing of its own'}"
    )


def _run(file: Path, path: str) -> ModuleType:
    if not file.is_file():
        raise ValueError(f"{path}: no such file; a policy of your own is written path/to/file.py:Name:key=value")
    spec = importlib.util.spec_from_file_location(f"policies of {file}", file)
    assert spec is not None and spec.loader is not None  # a name that ends in .py always has a loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file may raise is said with its name
        del sys.modules[spec.name]
        raise ValueError(f"{path}: running this file of policies failed: {type(error).__name__}: {error}") from error
    return module
