"""Stopping policies: how many tokens to draft in an iteration.

A policy sees what a real drafter sees: the signals of the tokens drafted so far and the outcomes of earlier iterations.
It is written as text, ``name`` or ``name:key=value,key=value``.  To add one, write a small class here and list it in
``POLICIES``.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Signals(NamedTuple):
    """What a drafter knows of drafted tokens, one array entry a token."""

    confidence: np.ndarray  # float32, probability of the selected token
    entropy: np.ndarray  # float32, nats
    margin: np.ndarray  # float32, top-1 minus top-2 probability


@dataclass(frozen=True)
class Policy:
    """What every policy may override; the defaults draft nothing and remember nothing.

    The state is a plain value: ``start`` makes it, ``update`` returns the next one.
    """

    def start(self) -> Any:
        """State before the first iteration."""
        return None

    def budget(self, state: Any) -> int:
        """Most tokens to draft in this iteration."""
        return 0

    def stop(self, signals: Signals, state: Any) -> np.ndarray | None:
        """Where drafting stops *after* a token with these signals, bool like the signals; None: never.

        The tokens are those of one draft so far, in order, where ``reads_signals``.  Otherwise they are any tokens in
        any order, and each entry of the answer may depend on its own token only.
        """
        return None

    def update(self, state: Any, drafted: int, accepted: int, signals: Signals | None) -> Any:
        """State after an iteration; ``signals`` of its drafted tokens where ``reads_signals``."""
        return state

    has_memory = False  # does any outcome change what is drafted later?
    carries_over = False  # does the state live on from one prompt to the next?
    reads_signals = False  # does `update` need the signals, or does `stop` read the state or earlier tokens of a draft?

    def __str__(self) -> str:
        name = next(key for key, kind in POLICIES.items() if kind is type(self))
        keys = [f"{item.name}={_number(getattr(self, item.name))}" for item in dataclasses.fields(self)]
        return f"{name}:{','.join(keys)}" if keys else name


@dataclass(frozen=True)
class Plain(Policy):
    """No draft at all: the target decodes alone."""


@dataclass(frozen=True)
class Constant(Policy):
    """Draft ``tokens`` every time (transformers before 4.45, gpt-fast).  A threshold makes it `dynamic`."""

    tokens: int = 5
    threshold: float = 0.0

    def __post_init__(self) -> None:
        _check_tokens(self.tokens)
        _check_threshold(self.threshold)

    def budget(self, state: Any) -> int:
        return self.tokens

    def stop(self, signals: Signals, state: Any) -> np.ndarray | None:
        return (
            below(signals.confidence, self.threshold) if self.threshold > 0 else None
        )  # a counting one reads no signal


@dataclass(frozen=True)
class Dynamic(Constant):
    """Stop after a token with confidence below ``threshold``, at most ``tokens`` (transformers since 4.45)."""

    tokens: int = 20
    threshold: float = 0.4


@dataclass(frozen=True)
class HeuristicTransient(Constant):
    """``tokens`` + 2 after a draft that was accepted whole, else max(1, ``tokens`` - 1); anew for each prompt."""

    has_memory = True

    def start(self) -> int:
        return self.tokens

    def budget(self, state: int) -> int:
        return state

    def update(self, state: int, drafted: int, accepted: int, signals: Signals | None) -> int:
        return state + 2 if accepted == drafted else max(1, state - 1)


@dataclass(frozen=True)
class Heuristic(HeuristicTransient):
    """The same, but the next prompt starts with the last one's value: the order of prompts matters."""

    carries_over = True


class RocState(NamedTuple):
    threshold: float
    confidence: tuple[float, ...]  # of the drafted tokens whose outcome is known
    matched: tuple[bool, ...]


