"""Every policy by name, and policies as text: ``name`` or ``name:key=value,key=value``.

To add a policy, write a small class beside its like and list it in `POLICIES`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable

from oracle.policies import files
from oracle.policies.bandits import Exp3, TapOut, Ucb
from oracle.policies.contract import NAMES, Policy
from oracle.policies.counting import (
    Constant,
    Ema,
    Heuristic,
    HeuristicTransient,
    HeuristicTransientWhole,
    HeuristicWhole,
    Plain,
    Staircase,
)
from oracle.policies.drawn import Random
from oracle.policies.files import FromFunction
from oracle.policies.gains import ExpectedGain
from oracle.policies.learning import AdaEDL, Roc, RocFallback, RocNextCall
from oracle.policies.texts import built, values_of
from oracle.policies.thresholds import Dynamic, Kangaroo, MaxConfidence, PMin, Survival, Svip
from oracle.policies.trained import Disco, Margin, SpecDecPP

POLICIES: dict[str, type[Policy]] = {
    "none": Plain,
    "constant": Constant,
    "heuristic": Heuristic,
    "heuristic_transient": HeuristicTransient,
    "heuristic-4.46": HeuristicWhole,
    "heuristic_transient-4.46": HeuristicTransientWhole,
    "dynamic": Dynamic,
    "roc": Roc,
    "roc-4.49": RocNextCall,
    "roc-4.57": RocFallback,
    "max-confidence": MaxConfidence,
    "kangaroo": Kangaroo,
    "svip": Svip,
    "survival": Survival,
    "disco": Disco,
    "specdec++": SpecDecPP,
    "expected-gain": ExpectedGain,
    "margin": Margin,
    "adaedl": AdaEDL,
    "p-min": PMin,
    "staircase": Staircase,
    "ema": Ema,
    "ucb": Ucb,
    "exp3": Exp3,
    "tapout": TapOut,
    "random": Random,
}
NAMES.update((kind, name) for name, kind in POLICIES.items())
# What is compared where no policy is named.
USUAL_LOOKED_UP = ("constant:tokens=5", "constant:tokens=10")  # what the library can do where tokens are looked up
USUAL = ("constant:tokens=5", "heuristic", "dynamic", "oracle:detect", "oracle:clairvoyant", "oracle:optimal")


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
        return dataclasses.replace(kind, **values_of(text, name, rest, {"tokens": kind.tokens}))
    return built(kind, text, name, rest)


def recorded(text: str) -> Policy | None:
    """The policy that a text in a record names; None for one of a user's own, which such a text cannot bring back.

    Nor does it open a file that the text names: a record comes from anywhere.
    """
    try:
        return None if _names_a_file(text) else parse(text)
    except ValueError:
        return None


def _names_a_file(text: str) -> bool:
    """Whether a policy's text has a key that is a file to read."""
    keys = text.partition(":")[2].split(",")
    return any(key.strip() == "file" and value.strip() for key, _, value in (each.partition("=") for each in keys))


def name_of(policy: str | Policy | Callable) -> str:
    """What results call a policy that a user handed over: its text as given, or the object's own."""
    return policy.strip() if isinstance(policy, str) else str(as_policy(policy))


def taken_in_sample(text: str) -> str:
    """The text of a policy that is to be judged on the prompts of its training too; any other text as it is."""
    if text.strip().startswith("oracle:") or not as_policy(text).trained_on():
        return text
    return f"{text.strip()},in_sample=True"


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
