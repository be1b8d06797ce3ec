"""Which policy a trace speaks for, and how loudly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from analysis.cost import CostModel
from analysis.gains.heldout import HeldOut, best_held_out
from analysis.intervals import Estimate
from analysis.replay.drafts import NotRecorded
from analysis.replay.paired import held_out, may_be_best, simultaneous
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate_totals
from analysis.tune.grid import CONSTANT, DEFAULT, settings_of
from analysis.tune.looks import looks
from analysis.tune.result import Tried, Tuned
from analysis.tune.simplicity import simplest
from analysis.tune.surface import surface
from analysis.tune.words import sentences
from analysis.verdict import NO_DRAFT, advised
from oracle.records.trace import Trace

_FEWEST_FOLDS = 2


def tune(
    trace: Trace, cost: CostModel, families: Sequence[str] | None = None, *, folds: int = 5, seed: int = 0
) -> Tuned:
    """Try every setting of ``families`` (default: what transformers itself can be set to) and say which to use.

    A setting is no fit: what it costs on a prompt does not depend on other prompts, so the best on all of them is what
    cross-validation would choose too, and what has to be cross-validated is only how good that choice looks.  Two
    things are judged on prompts that had no part in the choice.  The *tests* (the speedup, the gain over the tuned
    constant) deal the prompts into two halves, each judged under what the other chose: with more parts the choices are
    nearly the same and their luck is shared, so that a gain where there is none is claimed in 8 % of traces instead of
    2.5 % (``analysis.replay.paired``).  The *optimism* is a number without a test, of ``folds`` parts, whose choices
    are nearly the one that is made on all prompts.  What is advised follows from the tests by
    ``analysis.verdict.advised``, as everywhere.

    Raises ValueError for fewer than two folds, for an unknown policy and for one that has to be trained, RuntimeError
    where the record is too short for every constant.
    """
    if folds < _FEWEST_FOLDS:
        raise ValueError(f"folds={folds}: must be at least {_FEWEST_FOLDS}; the default is 5")
    family_of = settings_of(DEFAULT if families is None else families)
    # A copy: what is derived of a trace lives as long as it does.
    found, left_out = _replayed(dataclasses.replace(trace), family_of, cost)
    if not any(family_of[each.policy] == CONSTANT for each in found):
        raise RuntimeError(f"nothing can be tuned on this trace: {next(iter(left_out.values()))}")
    return choose(found, family_of, left_out, folds=folds, seed=seed)


def choose(
    found: Sequence[Totals],
    family_of: Mapping[str, str],
    left_out: Mapping[str, str] | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
) -> Tuned:
    """`tune` from what each setting costs on each prompt, in any order; constants are among them."""
    found = sorted(found, key=lambda each: -each.speedup)
    constants = [each for each in found if family_of[each.policy] == CONSTANT]
    held = best_held_out(constants, found, seed=seed)
    group = _group(found, held, {each.policy for each in constants})
    judged, policy = held_out(found, folds, seed), advised(held)
    prompts = len(found[0].prompt_seconds)
    tuned = Tuned(
        policy=policy,
        speedup=_speedup(policy, held),
        over_constant=held.gain,
        constant=held.constant,
        group=group,
        simplest=simplest(group),
        optimism=math.nan if judged is None else found[0].speedup / judged.speedup.value - 1,
        sentences=(),
        surface=surface(found, group, policy),
        tried=len(found),
        prompts=prompts,
        held=held,
        looks=looks(found, family_of, seed),
        settings=_tried(found, family_of, constants[0], group),
        chosen={} if judged is None else judged.chosen,
        folds=min(folds, prompts),
        left_out=dict(left_out or {}),
    )
    return dataclasses.replace(tuned, sentences=sentences(tuned))


def _replayed(trace: Trace, family_of: Mapping[str, str], cost: CostModel) -> tuple[list[Totals], dict[str, str]]:
    """Totals of every setting, in the order given, and why families could not be replayed, or not whole."""
    texts = list(family_of)
    totals: dict[int, Totals] = {}
    left_out: dict[str, str] = {}
    for number, found in simulate_totals(trace, texts, cost):
        if isinstance(found, NotRecorded):
            left_out.setdefault(family_of[texts[number]], str(found))
        else:
            totals[number] = found
    return [totals[number] for number in sorted(totals)], left_out


def _plain(found: Totals) -> Totals:
    """Decoding without a draft, priced as the others."""
    return dataclasses.replace(found, policy=NO_DRAFT, prompt_seconds=found.plain_seconds, shifts=found.plain_shifts)


def _group(found: Sequence[Totals], held: HeldOut, constants: Collection[str]) -> tuple[str, ...]:
    """Those that neither test tells from the best: all settings and plain decoding at once, and the held-out ones.

    The fastest is always among them.
    """
    beaten = set(constants) if held.gain.low > 1 and held.policy not in constants else set()
    if max(held.constant_speedup.low, held.policy_speedup.low) > 1:
        beaten.add(NO_DRAFT)
    ordered = sorted([*found, _plain(found[0])], key=lambda each: -each.speedup)
    return tuple(each.policy for each in may_be_best(ordered) if each is ordered[0] or each.policy not in beaten)


def _tried(
    found: Sequence[Totals], family_of: Mapping[str, str], constant: Totals, group: Collection[str]
) -> tuple[Tried, ...]:
    """Every setting against no draft and against the best constant."""
    against = [simultaneous(each, found, looks=2 * len(found)) for each in (_plain(found[0]), constant)]
    return tuple(
        Tried(each.policy, family_of[each.policy], speedup, over, each.policy in group)
        for each, speedup, over in zip(found, *against, strict=True)
    )


def _speedup(policy: str, held: HeldOut) -> Estimate:
    """Of what is advised."""
    if policy == NO_DRAFT:
        return Estimate(1.0, 1.0, 1.0)
    return held.constant_speedup if policy == held.constant else held.policy_speedup
