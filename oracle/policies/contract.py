"""What a stopping policy is: a frozen dataclass of numbers whose methods answer for many drafts at once.

The first axis of everything is the *lane* (a prompt, a setting, or both); a draft is a row.  The real loop runs one
lane, the replay thousands.  There are no flags: what a policy needs follows from the methods that it overrides, from
its type (`Policy` or `TokenRule`) and from the signals that it reads.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

SIGNALS = ("confidence", "entropy", "margin")
MOST_TOKENS = 2**31 - 1  # what a stored count can hold
State = tuple[np.ndarray, ...]  # arrays [lanes, ...]; a NamedTuple reads best


class Prices(Protocol):
    """What a policy may ask of prices; ``analysis.cost.CostModel`` is one.  All in one unit of time."""

    def drafting(self, drafted: np.ndarray, context: np.ndarray | float = 0) -> np.ndarray:
        """Of that many draft passes in a row."""
        ...

    def verification(self, tokens: np.ndarray) -> np.ndarray:
        """Of one target pass over that many tokens."""
        ...

    def step(self, context: np.ndarray | float = 0) -> np.ndarray:
        """Of a one-token step of the target."""
        ...

    def round(
        self, drafted: np.ndarray, context: np.ndarray | float = 0, passes: np.ndarray | None = None
    ) -> np.ndarray:
        """Of an iteration that verifies ``drafted`` tokens after ``passes`` draft steps (default: as many)."""
        ...


class Signals:
    """What a drafter knows of the tokens of each draft, float32 [lanes, width], in the order of drafting.

    An array is fetched when its attribute is read.  Entries past a draft's end mean nothing.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        read: Callable[[str], np.ndarray],
        top: Callable[[int], np.ndarray] | None = None,
    ) -> None:
        self.shape = shape
        self._read = read
        self._top = top
        self._tops: dict[int, np.ndarray] = {}

    @staticmethod
    def of(confidence: np.ndarray, entropy: np.ndarray, margin: np.ndarray) -> Signals:
        """Signals at hand, float [lanes, width] each."""
        held: dict[str, np.ndarray] = {"confidence": confidence, "entropy": entropy, "margin": margin}
        return Signals((confidence.shape[0], confidence.shape[1]), held.__getitem__)

    @functools.cached_property
    def confidence(self) -> np.ndarray:
        """The draft's probability of the token that it selected."""
        return self._read("confidence")

    @functools.cached_property
    def entropy(self) -> np.ndarray:
        """Of the draft's next-token distribution, in nats."""
        return self._read("entropy")

    @functools.cached_property
    def margin(self) -> np.ndarray:
        """Top-1 minus top-2 probability."""
        return self._read("margin")

    def top(self, k: int) -> np.ndarray:
        """The draft's ``k`` largest probabilities, largest first, float32 [lanes, width, k]."""
        if self._top is None:
            raise Unavailable("the largest probabilities of the draft are not at hand")
        if k not in self._tops:
            self._tops[k] = self._top(k)
        return self._tops[k]

    @property
    def were_read(self) -> bool:
        """Whether any array has been fetched."""
        return bool(self._tops) or any(name in self.__dict__ for name in SIGNALS)

    def one_a_row(self) -> Signals:
        """The same tokens, each a draft of its own: [lanes * width, 1]."""
        size = self.shape[0] * self.shape[1]
        return Signals(
            (size, 1), lambda name: getattr(self, name).reshape(size, 1), lambda k: self.top(k).reshape(size, 1, k)
        )


class Unavailable(ValueError):
    """A policy read signals that are not to be had."""


class Unseen(Unavailable):
    """A policy read signals where only outcomes are known."""


def unseen(drafted: np.ndarray) -> Signals:
    """Signals of drafts (int [lanes]) of which only the outcome is known: reading them raises `Unseen`."""

    def read(name: str) -> np.ndarray:
        raise Unseen(f"{name} is read where only the outcome of an iteration is known")

    return Signals((len(drafted), int(np.max(drafted, initial=0))), read, lambda k: read(f"the {k} most likely"))


