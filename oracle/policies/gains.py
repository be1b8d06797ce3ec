"""Policies that go on drafting while the next token is expected to pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals
from oracle.policies.prices import MOST, check_few, rounds


class Growth(NamedTuple):
    growth: np.ndarray  # float64 [lanes, tokens + 1], price of one token more over the price of an iteration so far


def growth(cost: Prices | None, tokens: int, lanes: int) -> np.ndarray:
    """`Growth.growth`, for iterations of 0 to ``tokens`` drafted tokens."""
    price = rounds(cost, tokens + 1)
    return np.repeat((np.diff(price) / price[:-1])[None], lanes, axis=0)


def pays_no_more(acceptance: np.ndarray, growth: np.ndarray, following: np.ndarray | float = 1.0) -> np.ndarray:
    """Whether a draft had better end after a token, bool [lanes, width].

    ``acceptance`` (float64 [lanes, width]) is the probability of each token where those before it were accepted.  With
    S_k their product, an iteration of k tokens emits E_k = 1 + S_1 + ... + S_k.  One token more is accepted with S_k
    times its chance after them, ``following`` (float64 like ``acceptance``; 1: S_k at most), and pays where that over
    E_k is above the share by which it makes the iteration dearer.
    """
    survival = np.cumprod(acceptance, axis=1, dtype=np.float64)
    expected = 1 + np.cumsum(survival, axis=1)
    return survival * following <= expected * growth[:, 1 : acceptance.shape[1] + 1]


def worth_drafting(tokens: int, growth: np.ndarray) -> np.ndarray:
    """``tokens``, or 0 where one draft token costs more than the step that it can save; int64 [lanes]."""
    return np.where(growth[:, 0] < 1, tokens, 0)


@dataclass(frozen=True)
class ExpectedGain(Policy):
    """Stop where another token is not worth its price, taking the draft's confidence for the chance of acceptance."""

    tokens: int = 20

    MOST: ClassVar[int] = MOST

    def __post_init__(self) -> None:
        check_few("tokens", self.tokens)

    def start(self, lanes: int, cost: Prices | None = None) -> Growth:
        return Growth(growth(cost, self.tokens, lanes))

    def budget(self, state: Growth) -> np.ndarray:
        return worth_drafting(self.tokens, state.growth)

    def stop(self, signals: Signals, state: Growth) -> np.ndarray:
        return pays_no_more(signals.confidence.astype(np.float64), state.growth)
