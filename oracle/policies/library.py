"""All that transformers knows of a policy: the settings that make its assisted generation follow one, if any do.

`random` is the one policy that settings alone do not make: the library's own field is set anew before each draft.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from oracle.policies.contract import Policy, State, budget_of, rebuilt
from oracle.policies.counting import Constant, Heuristic, HeuristicTransient, Length
from oracle.policies.drawn import Random
from oracle.policies.learning import Roc, RocCalls
from oracle.policies.semantics import under
from oracle.policies.thresholds import Below, Dynamic

_SCHEDULE: dict[type[Below] | type[Roc], str] = {
    Constant: "constant",
    Dynamic: "constant",
    Roc: "constant",
    Heuristic: "heuristic",  # before the class that it inherits from
    HeuristicTransient: "heuristic_transient",
}
SCHEDULES = tuple(dict.fromkeys(_SCHEDULE.values()))


@dataclass(frozen=True)
class Settings:
    """What the library reads from the draft's generation config."""

    tokens: int  # num_assistant_tokens
    schedule: str = "constant"  # num_assistant_tokens_schedule, one of SCHEDULES
    threshold: float = 0.0  # assistant_confidence_threshold; 0 is off
    adaptive: bool = False  # let the library refit the threshold after each iteration (needs scikit-learn)
    seed: int | None = None  # draw num_assistant_tokens anew before each draft: 1 to ``tokens`` (`random`)
    drawn: int = 0  # with a seed: how many were drawn in the calls before

    def lookaheads(self, count: int) -> list[int] | None:
        """The next ``count`` lengths that are drawn; None where none is."""
        if self.seed is None:
            return None
        rule = Random(self.tokens, self.seed)
        return [rule.lookahead(self.drawn + number) for number in range(count)]


def settings_of(policy: Policy, state: State | None = None) -> Settings | None:
    """The library's settings for ``policy`` in ``state`` (None: its start), or None if the library lacks it.

    Raises ValueError for `roc` where scikit-learn is not installed: the library would quietly keep the threshold fixed.
    """
    if type(policy) is Random:
        begun: State = policy.start(1) if state is None else state
        return Settings(policy.tokens, seed=policy.seed, drawn=int(begun[0][0]))
    if not _known(policy):
        return None
    policy = under(policy)
    assert _known(policy)  # what a release makes of a rule of the library's is one too
    adaptive = isinstance(policy, Roc) and policy.threshold > 0
    if adaptive and not has_scikit_learn():
        raise ValueError(
            f"policy '{policy}' refits its threshold with scikit-learn, which is not installed; "
            f"install scikit-learn, or measure dynamic:threshold={policy.threshold:g} for the fixed threshold"
        )
    begun = policy.start(1) if state is None else state
    threshold = begun.threshold[0] if isinstance(begun, RocCalls) else policy.threshold
    return Settings(int(np.max(budget_of(policy, begun))), _schedule(policy), float(threshold), adaptive)


def state_left(policy: Policy, state: State, tokens: float, iterations: int, threshold: float = 0.0) -> State:
    """The state after a call of so many iterations that left ``tokens`` and ``threshold`` in the draft's config.

    ``policy`` is what the installed release makes of a policy (`semantics.under`), and so is its ``state``.
    """
    if isinstance(state, RocCalls):
        return state._replace(refitted=np.array([threshold])) if threshold else state
    if type(policy) is Random:
        return rebuilt(state, [state[0] + iterations])
    return Length(np.array([int(tokens)])) if isinstance(policy, HeuristicTransient) else state


def fields_of(policy: Policy) -> dict[str, int | float | str]:
    """What the draft's generation_config must say for transformers' assisted generation to follow ``policy``.

    A threshold of None means 0.4 there, so 0.0 is written out.  Raises ValueError for a policy that the library lacks.
    """
    if not _known(policy):
        names = ", ".join(kind.__name__ for kind in _SCHEDULE)
        raise ValueError(f"{policy} is not a policy of transformers' own; those are {names}")
    return {
        "num_assistant_tokens": policy.tokens,
        "num_assistant_tokens_schedule": _schedule(policy),
        "assistant_confidence_threshold": float(policy.threshold),
    }


def settable(policy: Policy) -> bool:
    """Whether settings alone make the library follow the policy; `roc` hangs on what is installed beside it."""
    return _known(policy) and not isinstance(policy, Roc)


def what_runs(policy: Policy) -> Policy:
    """The policy as the generator knows it: a threshold of 0 is a constant, whatever its name."""
    if _known(policy) and type(policy) in (Constant, Dynamic, Roc) and policy.threshold == 0:
        return Constant(policy.tokens)
    return policy


def fixed_length(policy: Policy) -> int | None:
    """The tokens that the policy drafts in every iteration with room for them; None where that varies."""
    runs = what_runs(policy)
    return runs.tokens if isinstance(runs, Constant) and type(runs) is Constant and runs.threshold == 0 else None


def _known(policy: Policy) -> TypeGuard[Below | Roc]:
    """Whether the library has this rule: the class itself counts, one that inherits from it has a rule of its own."""
    return type(policy) in _SCHEDULE or type(policy) in {type(under(kind())) for kind in _SCHEDULE}


def _schedule(policy: Below | Roc) -> str:
    """The library's schedule of a policy that it has."""
    return next(name for kind, name in _SCHEDULE.items() if isinstance(policy, kind))


def has_scikit_learn() -> bool:
    """Whether the library will find scikit-learn."""
    return importlib.util.find_spec("sklearn") is not None
