"""What policies that weigh gain against cost take from prices."""

from __future__ import annotations

import numpy as np

from oracle.policies.contract import Prices, whole

DRAFT = 0.1  # price of a draft step, in target steps, where none are known
MOST = 1000  # tokens: such a policy keeps a price for each length


class Textbook:
    """Prices where none are known: a draft step costs `DRAFT` of a target step, and verifying costs one step."""

    def drafting(self, drafted: np.ndarray, context: np.ndarray | float = 0) -> np.ndarray:
        return np.where(np.asarray(drafted) > 0, DRAFT + (np.maximum(drafted, 1) - 1) * DRAFT, 0.0)

    def verification(self, tokens: np.ndarray) -> np.ndarray:
        return np.ones(np.shape(tokens))

    def step(self, context: np.ndarray | float = 0) -> np.ndarray:
        return np.ones(np.shape(context))

    def round(
        self, drafted: np.ndarray, context: np.ndarray | float = 0, passes: np.ndarray | None = None
    ) -> np.ndarray:
        return self.drafting(drafted if passes is None else passes) + self.verification(drafted)


def check_few(name: str, tokens: int) -> None:
    """Raise ValueError unless ``tokens`` is a length that prices are kept for."""
    whole(name, tokens, 1, MOST, hint=" (`none` is decoding without a draft)")


def rounds(cost: Prices | None, tokens: int) -> np.ndarray:
    """Price of an iteration of 0 to ``tokens`` drafted tokens, float64 [tokens + 1]; a context of no length."""
    return np.asarray((Textbook() if cost is None else cost).round(np.arange(tokens + 1)), np.float64)
