"""Why a replayed iteration differs from the real one: the first difference, explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measured.divergences import is_near_tie
from analysis.replay.drafts import known_draft
from oracle.records.runs import Call
from oracle.records.trace import SIGNALS, Trace

TIE_PROBABILITY = 1e-4
_EXPLAINING = ("draft_tokens", *SIGNALS, "overruns")  # what is read to explain a draft that ended elsewhere


@dataclass(frozen=True)
class Difference:
    """The first iteration of a policy whose (position, drafted, accepted) is not the replay's."""

    prompt: str
    repeat: int
    iteration: int
    replayed: tuple[int, int, int] | None  # position, drafted, accepted; None: no such iteration
    measured: tuple[int, int, int] | None
    reason: str

    def __str__(self) -> str:
        sides = " against ".join("nothing" if row is None else "drafted {1}, accepted {2} at {0}".format(*row)
                                 for row in (self.replayed, self.measured))  # fmt: skip
        return (
            f"prompt {self.prompt}, repeat {self.repeat}, iteration {self.iteration}: {sides} measured; {self.reason}"
        )


def same_rows(replayed: np.ndarray, call: Call) -> np.ndarray:
    """(identical iterations, iterations) of a call; int [2].  The longer of the two sides is counted."""
    rows = _rows(call)
    size = min(len(rows), len(replayed))
    return np.array([np.all(rows[:size] == replayed[:size], axis=1).sum(), max(len(rows), len(replayed))])


def first_difference(
    trace: Trace, replayed: Sequence[np.ndarray], calls: Sequence[tuple[int, Call]], dtype: str
) -> Difference | None:
    """The first difference among ``calls``, (number in the trace, call) each; ``replayed`` is int [I, 3] a prompt."""
    for prompt, call in calls:
        rows, expected = _rows(call), replayed[prompt]
        size = min(len(rows), len(expected))
        wrong = np.flatnonzero(np.any(rows[:size] != expected[:size], axis=1))
        if not len(wrong) and len(rows) == len(expected):
            continue
        at = int(wrong[0]) if len(wrong) else size
        return Difference(
            prompt=call.id,
            repeat=call.repeat,
            iteration=at,
            replayed=tuple(expected[at].tolist()) if at < len(expected) else None,
            measured=tuple(rows[at].tolist()) if at < len(rows) else None,
            reason=explain(trace, prompt, call, at, dtype),
        )
    return None


def _rows(call: Call) -> np.ndarray:
    return np.stack([call.position, call.drafted, call.accepted], axis=1)


def explain(trace: Trace, prompt: int, call: Call, iteration: int, dtype: str) -> str:
    """The likeliest cause of a difference in this iteration of a call, in words."""
    half = f" ({dtype} rounds by batch shape)" if dtype in ("float16", "bfloat16") else ""
    text = slice(int(trace.offsets[prompt]), int(trace.offsets[prompt + 1]))
    known = trace.target_tokens[text]
    size = min(len(known), len(call.tokens))
    differs = np.flatnonzero(known[:size] != call.tokens[:size])
    position = int(call.position[min(iteration, len(call.position) - 1)])
    reach = position + int(call.drafted[min(iteration, len(call.drafted) - 1)])
    if len(differs) and differs[0] <= reach:
        at = int(differs[0])
        leaves = f"the text leaves the trace's at token {at}"
        if trace.target_margin is None:
            return f"{leaves}; the trace has no target_margin, so whether by a near-tie is unknown"
        margin = float(trace.target_margin[text][at])
        kind = "a near-tie" if is_near_tie(margin, dtype) else "no near-tie: a fault"
        return f"{leaves}, where the target's lead is {margin:.2g} logits: {kind}{half}"
    if lacks := [name for name in _EXPLAINING if name in trace.lacks]:
        return f"unexplained: the trace has no {', '.join(lacks)}"
    signals = known_draft(trace, text.start + position, max(1, reach - position), "the explanation of a difference")
    if signals.shape[1] and float(signals.margin.min()) < TIE_PROBABILITY:
        return f"the draft's lead is {float(signals.margin.min()):.2g} in probability there: a near-tie{half}"
    threshold = float(call.threshold[min(iteration, len(call.threshold) - 1)])
    distance = np.abs(signals.confidence - threshold).min(initial=np.inf) if threshold > 0 else np.inf
    if distance < TIE_PROBABILITY or (half and distance < 0.05):
        return f"a confidence is only {distance:.2g} from the threshold of {threshold:.4g}: a near-tie{half}"
    if signals.shape[1] < reach - position:
        return f"the trace recorded {trace.max_overrun} tokens after a disagreement, the real draft went further"
    return f"half precision{half}" if half else "unexplained: replay and library disagree"
