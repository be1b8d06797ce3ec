"""Policies that count: the next length depends on the outcomes so far.  Each may have a threshold beside."""

from __future__ import annotations

import functools
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, State, share, whole
from oracle.policies.in_order import InOrder, Seen
from oracle.policies.thresholds import Below


@dataclass(frozen=True)
class Plain(Policy):
    """No draft at all: the target decodes alone."""

    found_in: ClassVar[tuple[str, ...]] = ("transformers", "vLLM", "SGLang", "llama.cpp")


@dataclass(frozen=True)
class Constant(Below):
    """Draft ``tokens`` every time (transformers before 4.45, gpt-fast).  A threshold makes it `dynamic`."""

    source: ClassVar[str] = "Leviathan et al., arXiv 2211.17192"
    found_in: ClassVar[tuple[str, ...]] = ("transformers", "vLLM", "SGLang", "llama.cpp")

    tokens: int = 5
    threshold: float = 0.0


class Length(NamedTuple):
    tokens: np.ndarray  # int64 [lanes], the next budget


@dataclass(frozen=True)
class HeuristicTransient(Below):
    """``tokens`` + 2 after a draft that was accepted whole, else max(1, ``tokens`` - 1); anew for each prompt."""

    source: ClassVar[str] = "Transformers, schedule heuristic_transient"
    found_in: ClassVar[tuple[str, ...]] = ("transformers",)

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
    """`heuristic_transient` whose last value is the first of the next prompt: the order of prompts matters."""

    source: ClassVar[str] = "Transformers, schedule heuristic"
    found_in: ClassVar[tuple[str, ...]] = ("transformers",)

    def next_prompt(self, state: State) -> State:
        return state


@dataclass(frozen=True)
class HeuristicWhole(Heuristic):
    """`heuristic` where a draft that stopped before its budget counts as refused (transformers up to 4.46)."""

    source: ClassVar[str] = "Transformers up to 4.46, schedule heuristic"
    found_in: ClassVar[tuple[str, ...]] = ("transformers up to 4.46",)

    def update(self, state: Length, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Length:
        return _grown_by_budget(state, accepted)


@dataclass(frozen=True)
class HeuristicTransientWhole(HeuristicTransient):
    """`heuristic_transient` where a draft that stopped before its budget counts as refused (up to 4.46)."""

    source: ClassVar[str] = "Transformers up to 4.46, schedule heuristic_transient"
    found_in: ClassVar[tuple[str, ...]] = ("transformers up to 4.46",)

    def update(self, state: Length, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Length:
        return _grown_by_budget(state, accepted)


def _grown_by_budget(state: Length, accepted: np.ndarray) -> Length:
    return Length(np.maximum(1, state.tokens - 1 + 3 * (accepted == state.tokens)))


class Stair(NamedTuple):
    size: np.ndarray  # int64 [lanes], index of the length
    wins: np.ndarray  # int64 [lanes], drafts in a row that were accepted whole at that length


_SIZES = np.array([3, 4, 6, 8, 12, 16, 24, 32, 48])
_WINS = np.array([2, 2, 4, 10, 6, 4, 3, 2, 2])  # to climb from each of them


@dataclass(frozen=True)
class Staircase(Policy):
    """Lengths 3, 4, 6, 8, 12, 16, 24, 32, 48: up after some drafts accepted whole, down after any other (llama.cpp)."""

    source: ClassVar[str] = "llama.cpp, adaptive draft lengths"
    found_in: ClassVar[tuple[str, ...]] = ("llama.cpp",)

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


class Average(NamedTuple):
    size: int  # index of the length
    mean: float  # moving average of accepted tokens
    count: int  # iterations so far


@dataclass(frozen=True)
class Ema(InOrder):
    """The length of ``sizes`` that suits a moving average of accepted tokens, on to the next prompt (SGLang adaptive).

    After ``warmup`` iterations, and every ``every`` from then on: down while the average is at most the next shorter
    length - 0.5 - ``down``, then up while it is above the length - 0.5.  It begins with the middle length, and with an
    average one below it.  A server's average lives as long as the server, so the order of prompts matters.
    """

    source: ClassVar[str] = "SGLang, adaptive speculative steps"
    found_in: ClassVar[tuple[str, ...]] = ("SGLang",)

    sizes: str = "1/3/5/7"
    rate: float = 0.2
    warmup: int = 10
    every: int = 5
    down: float = 0.25

    def __post_init__(self) -> None:
        numbers = _sizes_of(self.sizes)
        if list(numbers) != sorted(set(numbers)):
            raise ValueError(f"sizes={self.sizes}: each length must be above the one before it")
        share("rate", self.rate)
        whole("warmup", self.warmup, 0)
        whole("every", self.every, 1)
        share("down", self.down)

    def first(self, cost: Prices | None) -> Average:
        middle = len(self._lengths) // 2
        return Average(middle, float(self._lengths[middle] - 1), 0)

    def most(self, numbers: Average) -> int:
        return self._lengths[numbers.size]

    def after(self, numbers: Average, drafted: int, accepted: int, seen: Seen) -> Average:
        if not drafted:  # a server drafts in every iteration: one without room for it is none
            return numbers
        size, mean, count = numbers
        mean, count = (1 - self.rate) * mean + self.rate * accepted, count + 1
        if count > self.warmup and (count - self.warmup) % self.every == 0:
            # Lengths increase, so stepping while a bound holds is to count the bounds that the average is above.
            down, up = self._bounds
            size = max(min(size, bisect_left(down, mean)), bisect_left(up, mean))
        return Average(size, mean, count)

    @functools.cached_property
    def _lengths(self) -> tuple[int, ...]:
        return _sizes_of(self.sizes)

    @functools.cached_property
    def _bounds(self) -> tuple[list[float], list[float]]:
        """Averages at most which to go down, and above which to go up, to and from all lengths but the last."""
        up = [length - 0.5 for length in self._lengths[:-1]]
        return [bound - self.down for bound in up], up


def _sizes_of(text: str) -> tuple[int, ...]:
    """The lengths of "1/3/5".  Raises ValueError for what is none."""
    pieces = text.split("/")
    if not all(piece.isascii() and piece.isdigit() and 0 < len(piece) < 10 and int(piece) > 0 for piece in pieces):
        raise ValueError(f"sizes={text!r}: must be lengths from 1 on, such as 1/3/5/7")
    return tuple(map(int, pieces))
