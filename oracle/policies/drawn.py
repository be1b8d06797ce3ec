"""A lookahead that is drawn anew for every iteration: what prices are fitted on."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from oracle.policies.contract import Prices, whole
from oracle.policies.in_order import InOrder, Seen


class Drawn(NamedTuple):
    count: int  # lookaheads drawn so far, over all prompts


@dataclass(frozen=True)
class Random(InOrder):
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

    def first(self, cost: Prices | None) -> Drawn:
        return Drawn(0)

    def most(self, numbers: Drawn) -> int:
        return self.lookahead(numbers.count)

    def after(self, numbers: Drawn, drafted: int, accepted: int, seen: Seen) -> Drawn:
        return Drawn(numbers.count + 1)

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