@dataclass(frozen=True)
class Policy:
    """What a policy may override; what it does not stays the default, and nothing else has to be declared.

    All methods are pure: they return new arrays and change none that they were given.
    """

    def start(self, lanes: int, cost: Prices | None = None) -> State:
        """State before the first iteration of a prompt, arrays [lanes, ...]; ``cost`` where prices are known."""
        return ()

    def budget(self, state: State) -> int | np.ndarray:
        """Most tokens to draft in this iteration, int or int [lanes]."""
        return 0

    def stop(self, signals: Signals, state: State) -> np.ndarray | None:
        """Where drafting stops after a token, bool [lanes, width]; None, or not overridden: never.

        A row of ``signals`` is a draft from its first token on, so an answer may depend on earlier tokens of its row.
        Each field of ``state`` comes as a column, [lanes, 1], so that it goes with the rows.
        """
        return None

    def send(self, passes: np.ndarray, stopped: np.ndarray, state: State) -> np.ndarray:
        """How many of the drafted tokens are verified, int [lanes]; not overridden: all of them.

        ``passes`` (int [lanes]) were drafted and paid for; where ``stopped`` (bool [lanes]) `stop` ended the draft
        after the last of them.  An exclusive stop leaves that one out; a draft that is too short is dropped with 0.
        """
        return passes

    def update(self, state: State, drafted: np.ndarray, accepted: np.ndarray, signals: Signals) -> State:
        """State after an iteration of ``drafted`` tokens verified and ``accepted`` kept, int [lanes] each.

        ``signals`` are those of the drafted tokens, [lanes, width]; column k of a lane has a meaning where k < drafted.
        """
        return state

    def trained_on(self) -> frozenset[str]:
        """The prompts that it was fitted to, as ``oracle.records.prompts.digests`` names them; a replay refuses those.

        Empty where nothing was fitted, or where the user asked for the prompts of the training all the same.
        """
        return frozenset()

    def next_prompt(self, state: State) -> State | None:
        """State with which the next prompt begins, from the last one's; None, or not overridden: `start` anew.

        A policy that overrides this makes the order of prompts matter: one lane is walked, up to 0.3 ms an iteration
        in arrays.  `oracle.policies.in_order.InOrder` is for one in plain numbers, which takes a few microseconds.
        """
        return None

    def __str__(self) -> str:
        name = NAMES.get(type(self), type(self).__name__)
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if not _is_off(self, item)}
        keys = [f"{key}={value_text(value)}" for key, value in values.items()]
        return f"{name}:{','.join(keys)}" if keys else name


@dataclass(frozen=True)
class TokenRule(Policy):
    """A policy whose stop judges each token alone.

    `judge` meets every token as a draft of its own, so it cannot see the tokens before it nor the state, here or in the
    real loop; what needs those overrides `stop` of `Policy`.  In return one scan of a trace serves every iteration.
    """

    def judge(self, signals: Signals) -> np.ndarray | None:
        """Whether drafting stops after a token with these signals, bool [tokens, 1]; None: never."""
        return None

    def stop(self, signals: Signals, state: State) -> np.ndarray | None:
        answer = self.judge(signals.one_a_row())
        return None if answer is None else np.reshape(answer, signals.shape)


# How a class is written as text: `names` lists the toolkit's own, `files` what a user's file brought.
NAMES: dict[type[Policy], str] = {}


def overrides(policy: Policy, method: str) -> bool:
    """Whether the policy has its own ``method``."""
    return getattr(type(policy), method) is not getattr(Policy, method)


def judges_alone(policy: Policy) -> bool:
    """Whether the policy's stop depends on one token at a time only (or never comes)."""
    return type(policy).stop in (Policy.stop, TokenRule.stop)


def ask(policy: Policy, method: str, *given: Any) -> Any:
    """``policy.method(*given)``.

    What a user's own code raises becomes a ValueError that says whose it is, and where.
    """
    try:
        return getattr(policy, method)(*given)
    except Unavailable:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ValueError(f"policy {policy}: its {method} failed{_where(policy, error)}: {problem}") from error


