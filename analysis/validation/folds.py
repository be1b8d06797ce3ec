"""Prices for some calls from others: no call is judged with prices that it had a part in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.cost import CostModel
from analysis.measured.calibrate import calibrate
from analysis.measured.disturbances import disturbed
from oracle.records.runs import Call, Runs


@dataclass(frozen=True)
class Fold:
    """Prices, and the repeats and prompts (by number; None: all) that are judged with them."""

    cost: CostModel
    repeats: frozenset[int] | None = None
    prompts: frozenset[int] | None = None
    # Prompt -> how far it moved the price vector; empty: prices from elsewhere, whose own covariance says what they err
    moves: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def judges(self, call: Call) -> bool:
        return (self.repeats is None or call.repeat in self.repeats) and (
            self.prompts is None or call.prompt in self.prompts
        )


def cross_fit(runs: Runs, policies: Sequence[str] | None = None) -> tuple[Fold, ...]:
    """Two halves of the repeats, each with prices that are fitted on the other; of a single repeat, of the prompts.

    Raises ValueError where there is one prompt and one repeat, or too little in a half to fit prices on.
    """
    out = disturbed(runs)  # a half may have too few repeats to tell
    calls = [call for call in runs.calls if call.key not in out]
    repeats, prompts = sorted({call.repeat for call in calls}), sorted({call.prompt for call in calls})

    def fold(half: frozenset[int], name: str) -> Fold:
        others = tuple(call for call in calls if getattr(call, name) not in half)
        found = calibrate(Runs(runs.meta, others), policies)
        moves = {prompt: move for (_, prompt), move in found.moves.items()}
        return Fold(found.cost, **{f"{name}s": half}, moves=moves)

    if len(repeats) > 1:
        return tuple(fold(half, "repeat") for half in _halves(repeats))
    if len(prompts) < 2:
        raise ValueError(
            "one repeat of one prompt is all that was measured: prices fitted on it cannot be judged by it; measure "
            "more prompts or repeats, or give prices from elsewhere (--cost)"
        )
    return tuple(fold(half, "prompt") for half in _halves(prompts))


def _halves(numbers: Sequence[int]) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(numbers[::2]), frozenset(numbers[1::2])
