"""A rung in numbers: its speedup, what it gains over the best constant, and the share of the headroom that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.gains.heldout import FEWEST
from analysis.gains.influence import around, of_ratio
from analysis.gains.split import Null
from analysis.intervals import Estimate, ratio
from analysis.ladder.replays import CONSTANT, NONE, Stood

GONE = "the rung itself: "  # begins the reason why a rung could not be replayed
_NOTHING = 1e-9  # of the constant's time: a headroom below this is rounding


@dataclass(frozen=True)
class Rung:
    """One rung.  What cannot be told is None, and ``why`` says why."""

    name: str  # one of ``analysis.ladder.replays.RUNGS``
    policy: str | None  # what was replayed; of a choice what was chosen
    speedup: Estimate | None  # plain decoding over this
    over_constant: Estimate | None  # the best constant, held out, over this, paired by prompt; above 1: faster
    null: Null | None  # the same ratio where the tokens of each text are shuffled: mean and range
    share: Estimate | None  # of the time that `OPTIMAL` saves against the best constant, what this saves
    why: tuple[str, ...]  # one sentence for each thing that is None


def rung(name: str, stood: Stood, shuffled: Sequence[Stood], no_null: str | None) -> Rung:
    """A rung in numbers; ``shuffled`` is the same one in each shuffle, ``no_null`` says why there is none."""
    why, constant = [], stood.constant
    null, reason = _null(name, shuffled, no_null)
    over = share = None
    if constant is None:
        why.append("a ratio to the best constant: the constant cannot be judged on prompts that did not choose it")
    else:
        over = ratio(
            constant.prompt_seconds, stood.rung.prompt_seconds, log_variance=stood.rung.price_variance(constant)
        )
        share = headroom_share(stood)
        if len(constant.prompt_seconds) < FEWEST:
            over, share = over.bare(), None if share is None else share.bare()
            why.append(f"intervals beside the best constant: they take {FEWEST} prompts")
        if share is None:
            why.append("a share: no headroom is left above the best constant")
    if reason is not None:
        why.append(f"a null: {reason}")
    return Rung(name, stood.rung.policy, stood.rung.speedup_estimate(), over, null, share, tuple(why))


def absent(name: str, reason: str) -> Rung:
    """A rung that could not be replayed."""
    return Rung(name, None, None, None, None, None, (f"{GONE}{reason}",))


def headroom_share(stood: Stood) -> Estimate | None:
    """Time saved against the best constant over the time that `OPTIMAL` saves; None where that saves nothing.

    A ratio of totals over prompts, with the interval of its linearised form (``analysis.gains.influence``); the
    uncertainty of prices is not in it.  No rung saves more than `OPTIMAL`.
    """
    assert stood.constant is not None  # asked for with one only
    constant, most = stood.constant.prompt_seconds, stood.optimal.prompt_seconds
    saved, headroom = constant - stood.rung.prompt_seconds, constant - most
    if headroom.sum() <= _NOTHING * constant.sum():
        return None
    shares = constant / constant.sum()
    return around(saved.sum() / headroom.sum(), of_ratio(saved, headroom), shares).at_most(1)


def _null(name: str, shuffled: Sequence[Stood], no_null: str | None) -> tuple[Null | None, str | None]:
    """The ratio to the best constant over the shuffles, or why there is none."""
    if name == NONE:
        return None, "without a draft a text takes the same time in any order"
    if name == CONSTANT:
        return None, "the best constant is what the others are compared with"
    if shuffled and all(each.constant is None for each in shuffled):
        return None, "the best constant that it is a ratio to cannot be judged"
    ratios = [
        float(each.constant.prompt_seconds.sum() / each.rung.prompt_seconds.sum())
        for each in shuffled
        if each.constant is not None
    ]
    if not ratios:
        return None, no_null or "this rung could not be replayed on shuffled texts"
    return Null(float(np.mean(ratios)), min(ratios), max(ratios)), None
