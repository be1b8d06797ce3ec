"""What speculative decoding gains where every drafted token is accepted independently: no trace is needed.

All prices are those of a context of no length.  A lookahead of 0 is an iteration without a draft, so nothing here is
said to be better than plain decoding because of prices that plain decoding has too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar

from analysis.cost import CostModel
from analysis.published import ORACLE_ANALYSIS

LONGEST = 1000  # lookahead that is tried
MOST_ACCEPTANCE = 0.999
SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)


@dataclass(frozen=True)
class Constant:
    """What a constant lookahead is expected to give."""

    tokens: int
    tokens_per_iteration: float
    speedup: float


@dataclass(frozen=True)
class Prediction:
    """What is expected of one acceptance rate at one set of prices."""

    acceptance: float
    draft_cost: float  # a draft step, in target steps
    cost: CostModel
    rows: tuple[Constant, ...]
    best: Constant  # of lookaheads up to `LONGEST`, 0 where no draft pays
    detect: float  # speedup of drafting until the draft disagrees, that pass paid
    clairvoyant: float  # of stopping just before
    break_even_draft_cost: float | None  # in target steps: a dearer draft step loses; None where any does
    break_even_acceptance: float | None  # less of it loses; None where any does


@dataclass(frozen=True)
class Compared:
    """A published speedup beside that of the closed form, at the acceptance and draft cost published with it."""

    data: str
    policy: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Share by which the closed form is too high."""
        return self.predicted / self.measured - 1


def predict(acceptance: float, cost: CostModel, tokens: Sequence[int] = SHOWN) -> Prediction:
    """What ``acceptance`` (0 to 0.999) gains at these prices; ``tokens`` are the lookaheads to be told of.

    Raises ValueError for another acceptance.
    """
    check_acceptance(acceptance)
    every = np.arange(LONGEST + 1)
    emitted = tokens_per_iteration(np.array([acceptance]), every)[0]
    speed = emitted * cost.step() / _round(cost, every)
    speed[0] = 1.0

    def told(number: int) -> Constant:
        return Constant(number, float(emitted[number]), float(speed[number]))

    detect, clairvoyant = oracles(acceptance, cost)
    return Prediction(
        acceptance=float(acceptance),
        draft_cost=float(cost.draft / cost.step()),
        cost=cost,
        rows=tuple(told(number) for number in sorted(set(tokens))),
        best=told(int(speed.argmax())),
        detect=detect,
        clairvoyant=clairvoyant,
        break_even_draft_cost=break_even_draft_cost(acceptance, cost),
        break_even_acceptance=break_even_acceptance(cost),
    )


def check_acceptance(acceptance: float) -> None:
    """Raise ValueError unless the closed forms hold for it."""
    if not 0 <= acceptance <= MOST_ACCEPTANCE:
        raise ValueError(f"acceptance is {acceptance}; it must be from 0 to {MOST_ACCEPTANCE}")


def tokens_per_iteration(acceptance: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Expected emitted tokens, float [acceptances, lookaheads]: (1 - a^(k + 1)) / (1 - a), for a below 1."""
    rate = np.asarray(acceptance, float)[:, None]
    return (1 - rate ** (np.asarray(tokens) + 1)) / (1 - rate)


def best_speedups(acceptance: np.ndarray, draft_cost: np.ndarray, cost: CostModel, longest: int = 200) -> np.ndarray:
    """Speedup of the best lookahead from 1 to ``longest``, float [draft costs, acceptances].

    ``draft_cost`` in target steps takes the place of the model's own; below 1 a draft loses at any length.
    """
    tokens = np.arange(1, longest + 1)
    emitted = tokens_per_iteration(acceptance, tokens) * cost.step()
    prices = (_round(with_draft_cost(cost, float(each)), tokens) for each in draft_cost)
    return np.stack([(emitted / price).max(axis=1) for price in prices])


def with_draft_cost(cost: CostModel, draft_cost: float) -> CostModel:
    """The same prices but for a draft step of ``draft_cost`` target steps; the first one, or the table, in proportion.

    Where a step costs nothing there is no proportion: the first step stays as it is, a table gives way to the step.
    """
    draft = draft_cost * float(cost.step())
    if not cost.draft:
        return dataclasses.replace(cost, draft=draft, draft_phase=(), covariance=())
    times = draft / cost.draft
    first = None if cost.draft_first is None else cost.draft_first * times
    phase = tuple((count, price * times) for count, price in cost.draft_phase)
    return dataclasses.replace(cost, draft=draft, draft_first=first, draft_phase=phase, covariance=())


def oracles(acceptance: float, cost: CostModel) -> tuple[float, float]:
    """Speedups of `detect` and `clairvoyant`, whose accepted tokens are geometric.

    With flat verification 1 / (1 / S + c) and S / (1 + c (S - 1)), S = 1 / (1 - acceptance).
    """
    longest = 1 if acceptance == 0 else int(np.ceil(np.log(1e-16) / np.log(acceptance))) + 1
    accepted = np.arange(longest + 1)
    chance = (1 - acceptance) * acceptance**accepted
    emitted = float(chance @ (accepted + 1)) * float(cost.step())
    return emitted / float(chance @ _round(cost, accepted + 1)), emitted / float(chance @ _round(cost, accepted))


def break_even_draft_cost(acceptance: float, cost: CostModel) -> float | None:
    """The price of a draft step, in target steps, at which the best lookahead is worth plain decoding."""
    tokens = np.arange(1, LONGEST + 1)
    without = _round(with_draft_cost(cost, 0.0), tokens)
    each = _round(with_draft_cost(cost, 1.0), tokens) - without
    saved = tokens_per_iteration(np.array([acceptance]), tokens)[0] * cost.step() - without
    highest = float((saved / each).max())
    return highest if highest >= 0 else None


def break_even_acceptance(
    cost: CostModel, tokens: np.ndarray | Sequence[int] = range(1, LONGEST + 1), context: float = 0
) -> float | None:
    """The acceptance at which the best of the lookaheads ``tokens`` is worth plain decoding, at one context length.

    For independent tokens in long texts; None where no acceptance is enough.
    """
    tried = np.asarray(tokens)
    needed = np.asarray(cost.round(tried, context), float) / cost.step(context)  # tokens that an iteration must emit

    def gain(acceptance: float) -> float:
        return float((tokens_per_iteration(np.array([acceptance]), tried)[0] / needed).max()) - 1

    highest = 1 - 1e-9
    if gain(0.0) >= 0:
        return 0.0
    return float(root_scalar(gain, bracket=(0.0, highest), xtol=1e-12).root) if gain(highest) > 0 else None


def published() -> list[Compared]:
    """Every published row with an acceptance and a draft cost, flat verification: the closed form beside it."""
    found = []
    for data, row in ORACLE_ANALYSIS.items():
        expected = predict(row.acceptance, CostModel(draft=row.draft_cost), [5])
        for policy, predicted in (
            ("static 5", expected.rows[0].speedup),
            ("static tuned", expected.best.speedup),
            ("oracle", expected.detect),
        ):
            found.append(Compared(data, policy, row.speedups[policy], predicted))
    return found


def _round(cost: CostModel, tokens: np.ndarray) -> np.ndarray:
    """Price of an iteration, float like ``tokens``."""
    return np.asarray(cost.round(tokens), float)
