"""A lookahead that is drawn anew for every iteration: what prices are fitted on."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, State, whole


class Drawn(NamedTuple):
    count: np.ndarray  # int64 [lanes], lookaheads drawn so far, over all prompts


@dataclass(frozen=True)
class Random(Policy):
    """1 to ``tokens``, drawn anew for each iteration, each length equally often: what prices are fitted on.

    The lengths come in blocks, each a permutation of them all that ``seed`` and the block's number alone decide; a
    prompt goes on where the last one ended.  So the run can be replayed exactly, and the order of prompts matters.
    """

    MOST: ClassVar[int] = 1000  # tokens: every length up to it is drawn, and all are ordered at once

    tokens: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        whole("tokens", self.tokens, 1, self.MOST)
        whole("seed", self.seed, 0)

    def start(self, lanes: int, cost: Prices | None = None) -> Drawn:
        return Drawn(np.zeros(lanes, np.int64))

    def budget(self, state: Drawn) -> np.ndarray:
        return np.array([self.lookahead(count) for count in state.count.tolist()], dtype=np.int64)

    def update(self, state: Drawn, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Drawn:
        return Drawn(state.count + 1)

    def next_prompt(self, state: State) -> State:
        return state

    def lookahead(self, number: int) -> int:
        """The length that is drawn after ``number`` others."""
        block, place = divmod(number, self.tokens)
        return _permutation(self.tokens, self.seed, block)[place]


@functools.lru_cache(maxsize=1024)
def _permutation(tokens: int, seed: int, block: int) -> tuple[int, ...]:
    """1 to ``tokens`` in the order of their digests: unlike a generator's stream it is the same in every version."""

    def digest(length: int) -> bytes:
        return hashlib.blake2b(f"{seed} {block} {length}".encode(), digest_size=8).digest()

    return tuple(sorted(range(1, tokens + 1), key=digest))
