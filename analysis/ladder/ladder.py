"""The ladder of a trace: nine rungs from no draft to the best that a draft could do, each beside what chance explains.

Nothing that was chosen or fitted on these prompts is set beside something that was not: the best constant, the best
policy and the models of the signals are judged on prompts that had no part in them (two halves of the prompts, the same
for all), a constant for each prompt on the half of its text that did not choose it, beside a constant for all that was
judged in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.cost import CostModel, assumed
from analysis.gains.rearranged import rearranged, with_signals, within_orders
from analysis.gains.split import Null
from analysis.intervals import Estimate, ends
from analysis.ladder.candidates import candidates
from analysis.ladder.reach import longest_draft
from analysis.ladder.replays import POLICY, RUNGS, Replays, Stood, replays
from analysis.ladder.rungs import Rung, absent, rung
from analysis.replay.drafts import NotRecorded
from analysis.replay.oracles import OPTIMAL
from analysis.replay.simulate import simulate
from oracle.records.meta import kind_of_draft
from oracle.records.shown import Shown
from oracle.records.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

SHUFFLES = (2, 5)  # fewest and most
REPLAYED = 50_000  # tokens of shuffled texts, about
TOKENS = 20_000  # a trace of more is taken in a sample of its prompts


@dataclass(frozen=True, repr=False)
class Ladder(Shown):
    """The rungs in order, lowest first."""

    rungs: tuple[Rung, ...]
    prompts: int  # so many were replayed,
    of: int  # of so many
    shuffles: int
    tried: int  # policies that the best one was chosen from
    left_out: tuple[str, ...]  # policies that were not tried, because the trace recorded too little for them
    roc: (
        Estimate | None
    )  # speedup of `roc`: the library's default where scikit-learn is installed; None: not recorded, or there is none
    longest_draft: int  # most tokens of a draft on the rung of the signals, which is no bound
    drafting: str | None = None  # kind of a draft that is no model of its own; the library refits no threshold of one

    def in_short(self) -> str:
        room = "headroom unknown" if self.headroom is None else f"headroom {self.headroom}"
        return f"{len(self.rungs)} rungs, {self.prompts:,} of {self.of:,} prompts, {room}"

    def to_frame(self) -> pd.DataFrame:
        """One row a rung: its policy, its speedup, its ratio to the best constant, its share of the headroom."""
        import pandas as pd

        rows = [
            {
                "rung": each.name,
                "policy": each.policy,
                **ends("speedup", each.speedup),
                **ends("over_constant", each.over_constant),
                **ends("share", each.share),
            }
            for each in self.rungs
        ]
        return pd.DataFrame(rows)

    def of_name(self, name: str) -> Rung:
        """The rung of that name."""
        return next(each for each in self.rungs if each.name == name)

    @property
    def headroom(self) -> Estimate | None:
        """The best constant over `OPTIMAL`, held out and paired by prompt; None where no constant could be judged."""
        return self.of_name(OPTIMAL).over_constant

    @property
    def null_headroom(self) -> Null | None:
        """The same where the tokens of each text are shuffled."""
        return self.of_name(OPTIMAL).null


def ladder(trace: Trace, cost: CostModel | None = None, *, shuffles: int | None = None, seed: int = 0) -> Ladder:
    """The ladder of ``trace`` at the prices ``cost`` (default: a draft step of 0.1, of 0 for a lookup).

    A trace of more than `TOKENS` is taken in a sample of its prompts, evenly spread.  ``shuffles`` of its tokens: by
    default as many as `REPLAYED` allows.  Raises ValueError for prices of another pair.
    """
    prices = assumed(trace) if cost is None else cost
    sample = _sample(trace)
    tried = candidates()
    actual = replays(sample, prices, tried)
    kept = [policy for policy in tried if policy not in actual.left_out]
    times = int(np.clip(REPLAYED // sample.tokens, *SHUFFLES)) if shuffles is None else shuffles
    others, no_null = _shuffled(sample, prices, kept, times, np.random.default_rng(seed))
    drafting = kind_of_draft(trace.meta)
    return Ladder(
        rungs=tuple(_rung(name, actual, others, no_null) for name in RUNGS),
        prompts=sample.prompts,
        of=trace.prompts,
        shuffles=len(others),
        tried=len(kept),
        left_out=actual.left_out,
        roc=None if drafting else _roc(sample, prices),
        longest_draft=longest_draft(sample),
        drafting=drafting,
    )


def _sample(trace: Trace) -> Trace:
    every = -(-trace.tokens // TOKENS)
    return trace if every == 1 else trace.select(np.arange(trace.prompts) % every == 0)


def _shuffled(
    trace: Trace, cost: CostModel, tried: Sequence[str], shuffles: int, rng: np.random.Generator
) -> tuple[list[Replays], str | None]:
    """The rungs with the tokens of each text shuffled, once for each shuffle; or why there are none."""
    if trace.draft_kind != "chain":
        return [], f"the tokens of a draft of kind {trace.draft_kind} cannot change places: they depend on the round"
    if trace.draft_tokens is None:
        return [], "this trace has no draft tokens to shuffle"
    orders = within_orders(trace, shuffles, rng)
    texts = (
        with_signals(trace, order, rng) if trace.overruns is not None else rearranged(trace, order[None])
        for order in orders
    )
    return [replays(each, cost, tried) for each in texts], None


def _rung(name: str, actual: Replays, shuffled: Sequence[Replays], no_null: str | None) -> Rung:
    if name in actual.missing:
        return absent(name, actual.missing[name])
    others: list[Stood] = [each.stood[name] for each in shuffled if name in each.stood]
    if len(others) < len(shuffled):
        others, no_null = [], next(each.missing[name] for each in shuffled if name in each.missing)
    if name == POLICY and any(each.left_out for each in shuffled):
        others, no_null = [], "with shuffled tokens some of the policies read more than the trace recorded"
    return rung(name, actual.stood[name], others, no_null)


def _roc(trace: Trace, cost: CostModel) -> Estimate | None:
    try:
        return simulate(trace, "roc", cost).speedup_estimate()
    except NotRecorded:
        return None
