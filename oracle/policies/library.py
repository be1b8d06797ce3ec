"""Policies as the real generator knows them: which settings of the library a policy is, if it is any."""

from __future__ import annotations

import importlib.util
from typing import Any

from oracle.generate import Settings
from oracle.policies.rules import Constant, Dynamic, Heuristic, HeuristicTransient, Policy, Roc

_SCHEDULE = {
    Constant: "constant",
    Dynamic: "constant",
    Roc: "constant",
    Heuristic: "heuristic",
    HeuristicTransient: "heuristic_transient",
}


def settings_of(policy: Policy, state: Any = None) -> Settings | None:
    """The library's settings for ``policy`` in ``state`` (None: its start), or None if the library lacks it.

    Raises ValueError for `roc` where scikit-learn is not installed: the library would quietly keep the threshold fixed.
    """
    schedule = _SCHEDULE.get(type(policy))  # the class itself: one that inherits from it has a rule of its own
    if schedule is None:
        return None
    adaptive = isinstance(policy, Roc) and policy.threshold > 0
    if adaptive and not has_scikit_learn():
        raise ValueError(
            f"policy '{policy}' refits its threshold with scikit-learn, which is not installed; "
            f"install scikit-learn, or measure dynamic:threshold={policy.threshold:g} for the fixed threshold"
        )
    tokens = policy.budget(policy.start() if state is None else state)
    return Settings(int(tokens), schedule, policy.threshold, adaptive)


def has_scikit_learn() -> bool:
    """Whether the library will find scikit-learn."""
    return importlib.util.find_spec("sklearn") is not None
