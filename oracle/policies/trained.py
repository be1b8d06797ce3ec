"""Policies that predict acceptance with what was learned from a recorded trace, if a file of that is given.

With a file they are refused on the prompts of the training: a rule looks better there than it is.  ``in_sample=True``
takes them all the same, and stands in the policy's text wherever its results do.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from math import tanh
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, State, share, whole
from oracle.policies.gains import growth
from oracle.policies.heads import Acceptance, Head, Lines, load_head
from oracle.policies.in_order import InOrder, Seen, numbers_of
from oracle.policies.prices import MOST, check_few
from oracle.policies.thresholds import check_tokens


@dataclass(frozen=True)
class SpecDecPP(Policy):
    """Stop once a refusal is more likely than ``threshold``: 1 - the product of chances of acceptance (SpecDec++).

    Drafts ``least`` to ``tokens`` tokens.  The chances are those of a head that `oracle train` fitted (``file``), or
    the draft's confidences.
    """

    source: ClassVar[str] = "Huang et al., arXiv 2405.19715"

    tokens: int = 20
    threshold: float = 0.7
    least: int = 2
    file: str = ""
    in_sample: bool = False

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        share("threshold", self.threshold)
        whole("least", self.least, 1)
        _ = self._head  # a file that will not do is refused where it is named

    def budget(self, state: State) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: State) -> np.ndarray:
        head = self._head
        chance = signals.confidence if head is None else cast(Acceptance, head.learned).chance(signals)
        refused = 1 - np.cumprod(chance, axis=1, dtype=np.float64)
        return (refused > self.threshold) & (np.arange(1, refused.shape[1] + 1) >= self.least)

    def trained_on(self) -> frozenset[str]:
        return _prompts(self._head, self.in_sample)

    @functools.cached_property
    def _head(self) -> Head | None:
        return load_head(self.file, "specdec++") if self.file else None


@dataclass(frozen=True)
class Disco(Policy):
    """Stop after a token whose score is below ``threshold``, at most ``tokens`` (DISCO).

    The score is that of a network on the draft's largest probabilities, the entropy and the place in the draft, which
    `oracle train` fits (``file``) to a trace that was collected with --top-k.  Without one it is the confidence.
    """

    source: ClassVar[str] = "Mamou et al., arXiv 2405.04304"

    tokens: int = 20
    threshold: float = 0.5
    file: str = ""
    in_sample: bool = False

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        share("threshold", self.threshold)
        _ = self._head

    def budget(self, state: State) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: State) -> np.ndarray:
        head = self._head
        score = signals.confidence if head is None else cast(Acceptance, head.learned).chance_by_top(signals)
        return score < np.float64(self.threshold)

    def trained_on(self) -> frozenset[str]:
        return _prompts(self._head, self.in_sample)

    @functools.cached_property
    def _head(self) -> Head | None:
        return load_head(self.file, "disco") if self.file else None


class Online(NamedTuple):
    growth: list[float]  # [tokens + 1], see `oracle.policies.gains.Growth`
    slope: list[float]  # [tokens]
    base: list[float]  # [tokens]
    count: int  # iterations so far


@dataclass(frozen=True)
class Margin(InOrder):
    """`expected-gain` whose chance of acceptance is learned from margins as it goes (vLLM adaptive verification).

    Token k is accepted with sigma(slope_k * margin + base_k), fitted as it goes by gradient steps of ``rate`` on the
    log-likelihood of every token whose fate is known.  The first ``warmup`` iterations draft all ``tokens``, unless it
    begins with what `oracle train` fitted (``file``).  What was learned lives on, as it does in a server: the order of
    prompts matters.
    """

    source: ClassVar[str] = "vLLM, adaptive verification"
    found_in: ClassVar[tuple[str, ...]] = ("vLLM",)

    tokens: int = 7
    warmup: int = 100
    rate: float = 0.1
    file: str = ""
    in_sample: bool = False

    MOST: ClassVar[int] = MOST
    signal: ClassVar[str] = "margin"

    def __post_init__(self) -> None:
        check_few("tokens", self.tokens)
        whole("warmup", self.warmup, 0)
        share("rate", self.rate)
        lines = self._lines
        if lines is not None and len(lines.slope) < self.tokens:
            raise ValueError(
                f"tokens={self.tokens}: {self.file} was fitted for {len(lines.slope)}; "
                f"lower tokens, or train it with --tokens {self.tokens}"
            )

    def first(self, cost: Prices | None) -> Online:
        prices, learned = growth(cost, self.tokens, 1)[0].tolist(), self._lines
        if learned is None:
            return Online(prices, [0.0] * self.tokens, [0.0] * self.tokens, 0)
        slope, base = (line[: self.tokens].astype(float).tolist() for line in (learned.slope, learned.base))
        return Online(prices, slope, base, self.warmup)

    def most(self, numbers: Online) -> int:
        return self.tokens if numbers.growth[0] < 1 else 0

    def look(self, numbers: Online, values: Sequence[float]) -> tuple[int, Seen]:
        """As `oracle.policies.gains.pays_no_more` has it, token by token up to the first that ends the draft.

        What is seen of each token: its margin, and how much of its chance lies above one half, twice.
        """
        growth, slopes, bases, count = numbers
        if count < self.warmup:
            return 0, (values, [tanh(0.5 * (s * m + b)) for s, b, m in zip(slopes, bases, values, strict=False)])
        above: list[float] = []
        survival, expected = 1.0, 1.0
        for margin, slope, base, grows in zip(values, slopes, bases, growth[1:], strict=False):
            more = tanh(0.5 * (slope * margin + base))
            above.append(more)
            survival *= 0.5 + 0.5 * more  # sigma, with no power that overflows
            expected += survival
            if survival <= expected * grows:
                return len(above), (values, above)
        return 0, (values, above)

    def after(self, numbers: Online, drafted: int, accepted: int, seen: Seen) -> Online:
        if not drafted:
            return numbers
        growth, slope, base, count = numbers
        margins, above = seen
        rate = 0.5 * self.rate  # for a step towards 1 or 0 that is counted twice
        for k in range(accepted):
            step = rate * (1.0 - above[k])
            slope[k] += step * margins[k]
            base[k] += step
        if accepted < drafted:  # after the first rejection nothing is known
            step = rate * (1.0 + above[accepted])
            slope[accepted] -= step * margins[accepted]
            base[accepted] -= step
        return Online(growth, slope, base, count + 1)

    def stop(self, signals: Signals, state: Any) -> np.ndarray:
        lanes = numbers_of(state._replace(count=np.ravel(state.count)))
        stops = np.zeros(signals.shape, bool)
        for row, numbers, values in zip(stops, lanes, self.values(signals), strict=True):
            if first := self.look(cast(Online, numbers), values)[0]:
                row[first - 1] = True
        return stops

    def trained_on(self) -> frozenset[str]:
        return _prompts(self._head, self.in_sample)

    @property
    def _lines(self) -> Lines | None:
        return None if self._head is None else cast(Lines, self._head.learned)

    @functools.cached_property
    def _head(self) -> Head | None:
        return load_head(self.file, "margin") if self.file else None


def _prompts(head: Head | None, in_sample: bool) -> frozenset[str]:
    return frozenset() if head is None or in_sample else head.prompts
