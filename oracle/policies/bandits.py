"""Policies that choose among others: each iteration plays one of several arms, and what it earns is remembered.

An iteration earns the tokens that it emits over the time that it takes by the prices at hand, as a share of the most
that any length could earn.  One that has no room for a draft is no play.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, whole
from oracle.policies.counting import Constant
from oracle.policies.in_order import InOrder, Seen
from oracle.policies.prices import MOST, rounds
from oracle.policies.texts import built
from oracle.policies.thresholds import Kangaroo, MaxConfidence, Survival, Svip

# What may be an arm beside a bare length: rules without a memory of their own that send all that they draft.
RULES: dict[str, type[Policy]] = {
    "constant": Constant,
    "max-confidence": MaxConfidence,
    "kangaroo": Kangaroo,
    "svip": Svip,
    "survival": Survival,
}


def arms_of(text: str) -> tuple[Policy, ...]:
    """The rules of "2/4/svip:threshold=0.5+tokens=9": a length or a rule each, its keys joined by "+".

    Raises ValueError for what is none of them.
    """
    pieces = [piece.strip() for piece in text.split("/")]
    if not 2 <= len(pieces) <= 64:
        raise ValueError(f"arms={text!r}: give 2 to 64 lengths or rules, such as 2/4/8 or svip/max-confidence")
    return tuple(_arm(piece) for piece in pieces)


def _arm(text: str) -> Policy:
    name, _, keys = (f"constant:tokens={text}" if text.isascii() and text.isdigit() else text).partition(":")
    if name not in RULES:
        raise ValueError(f"arms: {text!r} is no length and no rule that can be an arm; legal: {', '.join(RULES)}")
    arm = built(RULES[name], text, name, keys.replace("+", ","))
    longest = int(np.max(arm.budget(())))
    if longest > MOST:
        raise ValueError(f"arms: {text!r} drafts {longest} tokens; it must be at most {MOST}")
    return arm


@dataclass(frozen=True)
class _Bandit(Policy):
    """Arms, and what they do."""

    arms: str = "2/4/6/8/12"

    MOST: ClassVar[int] = MOST

    def __post_init__(self) -> None:
        arms_of(self.arms)

    def budget(self, state: Pulls | Losses) -> np.ndarray:
        return self._budgets[state.arm]

    def stop(self, signals: Signals, state: Pulls | Losses) -> np.ndarray | None:
        found = None
        for number, rule in enumerate(self._rules):
            answer = rule.stop(signals, ())
            if answer is not None:
                mine = answer & (state.arm == number)
                found = mine if found is None else found | mine
        return found

    @functools.cached_property
    def _rules(self) -> tuple[Policy, ...]:
        return arms_of(self.arms)

    @functools.cached_property
    def _budgets(self) -> np.ndarray:
        return np.array([int(np.max(rule.budget(()))) for rule in self._rules])

    def _prices(self, cost: Prices | None, lanes: int) -> np.ndarray:
        """Price of an iteration by its length times the most that any could earn, float64 [lanes, longest + 1].

        Tokens over it are an iteration's earnings as a share of the best.
        """
        price = rounds(cost, int(self._budgets.max()))
        best = ((np.arange(len(price)) + 1) / price).max()
        return np.repeat((price * best)[None], lanes, axis=0)


class Pulls(NamedTuple):
    arm: np.ndarray  # int64 [lanes], the one that is played
    pulls: np.ndarray  # int64 [lanes, arms]
    earned: np.ndarray  # float64 [lanes, arms]
    prices: np.ndarray  # float64 [lanes, longest + 1]


@dataclass(frozen=True)
class Ucb(_Bandit):
    """Play the arm of highest mean earnings + sqrt(2 ln t / n), each arm twice at first (BanditSpec, UCB1)."""

    source: ClassVar[str] = "Hou et al. (BanditSpec), arXiv 2505.15141"

    def start(self, lanes: int, cost: Prices | None = None) -> Pulls:
        size = lanes, len(self._rules)
        prices = self._prices(cost, lanes)
        return Pulls(np.zeros(lanes, np.int64), np.zeros(size, np.int64), np.zeros(size), prices)

    def update(self, state: Pulls, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Pulls:
        lane, played = np.arange(len(drafted)), drafted > 0
        pulls, earned = state.pulls.copy(), state.earned.copy()
        pulls[lane, state.arm] += played
        earned[lane, state.arm] += np.where(played, (accepted + 1) / state.prices[lane, drafted], 0.0)
        return Pulls(_highest_bound(pulls, earned), pulls, earned, state.prices)


def _highest_bound(pulls: np.ndarray, earned: np.ndarray) -> np.ndarray:
    """The arm to play next, int64 [lanes]."""
    total, arms = pulls.sum(axis=1), pulls.shape[1]
    count = np.maximum(pulls, 1)
    bound = earned / count + np.sqrt(2 * np.log(np.maximum(total, 1))[:, None] / count)
    return np.where(total < 2 * arms, total % arms, bound.argmax(axis=1))


@dataclass(frozen=True)
class TapOut(Ucb, InOrder):
    """`ucb` over whole stop rules, whose memory lives on to the next prompt (TapOut).

    Its second rule of entropy is that of AdaEDL at the threshold with which that begins.
    """

    source: ClassVar[str] = "Sridhar et al., arXiv 2511.02017"

    arms: str = "max-confidence/svip:tokens=20/svip:tokens=20+threshold=0.6+factor=0.2/survival"

    def first(self, cost: Prices | None) -> Hand:
        size = len(self._rules)
        return Hand(0, [0] * size, [0.0] * size, self._prices(cost, 1)[0].tolist())

    def most(self, numbers: Hand) -> int:
        return self._longest[numbers.arm]

    def rules(self) -> tuple[Policy, ...]:
        return self._rules

    def playing(self, numbers: Hand) -> int:
        return numbers.arm

    def after(self, numbers: Hand, drafted: int, accepted: int, seen: Seen) -> Hand:
        if not drafted:
            return numbers
        arm, pulls, earned, prices = numbers
        pulls[arm] += 1
        earned[arm] += (accepted + 1) / prices[drafted]
        return Hand(_highest_of(pulls, earned), pulls, earned, prices)

    @functools.cached_property
    def _longest(self) -> list[int]:
        return self._budgets.tolist()


class Hand(NamedTuple):
    """`Pulls` of one lane."""

    arm: int
    pulls: list[int]  # [arms]
    earned: list[float]  # [arms]
    prices: list[float]  # [longest + 1]


def _highest_of(pulls: list[int], earned: list[float]) -> int:
    """`_highest_bound` of one lane."""
    total = sum(pulls)
    if total < 2 * len(pulls):
        return total % len(pulls)
    wide = _twice_log(total >> 10)[total & 1023]
    best, highest, arm, root = 0, -1.0, 0, math.sqrt
    for gain, count in zip(earned, pulls, strict=True):  # a list of them all and its index take twice as long
        bound = gain / count + root(wide / count)
        if bound > highest:
            best, highest = arm, bound
        arm += 1
    return best


@functools.lru_cache(maxsize=64)
def _twice_log(block: int) -> list[float]:
    """2 ln t for the 1,024 whole numbers t of a ``block``: the logarithm in arrays may end in another bit."""
    return (2 * np.log(np.maximum(np.arange(1024) + 1024 * block, 1))).tolist()


class Losses(NamedTuple):
    arm: np.ndarray  # int64 [lanes], the one that is played
    chance: np.ndarray  # float64 [lanes], with which it was drawn
    losses: np.ndarray  # float64 [lanes, arms], estimates of what each arm would have lost so far
    turn: np.ndarray  # int64 [lanes], plays so far
    prices: np.ndarray  # float64 [lanes, longest + 1]


@dataclass(frozen=True)
class Exp3(_Bandit):
    """Draw the arm by exp(-rate * estimated losses), rate = sqrt(ln arms / (arms * t)) (BanditSpec, EXP3).

    A draw is a function of ``seed`` and the number of plays in the prompt so far, so a run can be repeated.
    """

    source: ClassVar[str] = "Hou et al. (BanditSpec), arXiv 2505.15141"

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("seed", self.seed, 0)

    def start(self, lanes: int, cost: Prices | None = None) -> Losses:
        losses, turn = np.zeros((lanes, len(self._rules))), np.zeros(lanes, np.int64)
        return self._drawn(losses, turn, self._prices(cost, lanes))

    def update(self, state: Losses, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Losses:
        lane, played = np.arange(len(drafted)), drafted > 0
        lost = np.maximum(1 - (accepted + 1) / state.prices[lane, drafted], 0.0)
        losses = state.losses.copy()
        losses[lane, state.arm] += np.where(played, lost / state.chance, 0.0)
        return self._drawn(losses, state.turn + played, state.prices)

    def _drawn(self, losses: np.ndarray, turn: np.ndarray, prices: np.ndarray) -> Losses:
        arms = losses.shape[1]
        rate = np.sqrt(np.log(arms) / (arms * (turn + 1)))
        weight = np.exp(-rate[:, None] * (losses - losses.min(axis=1, keepdims=True)))
        reached = np.cumsum(weight, axis=1)
        arm = (reached <= (uniform(self.seed, turn) * reached[:, -1])[:, None]).sum(axis=1)
        arm = np.minimum(arm, arms - 1)
        chance = weight[np.arange(len(turn)), arm] / reached[:, -1]
        return Losses(arm, chance, losses, turn, prices)


def uniform(seed: int, turn: np.ndarray) -> np.ndarray:
    """A number from [0, 1) for each ``turn`` (int64), the same wherever it is asked for (SplitMix64)."""
    mixed = (turn.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        seed * 0xD1342543DE82EF95 % 2**64
    )
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
