"""A policy that follows from outcomes alone, as a machine of numbered states."""

from __future__ import annotations

import numpy as np

from oracle.policies.contract import Policy, Prices, State, after_prompt, ask, budget_of, sent_of, unseen


class States:
    """The states that a policy meets, by number; each transition between them is asked for once."""

    def __init__(self, policy: Policy, cost: Prices | None) -> None:
        self.policy, self.cost = policy, cost
        self.budgets: list[int] = []
        self._states: list[State] = []
        self._numbers: dict[tuple, int] = {}
        self.start = self._number(ask(policy, "start", 1, cost))

    def after(self, number: int, drafted: int, accepted: int) -> int:
        """The state after an iteration of which only the outcome is known.

        Raises `Unseen` where that is not enough.
        """
        sent = np.array([drafted])
        before = self._states[number]
        return self._number(ask(self.policy, "update", before, sent, np.array([accepted]), unseen(sent)))

    def sent(self, number: int, passes: int, stopped: bool) -> int:
        return int(sent_of(self.policy, np.array([passes]), np.array([stopped]), self._states[number])[0])

    def next_prompt(self, number: int) -> int:
        return self._number(after_prompt(self.policy, self._states[number], self.cost))

    def _number(self, state: State) -> int:
        key = tuple((np.shape(field), np.asarray(field).tobytes()) for field in state)
        if key not in self._numbers:
            self._numbers[key] = len(self._states)
            self._states.append(state)
            self.budgets.append(int(np.max(budget_of(self.policy, state))))
        return self._numbers[key]