@dataclass(frozen=True)
class Roc(Constant):
    """`dynamic` whose threshold is refitted after each iteration of a call (transformers with scikit-learn installed).

    With more than five outcomes of both kinds, threshold = argmin(false positive rate + 3 * false negative rate).
    """

    tokens: int = 20
    threshold: float = 0.4

    has_memory = True
    reads_signals = True

    def start(self) -> RocState:
        return RocState(self.threshold, (), ())

    def stop(self, signals: Signals, state: RocState) -> np.ndarray | None:
        return below(signals.confidence, state.threshold)

    def update(self, state: RocState, drafted: int, accepted: int, signals: Signals | None) -> RocState:
        known = min(accepted + 1, drafted)  # tokens after the first rejection tell nothing
        confidence = state.confidence + tuple(float(value) for value in signals.confidence[:known])
        matched = state.matched + (True,) * accepted + (False,) * (known - accepted)
        # A threshold of 0 means that the criterion is off, and nothing is refitted.
        ready = self.threshold > 0 and len(matched) > 5 and len(set(matched)) == 2
        threshold = roc_threshold(np.array(confidence), np.array(matched)) if ready else state.threshold
        return RocState(threshold, confidence, matched)


POLICIES: dict[str, type[Policy]] = {
    "none": Plain,
    "constant": Constant,
    "heuristic": Heuristic,
    "heuristic_transient": HeuristicTransient,
    "dynamic": Dynamic,
    "roc": Roc,
}


def below(values: np.ndarray, threshold: float) -> np.ndarray | None:
    """``values < threshold`` in double precision, as the real criterion compares; None where the threshold is off."""
    return values < np.float64(threshold) if threshold > 0 else None


def roc_threshold(confidence: np.ndarray, matched: np.ndarray) -> float:
    """The threshold with the least false positive rate + 3 * false negative rate.

    confidence float [n], matched bool [n] with both values present.  The points are those of a receiver operating
    characteristic with collinear ones dropped, and ties go to the highest threshold, as scikit-learn's ``roc_curve``
    followed by ``argmin`` does it.
    """
    order = np.argsort(-confidence, kind="stable")
    confidence, matched = confidence[order], matched[order]
    last = np.r_[np.flatnonzero(np.diff(confidence)), len(confidence) - 1]  # last index of each distinct value
    true_positives = np.cumsum(matched)[last]
    false_positives = 1 + last - true_positives
    corner = np.diff(false_positives, 2).astype(bool) | np.diff(true_positives, 2).astype(bool)
    kept = np.r_[True, corner, True][: len(last)] if len(last) > 2 else np.ones(len(last), dtype=bool)
    false_rate = false_positives[kept] / false_positives[-1]
    true_rate = true_positives[kept] / true_positives[-1]
    return float(confidence[last][kept][np.argmin(false_rate + 3 * (1 - true_rate))])


def parse(text: str) -> Policy:
    """The policy that ``text`` names.  Raises ValueError with the legal names or keys."""
    name, _, rest = str(text).strip().partition(":")
    if name == "oracle":
        raise ValueError(f"{text!r} exists in simulation only: nobody can run an oracle; legal: {', '.join(POLICIES)}")
    if name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}{_suggest(name, POLICIES)}; legal: {', '.join(POLICIES)}")
    kind = POLICIES[name]
    fields = {item.name: item for item in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    for pair in filter(None, (piece.strip() for piece in rest.split(","))):
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if key not in fields or not equals:
            legal = ", ".join(f"{key}={_number(item.default)}" for key, item in fields.items()) or "no keys"
            raise ValueError(f"policy {text!r}: {pair!r} is not a key=value that {name} knows; legal: {legal}")
        if key in values:
            raise ValueError(f"policy {text!r}: {key} is given twice")
        values[key] = _convert(text, key, value, type(fields[key].default))
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"policy {text!r}: {error}") from None


def _convert(text: str, key: str, value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise ValueError(f"policy {text!r}: {key}={value!r} is not {wanted}") from None


def _suggest(name: str, names) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_tokens(tokens: int) -> None:
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: must be at least 1 (`none` is decoding without a draft)")


def _check_threshold(threshold: float) -> None:
    if not (math.isfinite(threshold) and 0 <= threshold <= 1):
        raise ValueError(f"threshold={threshold}: must be between 0 (off) and 1")
