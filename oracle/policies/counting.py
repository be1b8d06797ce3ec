"""Policies that count: the next length depends on the outcomes so far.  Each may have a threshold beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, State
from oracle.policies.thresholds import Below


@dataclass(frozen=True)
class Plain(Policy):
    """No draft at all: the target decodes alone."""


@dataclass(frozen=True)
class Constant(Below):
    """Draft ``tokens`` every time (transformers before 4.45, gpt-fast).  A threshold makes it `dynamic`."""

    tokens: int = 5
    threshold: float = 0.0


class Length(NamedTuple):
    tokens: np.ndarray  # int64 [lanes], the next budget


@dataclass(frozen=True)
class HeuristicTransient(Below):
    """``tokens`` + 2 after a draft that was accepted whole, else max(1, ``tokens`` - 1); anew for each prompt."""

    tokens: int = 5
    threshold: float = 0.0

    def start(self, lanes: int, cost: Prices | None = None) -> Length:
        return Length(np.full(lanes, self.tokens))

    def budget(self, state: Length) -> np.ndarray:
        return state.tokens

    def update(self, state: Length, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Length:
        whole = accepted == drafted
        return Length(np.maximum(1, state.tokens - 1 + 3 * whole))  # sums are quicker than a choice a lane


@dataclass(frozen=True)
class Heuristic(HeuristicTransient):
    """The same, but the next prompt starts with the last one's value: the order of prompts matters."""

    def next_prompt(self, state: State) -> State:
        return state


class Stair(NamedTuple):
    size: np.ndarray  # int64 [lanes], index of the length
    wins: np.ndarray  # int64 [lanes], drafts in a row that were accepted whole at that length


_SIZES = np.array([3, 4, 6, 8, 12, 16, 24, 32, 48])
_WINS = np.array([2, 2, 4, 10, 6, 4, 3, 2, 2])  # to climb from each of them


@dataclass(frozen=True)
class Staircase(Policy):
    """Lengths 3, 4, 6, 8, 12, 16, 24, 32, 48: up after some drafts accepted whole, down after any other (llama.cpp)."""

    def start(self, lanes: int, cost: Prices | None = None) -> Stair:
        return Stair(np.zeros(lanes, np.int64), np.zeros(lanes, np.int64))

    def budget(self, state: Stair) -> np.ndarray:
        return _SIZES[state.size]

    def update(self, state: Stair, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Stair:
        won = accepted == drafted
        wins = np.where(won, state.wins + 1, 0)
        climbs = wins >= _WINS[state.size]
        size = np.where(won, state.size + climbs, state.size - 1)
        return Stair(np.clip(size, 0, len(_SIZES) - 1), np.where(climbs, 0, wins))
