"""What each text takes on every rung, all on the same prompts: of a trace as it is, or with its tokens shuffled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.gains.halved import judged_by_halves
from analysis.gains.rearranged import halves
from analysis.ladder.reach import reach
from analysis.replay.drafts import NotRecorded
from analysis.replay.oracles import OPTIMAL, ORACLES
from analysis.replay.paired import FEWEST, held_out, parts
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate_lengths, simulate_totals
from analysis.replay.sweep import constants
from oracle.records.trace import Trace

DEFAULT = "dynamic"  # what transformers does with a draft where nothing is set, and scikit-learn is not installed
NONE, LIBRARY, CONSTANT, PER_PROMPT, POLICY, SIGNALS = (
    "none", "library's default", "best constant", "best constant per prompt", "best policy", "all signals, one model",
)  # fmt: skip
RUNGS = (NONE, LIBRARY, CONSTANT, PER_PROMPT, POLICY, SIGNALS, *ORACLES)


@dataclass(frozen=True)
class Stood:
    """A rung's seconds beside those of the best constant and of `OPTIMAL` on the same texts, on the same footing."""

    rung: Totals
    constant: Totals | None  # None: too few prompts to judge one on those that did not choose it
    optimal: Totals


@dataclass(frozen=True)
class Replays:
    """Every rung that could be replayed, by name, and why the others could not."""

    stood: dict[str, Stood]
    missing: dict[str, str]
    left_out: tuple[str, ...]  # candidates of the rung `POLICY` that read what the trace does not hold


def replays(trace: Trace, cost: CostModel, tried: Sequence[str]) -> Replays:
    """Replay the rungs over ``trace``; ``tried`` are the policies that the best one is chosen from."""
    missing: dict[str, str] = {}
    names = list(dict.fromkeys([*tried, *constants(), NONE, DEFAULT, *ORACLES]))
    totals = {names[number]: found for number, found in simulate_totals(trace, names, cost)}
    known = {name: each for name, each in totals.items() if not isinstance(each, NotRecorded)}
    optimal = known[OPTIMAL]
    fixed = _held_out([known[name] for name in constants() if name in known])
    stood = {NONE: Stood(known[NONE], fixed, optimal)}

    def add(name: str, make: Callable[[], Stood]) -> None:
        try:
            stood[name] = make()
        except ValueError as error:
            missing[name] = str(error)

    def library() -> Stood:
        found = totals[DEFAULT]
        if isinstance(found, NotRecorded):
            raise found
        return Stood(found, fixed, optimal)

    def chosen(found: Totals | None) -> Stood:
        if found is None:
            raise ValueError(f"a choice is judged on prompts that had no part in it: it takes {FEWEST} of them")
        return Stood(found, fixed, optimal)

    def signals() -> Stood:
        if trace.prompts < FEWEST:
            raise ValueError(f"a model is judged on prompts that it was not fitted to: it takes {FEWEST} of them")
        length = reach(trace, cost, parts(trace.prompts))
        return Stood(simulate_lengths(trace, SIGNALS, length, cost).totals, fixed, optimal)

    add(LIBRARY, library)
    add(CONSTANT, lambda: chosen(fixed))
    add(PER_PROMPT, lambda: per_prompt(trace, cost))
    add(POLICY, lambda: chosen(_held_out([known[name] for name in tried if name in known])))
    add(SIGNALS, signals)
    for name in ORACLES:
        stood[name] = Stood(known[name], fixed, optimal)
    return Replays(stood, missing, tuple(name for name in tried if name not in known))


def _held_out(tried: list[Totals]) -> Totals | None:
    """The best of ``tried``, each part of the prompts under what the others chose; None for too few prompts."""
    found = held_out(tried) if tried else None
    if found is None:
        return None
    # The errors of the prices move the total of what was chosen most often: the choices are alike in that.
    usual = next(each for each in tried if each.policy == next(iter(found.chosen)))
    return dataclasses.replace(usual, policy=" or ".join(found.chosen), prompt_seconds=found.seconds)


def per_prompt(trace: Trace, cost: CostModel) -> Stood:
    """A constant for each text, chosen on one half of it and judged on the other, beside one for all chosen so too.

    Its texts are the halves, so it stands beside a constant and an oracle that have these texts.  Raises ValueError
    where the draft's tokens are not known place by place, or no text has two tokens.
    """
    if trace.draft_kind != "chain" or trace.draft_tokens is None:
        raise ValueError(f"texts are cut in two where each token's fate is recorded; this trace has {_has(trace)}")
    whole = np.diff(trace.offsets) > 1
    if not whole.any():
        raise ValueError("no text has two tokens to choose on one and judge on the other; collect longer texts")
    cut = halves(trace if whole.all() else trace.select(whole))
    names = [*constants(), OPTIMAL]
    found = dict(simulate_totals(cut, names, cost))
    totals = []
    for number in range(len(names)):
        each = found[number]
        if isinstance(each, NotRecorded):
            raise each
        totals.append(each)
    by_half = np.stack([each.prompt_seconds.reshape(1, -1, 2) for each in totals[:-1]])
    for_all, for_each = judged_by_halves(by_half)
    usual = totals[int(by_half.sum(axis=(1, 2, 3)).argmin())]
    rung, constant = (_joined(usual, seconds[0].ravel(), PER_PROMPT) for seconds in (for_each, for_all))
    return Stood(rung, constant, _joined(totals[-1], totals[-1].prompt_seconds, OPTIMAL))


def _joined(totals: Totals, seconds: np.ndarray, name: str) -> Totals:
    """Totals of whole texts from those of their halves; ``seconds`` float [2 P]."""
    plain, joined = (values.reshape(-1, 2).sum(axis=1) for values in (totals.plain_seconds, seconds))
    prefill = totals.prefill_seconds[::2]  # the second half is read on from the first
    return dataclasses.replace(totals, policy=name, plain_seconds=plain, prefill_seconds=prefill, prompt_seconds=joined)


def _has(trace: Trace) -> str:
    return f"a draft of kind {trace.draft_kind}" if trace.draft_kind != "chain" else "no draft tokens"
