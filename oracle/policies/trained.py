"""Policies that predict acceptance with what was learned from a recorded trace, if a file of that is given.

With a file they are refused on the prompts of the training: a rule looks better there than it is.  ``in_sample=True``
takes them all the same, and stands in the policy's text wherever its results do.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np

from oracle.policies.contract import Policy, Prices, Signals, State, share, whole
from oracle.policies.gains import growth, pays_no_more, worth_drafting
from oracle.policies.heads import Acceptance, Head, Lines, load_head
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
    growth: np.ndarray  # see `oracle.policies.gains.Growth`
    slope: np.ndarray  # float64 [lanes, tokens]
    base: np.ndarray  # float64 [lanes, tokens]
    count: np.ndarray  # int64 [lanes], iterations so far


@dataclass(frozen=True)
class Margin(Policy):
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

    def start(self, lanes: int, cost: Prices | None = None) -> Online:
        shape, learned = (lanes, self.tokens), self._lines
        slope, base = np.zeros(shape), np.zeros(shape)
        if learned is not None:
            slope += learned.slope[: self.tokens]
            base += learned.base[: self.tokens]
        count = np.full(lanes, 0 if learned is None else self.warmup)
        return Online(growth(cost, self.tokens, lanes), slope, base, count)

    def budget(self, state: Online) -> np.ndarray:
        return worth_drafting(self.tokens, state.growth)

    def stop(self, signals: Signals, state: Online) -> np.ndarray:
        return pays_no_more(_sigma(signals, state), state.growth) & (state.count >= self.warmup)

    def update(self, state: Online, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> Online:
        k = np.arange(signals.shape[1])
        known = k <= np.minimum(accepted, drafted - 1)[:, None]  # after the first rejection nothing is known
        error = np.where(known, (k < accepted[:, None]) - _sigma(signals, state), 0.0)
        slope, base = state.slope.copy(), state.base.copy()
        slope[:, k] += self.rate * np.where(known, error * signals.margin, 0.0)
        base[:, k] += self.rate * error
        return Online(state.growth, slope, base, state.count + (drafted > 0))

    def next_prompt(self, state: State) -> State:
        return state

    def trained_on(self) -> frozenset[str]:
        return _prompts(self._head, self.in_sample)

    @property
    def _lines(self) -> Lines | None:
        return None if self._head is None else cast(Lines, self._head.learned)

    @functools.cached_property
    def _head(self) -> Head | None:
        return load_head(self.file, "margin") if self.file else None


def _sigma(signals: Signals, state: Online) -> np.ndarray:
    """Probability of acceptance, float64 [lanes, width]."""
    width = signals.shape[1]
    return 1 / (1 + np.exp(-(state.slope[:, :width] * signals.margin + state.base[:, :width])))


def _prompts(head: Head | None, in_sample: bool) -> frozenset[str]:
    return frozenset() if head is None or in_sample else head.prompts
