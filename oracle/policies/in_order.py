"""Policies whose memory lives on from prompt to prompt, in plain numbers: one draft at a time.

Of these only one lane is ever walked, and an array operation on one lane takes a microsecond whatever it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, State, overrides, rebuilt

Numbers = tuple[Any, ...]  # the fields of one lane of a state: Python numbers, or lists of them
Seen = tuple[Sequence[float], ...]  # what a policy made of a draft's tokens: a number of each, one or several times


@dataclass(frozen=True)
class InOrder(Policy):
    """A policy of one lane.  What it is in arrays, the definition that a real run goes by, is made from that here.

    A draft ends by one of three: nothing but `most`, one of the fixed `rules`, or `look`.  All methods are pure, but
    that `after` may change the lists in what it is given and hand them on: its caller has no more use for them.
    A subclass may bring arrays of its own as well (`TapOut` has those of `Ucb`); tests hold both to the same rows.
    """

    signal: ClassVar[str] = ""  # the one that `look` is given; empty: nobody looks

    def first(self, cost: Prices | None) -> Numbers:
        """Before the first iteration of all, see `Policy.start`."""
        raise NotImplementedError(f"{type(self).__name__} has no first")

    def most(self, numbers: Numbers) -> int:
        """Most tokens to draft in this iteration, not negative."""
        return 0

    def rules(self) -> tuple[Policy, ...]:
        """Rules without a memory of their own, of which every iteration plays one."""
        return ()

    def playing(self, numbers: Numbers) -> int:
        """Which of `rules` ends this iteration's draft."""
        return 0

    def look(self, numbers: Numbers, values: Sequence[float]) -> tuple[int, Seen]:
        """Tokens up to and with the first that ends a draft whose `signal` has these values; 0 where none does.

        And what `after` shall know of the tokens up to there.
        """
        return 0, ()

    def after(self, numbers: Numbers, drafted: int, accepted: int, seen: Seen) -> Numbers:
        """After an iteration in which `look` has ``seen`` at least all the ``drafted`` tokens."""
        return numbers

    def start(self, lanes: int, cost: Prices | None = None) -> State:
        return _arrays([self.first(cost)] * lanes)

    def budget(self, state: State) -> np.ndarray:
        return np.array([self.most(numbers) for numbers in numbers_of(state)])

    def update(self, state: State, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> State:
        lanes = zip(numbers_of(state), drafted.tolist(), accepted.tolist(), self.values(signals), strict=True)
        return _arrays([self._after(*lane) for lane in lanes])

    def next_prompt(self, state: State) -> State:
        return state

    def _after(self, numbers: Numbers, drafted: int, accepted: int, values: Sequence[float]) -> Numbers:
        return self.after(numbers, drafted, accepted, self.look(numbers, values)[1])

    def values(self, signals: Signals) -> list[list[float]]:
        """Of the `signal`, a list a lane."""
        return getattr(signals, self.signal).tolist() if self.signal else [[]] * signals.shape[0]


def in_numbers(policy: InOrder) -> bool:
    """Whether a policy may be walked in plain numbers: not where a subclass changed what it is in arrays alone."""
    if type(policy).next_prompt is not InOrder.next_prompt or overrides(policy, "send"):
        return False
    same = [("first", "start"), ("most", "budget"), ("after", "update")]
    if overrides(policy, "stop"):
        same.append(("playing" if policy.rules() else "look", "stop"))
    return all(_depth(policy, numbers) <= _depth(policy, arrays) for numbers, arrays in same)


def _depth(policy: Policy, method: str) -> int:
    """How far up among a policy's classes the one stands whose ``method`` it has."""
    return next(at for at, kind in enumerate(type(policy).__mro__) if method in vars(kind))


def numbers_of(state: State) -> list[Numbers]:
    """The lanes of a state in arrays, one by one."""
    return [rebuilt(state, fields) for fields in zip(*(field.tolist() for field in state), strict=True)]


def _arrays(lanes: Sequence[Numbers]) -> State:
    return rebuilt(lanes[0], map(np.array, zip(*lanes, strict=True)))
