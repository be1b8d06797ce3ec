"""Policies that stop a draft at a value of its signals, and otherwise at a cap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from oracle.policies.contract import Policy, Signals, State, TokenRule, share, whole


def check_tokens(tokens: int) -> None:
    whole("tokens", tokens, 1, hint=" (`none` is decoding without a draft)")


@dataclass(frozen=True)
class Below(TokenRule):
    """At most ``tokens``, and none after one whose confidence is below ``threshold``; 0 is off."""

    tokens: int = 20
    threshold: float = 0.4

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        share("threshold", self.threshold, off=" (off)")

    def budget(self, state: State) -> int | np.ndarray:
        return self.tokens

    def judge(self, signals: Signals) -> np.ndarray | None:
        return below(signals, self.threshold)


@dataclass(frozen=True)
class Dynamic(Below):
    """Stop after a token with confidence below ``threshold``, at most ``tokens`` (transformers since 4.45)."""

    source: ClassVar[str] = "Transformers 4.45; Mamou et al., arXiv 2405.04304"
    found_in: ClassVar[tuple[str, ...]] = ("transformers",)


@dataclass(frozen=True)
class MaxConfidence(Below):
    """The rule of `dynamic` in the toolkit's own loop, whose threshold nothing refits."""

    source: ClassVar[str] = "Kim et al. (BiLD), arXiv 2302.07863"


@dataclass(frozen=True)
class Kangaroo(Below):
    """Stop after a token with confidence below 0.6, at most 6 (Kangaroo)."""

    source: ClassVar[str] = "Liu et al., arXiv 2404.18911"

    tokens: int = 6
    threshold: float = 0.6


@dataclass(frozen=True)
class PMin(TokenRule):
    """At most ``n_max``; drops a token less likely than ``p_min``, and a draft shorter than ``n_min`` (llama.cpp)."""

    source: ClassVar[str] = "llama.cpp, draft-p-min"
    found_in: ClassVar[tuple[str, ...]] = ("llama.cpp",)

    n_max: int = 16
    n_min: int = 0
    p_min: float = 0.75

    def __post_init__(self) -> None:
        whole("n_max", self.n_max, 1, hint=" (`none` is decoding without a draft)")
        whole("n_min", self.n_min, 0)
        share("p_min", self.p_min, off=" (off)")

    def budget(self, state: State) -> int:
        return self.n_max

    def judge(self, signals: Signals) -> np.ndarray | None:
        return below(signals, self.p_min)

    def send(self, passes: np.ndarray, stopped: np.ndarray, state: State) -> np.ndarray:
        kept = passes - stopped
        return np.where(kept < self.n_min, 0, kept)


@dataclass(frozen=True)
class Svip(TokenRule):
    """Stop after a token with sqrt(``factor`` * entropy) above ``threshold``, at most ``tokens`` (SVIP)."""

    source: ClassVar[str] = "Zhang et al., arXiv 2411.18462"

    tokens: int = 40
    threshold: float = 0.3
    factor: float = 0.15

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        share("threshold", self.threshold, high=1e6)
        share("factor", self.factor, high=1e6)

    def budget(self, state: State) -> int:
        return self.tokens

    def judge(self, signals: Signals) -> np.ndarray:
        return np.sqrt(self.factor * signals.entropy.astype(np.float64)) > self.threshold


@dataclass(frozen=True)
class Survival(Policy):
    """Stop once the product of the draft's confidences so far is below ``threshold``, at most ``tokens``."""

    tokens: int = 20
    threshold: float = 0.2

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        share("threshold", self.threshold)

    def budget(self, state: State) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: State) -> np.ndarray:
        return np.cumprod(signals.confidence, axis=1, dtype=np.float64) < self.threshold


def below(signals: Signals, threshold: float) -> np.ndarray | None:
    """confidence < ``threshold`` in double precision, as the real criterion compares; None if the threshold is off."""
    return signals.confidence < np.float64(threshold) if threshold > 0 else None
