"""How far the standard errors of prices reach into totals of seconds.

A total is a sum of prices, each as often as it is paid, so its gradient to the price vector is exact and costs a few
counts: how many rounds drafted how much, and the sum of their contexts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel, symmetric

NO_SHIFTS = np.zeros(0)  # of prices whose errors are not known


@dataclass(frozen=True)
class Tally:
    """What decides the price of some rounds."""

    drafted: np.ndarray  # float [k + 1], how many rounds sent so many tokens to verification
    passes: np.ndarray  # float [k + 1], how many rounds took so many draft steps
    context: float  # sum of the rounds' contexts
    read: float  # sum of the contexts of all draft steps

    @staticmethod
    def of(drafted: np.ndarray, context: np.ndarray, passes: np.ndarray | None = None) -> Tally:
        """Of rounds that drafted so much from such contexts, int [n] each; ``passes`` as in `CostModel.round`."""
        steps = drafted if passes is None else passes
        read = float(np.dot(steps.astype(float), context + (steps - 1) / 2))
        return Tally(_counts(drafted), _counts(steps), float(context.sum()), read)

    @property
    def rounds(self) -> float:
        return float(self.drafted.sum())


class PriceErrors:
    """The price vector of a cost model and its covariance, as shifts: independent errors of one standard deviation."""

    def __init__(self, cost: CostModel) -> None:
        self._cost, self._place = cost, {name: at for at, name in enumerate(cost.price_names)}
        self._root = _root(symmetric(cost.covariance)) if cost.covariance else np.zeros((len(self._place), 0))

    @property
    def known(self) -> bool:
        """Whether the prices have a covariance."""
        return bool(self._cost.covariance)

    def rounds(self, tally: Tally) -> np.ndarray:
        """How often each price is paid in these rounds: the gradient of their seconds, float [p]."""
        cost, found = self._cost, np.zeros(len(self._place))
        phases = tally.passes.copy()
        phases[0] = 0
        steps = np.arange(len(phases))
        if cost.draft_phase:
            counts = [count for count, _ in cost.draft_phase]
            self._add_table(found, "draft_phase", counts, steps, phases)
            found[self._place["draft"]] += phases @ np.maximum(steps - counts[-1], 0)
        else:
            first = "draft" if cost.draft_first is None else "draft_first"
            found[self._place[first]] += phases.sum()
            found[self._place["draft"]] += phases @ np.maximum(steps - 1, 0)
        found[self._place["draft_context"]] += tally.read
        self._add_verification(found, tally.drafted)
        found[self._place["verify_context"]] += tally.context
        found[self._place["iteration"]] += tally.rounds
        return found

    def steps(self, count: float, context: float) -> np.ndarray:
        """The same of ``count`` steps without a draft, whose contexts add up to ``context``, float [p]."""
        cost, found = self._cost, np.zeros(len(self._place))
        found[self._place["verify.1" if cost.plain is None else "plain"]] += count
        found[self._place["verify_context" if cost.plain_context is None else "plain_context"]] += context
        return found

    def shifts(self, gradient: np.ndarray, total: float) -> np.ndarray:
        """How far each independent error of the prices moves the log of a ``total`` with this gradient, float [r].

        The log of a ratio of two totals has the variance of the sum of squares of the difference of their shifts: the
        gradient times the covariance times the gradient.
        """
        return gradient @ self._root / total if self.known and total > 0 else NO_SHIFTS

    def variance(self, gradient: np.ndarray) -> float:
        """Variance that the prices' errors bring to what has this ``gradient`` (float [p]); 0 where not known."""
        return float(((gradient @ self._root) ** 2).sum())

    def _add_verification(self, found: np.ndarray, rounds: np.ndarray) -> None:
        counts = [count for count, _ in self._cost.verify]
        tokens = np.arange(1, len(rounds) + 1)
        self._add_table(found, "verify", counts, tokens, rounds)
        if len(counts) > 1:  # beyond the last count the last slope goes on
            beyond = float(rounds @ np.maximum(tokens - counts[-1], 0)) / (counts[-1] - counts[-2])
            found[self._place[f"verify.{counts[-1]}"]] += beyond
            found[self._place[f"verify.{counts[-2]}"]] -= beyond

    def _add_table(self, found: np.ndarray, name: str, counts: list[int], at: np.ndarray, often: np.ndarray) -> None:
        for count, hat in zip(counts, np.eye(len(counts)), strict=True):
            found[self._place[f"{name}.{count}"]] += often @ np.interp(at, counts, hat)


def standard_errors(cost: CostModel) -> dict[str, float]:
    """Of each price by its name (`CostModel.price_names`); empty where they are not known."""
    return {
        name: float(np.sqrt(max(row[-1], 0.0))) for name, row in zip(cost.price_names, cost.covariance, strict=False)
    }


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Variance of the log of the ratio of two totals with these shifts; 0 where the errors are not known."""
    return float(((one - other) ** 2).sum()) if len(one) and len(other) else 0.0


def _counts(values: np.ndarray) -> np.ndarray:
    return np.bincount(values, minlength=1).astype(float)


def _root(covariance: np.ndarray) -> np.ndarray:
    """A matrix float [p, r] that gives ``covariance`` when multiplied with its transpose."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    safe = np.where(scale > 0, scale, 1)
    values, vectors = np.linalg.eigh(covariance / safe / safe[:, None])
    kept = values > 1e-9 * max(values.max(initial=0), 1e-300)
    return scale[:, None] * vectors[:, kept] * np.sqrt(values[kept])
