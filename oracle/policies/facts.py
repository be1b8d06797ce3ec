"""What is to be known of a listed policy, asked of its class and of the policy itself."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from oracle.policies.contract import SIGNALS, Policy, Signals, ask, overrides, stops_at
from oracle.policies.names import POLICIES, usage
from oracle.policies.prices import Textbook

TOP, OUTCOMES, PRICES = "largest probabilities", "outcomes", "prices"


@dataclass(frozen=True)
class Facts:
    """One listed policy."""

    name: str
    usage: str  # with its keys and their defaults, as it is written
    defaults: dict[str, Any]
    rule: str
    more: str  # what else its class says; may be empty
    reads: tuple[str, ...]  # signals, `TOP`, `OUTCOMES`, `PRICES`; by its defaults
    carries_over: bool  # its memory lives on to the next prompt
    found_in: tuple[str, ...]  # programmes that have it
    source: str | None  # paper or programme; None: the toolkit's own


def facts(name: str) -> Facts:
    """Of the policy listed under ``name``."""
    kind = POLICIES[name]
    policy = kind()
    rule, _, more = str(kind.__doc__).strip().partition("\n\n")
    own = vars(kind)  # what a class does not say of itself is not true of it because its base says so
    return Facts(
        name=name,
        usage=usage(name),
        defaults={item.name: getattr(policy, item.name) for item in dataclasses.fields(policy)},
        rule=" ".join(rule.split()),
        more="\n\n".join(" ".join(part.split()) for part in more.split("\n\n")).strip(),
        reads=reads(policy),
        carries_over=overrides(policy, "next_prompt"),
        found_in=own.get("found_in", ()),
        source=own.get("source"),
    )


def reads(policy: Policy) -> tuple[str, ...]:
    """What a policy looks at, found by watching it draft three tokens and learn that two were accepted."""
    seen: set[str] = set()

    def value(name: str) -> np.ndarray:
        seen.add(name)
        return np.full((1, 3), 0.5, np.float32)

    def top(k: int) -> np.ndarray:
        seen.add(TOP)
        return np.full((1, 3, k), 0.5, np.float32)

    state = ask(policy, "start", 1, _Watched(seen))
    stops_at(policy, Signals((1, 3), value, top), state)
    if overrides(policy, "update"):
        seen.add(OUTCOMES)
        ask(policy, "update", state, np.array([3]), np.array([2]), Signals((1, 3), value, top))
    return tuple(name for name in (*SIGNALS, TOP, OUTCOMES, PRICES) if name in seen)


class _Watched(Textbook):
    """Prices that note that they are asked for."""

    def __init__(self, seen: set[str]) -> None:
        self._seen = seen

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            self._seen.add(PRICES)
        return super().__getattribute__(name)