def _where(policy: Policy, error: Exception) -> str:
    """The last place in the file of the policy, or of its function, that the error came through."""
    code = getattr(policy, "function", type(policy))
    file = getattr(sys.modules.get(code.__module__), "__file__", None)
    places = [place for place in traceback.extract_tb(error.__traceback__) if place.filename == file]
    return f" ({file}, line {places[-1].lineno})" if places else ""


def stops_at(policy: Policy, signals: Signals, state: State) -> np.ndarray | None:
    """``policy.stop`` with the state as columns, bool [lanes, width] or None.  ValueError for another shape or type."""
    columns = (field[:, None] if np.ndim(field) == 1 else field for field in state)
    answer = ask(policy, "stop", signals, rebuilt(state, columns))
    return None if answer is None else checked(policy, "stop", answer, signals.shape)


def budget_of(policy: Policy, state: State) -> np.ndarray:
    """``policy.budget``, int [] or [lanes], not negative.  ValueError where it is no whole number."""
    budget = np.asarray(ask(policy, "budget", state))
    if budget.dtype.kind not in "iu":
        raise ValueError(f"policy {policy}: budget must answer whole numbers of tokens, not {budget.dtype}")
    return np.maximum(budget, 0)


def sent_of(policy: Policy, passes: np.ndarray, stopped: np.ndarray, state: State) -> np.ndarray:
    """``policy.send``, int64 [lanes].  ValueError where it sends other than 0 to ``passes`` tokens."""
    sent = np.asarray(ask(policy, "send", passes, stopped, state))
    if sent.shape != passes.shape or sent.dtype.kind not in "iu" or np.any((sent < 0) | (sent > passes)):
        raise ValueError(f"policy {policy}: send must answer 0 to passes tokens for each lane, not {sent}")
    return sent.astype(np.int64)


def checked(policy: Policy, method: str, answer: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The bool array that ``method`` answered.  Raises ValueError where it has another type or shape."""
    answer = np.asarray(answer)
    if answer.shape != shape or answer.dtype != bool:
        raise ValueError(
            f"policy {policy}: {method} must answer a bool array of shape {shape} like its signals, "
            f"not {answer.dtype} of shape {answer.shape}"
        )
    return answer


def after_prompt(policy: Policy, state: State, cost: Prices | None = None) -> State:
    """The state [1, ...] with which the next prompt begins after one that ended in ``state``."""
    following = ask(policy, "next_prompt", state)
    return ask(policy, "start", 1, cost) if following is None else following


def lanes_of(state: State, chosen: np.ndarray) -> State:
    """The ``chosen`` lanes (bool or int array) of a state."""
    return rebuilt(state, (field[chosen] for field in state)) if state else state


def rebuilt(state: State, fields: Any) -> State:
    """A state of the same kind from other arrays."""
    return type(state)(*fields) if hasattr(state, "_fields") else tuple(fields)


def whole(name: str, value: Any, low: int, high: int = MOST_TOKENS, hint: str = "") -> None:
    """Raise ValueError unless ``value`` is a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name}={value!r}: must be a whole number from {low} to {high}")
    value = int(value)
    if value < low:
        raise ValueError(f"{name}={value}: must be at least {low}{hint}")
    if value > high:
        raise ValueError(f"{name}={value}: must be at most {high}")


def share(name: str, value: Any, high: float = 1.0, off: str = "") -> None:
    """Raise ValueError unless ``value`` is a number from 0 to ``high``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name}={value!r}: must be a number between 0{off} and {high:g}")
    value = float(value)
    if not (math.isfinite(value) and 0 <= value <= high):
        raise ValueError(f"{name}={value}: must be between 0{off} and {high:g}")


def _is_off(policy: Policy, item: dataclasses.Field) -> bool:
    """Whether a field is one that stands in a policy's text only where it was set: empty, or a flag that is off."""
    value = getattr(policy, item.name)
    return (value is False or value == "") and type(value) is type(item.default) and value == item.default


def value_text(value: Any) -> str:
    """A field's value as text that reads back to the same value, as short as it can be."""
    if not isinstance(value, numbers.Real) or isinstance(value, numbers.Integral):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))
