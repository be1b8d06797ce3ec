"""Where the error of a simulated speedup comes from: which ingredient, how much, and how surely."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.intervals import NORMAL_975, Estimate, t_975
from analysis.measured.speedups import plain_steps
from oracle.records.runs import Call

PARTS = ("counts", "draft", "verify", "iteration", "plain", "drift")


@dataclass(frozen=True)
class Judged:
    """Prompts that are judged with one set of prices."""

    prompts: np.ndarray  # int [n], their places among all that are judged
    simulated: tuple[np.ndarray, np.ndarray]  # float [n] each, seconds without and with the policy
    price_variance: float  # of the log of the simulated speedup, where the prices are from elsewhere
    price_moves: np.ndarray  # float [P], how far each of all prompts moves that log by the prices fitted on it
    calls: Sequence[Sequence[Call]]  # of each prompt, those of the judged repeats
    plain: Sequence[Sequence[Call]]
    cost: CostModel


@dataclass(frozen=True)
class Split:
    """Decoding speedups, and the error simulated / measured - 1 with the six terms that add up to it."""

    simulated: Estimate
    measured: Estimate
    error: Estimate
    parts: dict[str, Estimate]
    floor: float  # how large an error a perfect simulator would show here in 19 of 20 cases; nan for a single prompt


def split(folds: Sequence[Judged], prompts: int, disturbed: Collection[tuple[str, int, int]] = ()) -> Split:
    """Simulated and measured speedups of ``prompts`` prompts, and their difference, ingredient by ingredient.

    Starting from the simulated speedup, one ingredient after the other is replaced by the measured one, and each term
    is what that changed: the counts (whose iterations), the draft's seconds, the verification's, the constant of an
    iteration, the steps of plain decoding.  Those seconds are each prompt's mean over the judged calls that were not
    ``disturbed`` (keys), as in the fit; the measured speedup is of each prompt's median over them, and drift is what
    lies between.

    Folds of the same prompts are averaged in logarithms; those of different prompts are put together, each prompt with
    the prices of its own.  Intervals are over prompts: t on the log of the linearised ratio, as in
    ``analysis.intervals``.  A prompt moves the simulated speedup and the error by the prices that are fitted on it too,
    so that what one fold's prices and the other's judgement have in common counts as it is.  Prices from elsewhere add
    the variance that their own errors say.
    """
    places = [fold.prompts for fold in folds]
    if sum(map(len, places)) == prompts:  # of different prompts, or a single fold
        joined = zip(*(_stages(fold, disturbed) for fold in folds), strict=True)
        order = np.argsort(np.concatenate(places))
        stages = [[tuple(np.concatenate(side)[order] for side in zip(*pairs, strict=True)) for pairs in joined]]
    else:
        stages = [_stages(fold, disturbed) for fold in folds]
    logs = np.mean([[_log_ratio(above, below) for above, below in each] for each in stages], axis=0)
    moves = np.mean([[_moves(above, below) for above, below in each] for each in stages], axis=0)
    from_prices = sum(fold.price_variance for fold in folds) / len(folds) ** 2
    by_prices = np.mean([fold.price_moves for fold in folds], axis=0)
    free = prompts - 1 if prompts > 1 else math.nan

    def half(moved: np.ndarray, variance: float = 0.0) -> float:
        of_prompts = float(t_975(free)) ** 2 * prompts / free * float(moved @ moved)
        return math.sqrt(of_prompts + NORMAL_975**2 * variance)

    error, reach = float(logs[0] - logs[-1]), half(moves[0] - moves[-1] + by_prices, from_prices)
    scale = math.expm1(error) / error if abs(error) > 1e-12 else 1.0  # so that the parts add up to the error
    parts = {
        name: Estimate(value * scale, (value - reach_of) * scale, (value + reach_of) * scale)
        for name, value, reach_of in zip(PARTS, -np.diff(logs), map(half, moves[:-1] - moves[1:]), strict=True)
    }
    return Split(
        simulated=_estimate(logs[0], half(moves[0] + by_prices, from_prices), math.exp),
        measured=_estimate(logs[-1], half(moves[-1]), math.exp),
        error=_estimate(error, reach, math.expm1),
        parts=parts,
        floor=math.expm1(reach),
    )


def _estimate(log: float, half: float, change: Callable[[float], float]) -> Estimate:
    return Estimate(change(log), change(log - half), change(log + half))


def _log_ratio(above: np.ndarray, below: np.ndarray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log(above.sum()) - np.log(below.sum()))


def _moves(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """How far each prompt moves the log of the ratio of totals, float [n]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / above.sum() - below / below.sum()


def _stages(fold: Judged, disturbed: Collection[tuple[str, int, int]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Seconds of decoding without and with the policy by prompt, from all simulated to all measured."""

    def quiet(group: Sequence[Call]) -> Sequence[Call]:
        return [call for call in group if call.key not in disturbed] or group

    model = np.array([_priced(group[0], fold.cost) for group in fold.calls])
    clock = np.array([np.mean([_clocked(call) for call in quiet(group)], axis=0) for group in fold.calls])
    priced = np.array([_plain_price(group[0], fold.cost) for group in fold.calls])
    steps = [
        [float(plain_steps(one, group[0]).sum()) for one in quiet(base)]
        for base, group in zip(fold.plain, fold.calls, strict=True)
    ]
    assisted = [[call.total_seconds - call.prefill_seconds for call in quiet(group)] for group in fold.calls]
    mixed = [clock[:, :known].sum(axis=1) + model[:, known:].sum(axis=1) for known in range(4)]
    return [
        fold.simulated,
        *((priced, seconds) for seconds in mixed),
        (np.array(list(map(np.mean, steps))), mixed[-1]),
        (np.array(list(map(np.median, steps))), np.array(list(map(np.median, assisted)))),
    ]


def _priced(call: Call, cost: CostModel) -> np.ndarray:
    """Draft, verification and constant of a call's later iterations at the model's prices, float [3]."""
    drafted, context = call.drafted[1:], call.position[1:] + len(call.prompt_tokens)
    draft = cost.drafting(drafted, context).sum()
    verify = (cost.verification(drafted + 1) + cost.verify_context * context).sum()
    return np.array([draft, verify, cost.iteration * len(drafted)])


def _plain_price(call: Call, cost: CostModel) -> float:
    """Plain decoding of the tokens after a call's first iteration at the model's prices."""
    return float(cost.step(len(call.prompt_tokens) + np.arange(call.accepted[0] + 1, len(call.tokens))).sum())


def _clocked(call: Call) -> np.ndarray:
    """Draft, verification and constant of a call's later iterations as measured, float [3]."""
    return np.array([call.draft_seconds[1:].sum(), call.verify_seconds[1:].sum(), call.rest_seconds[1:].sum()])
