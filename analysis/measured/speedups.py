"""What measured runs say: speedups with intervals, in total and for decoding alone.

A speedup is a ratio of totals over all prompts, each prompt at its median over the repeats, without a draft and with
one: a call that something disturbed is outvoted by the other calls of its prompt, where the total of its repeat would
carry it.  Its interval is over prompts (`analysis.intervals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.intervals import Estimate, ratio
from oracle.records.runs import PLAIN, Call, Runs


@dataclass(frozen=True)
class Measured:
    """One policy's runs in a few numbers; counts are of the first repeat."""

    policy: str
    generator: str  # "library" or "loop"
    prompts: int
    repeats: int
    iterations: int
    drafted: int
    accepted: int
    tokens: int
    seconds_per_token: float  # all repeats, prompts included
    total: Estimate  # speedup, the reading of the prompt included on both sides
    decoding: Estimate  # speedup from the end of the first target pass on, the same tokens on both sides
    spread: float  # largest minus smallest total speedup among the repeats
    different_texts: int  # prompts whose text is not that of plain decoding


@dataclass(frozen=True)
class Paired:
    """Seconds of the two arms by repeat and prompt, float [R, P] each; nan where a call is missing."""

    plain: np.ndarray
    assisted: np.ndarray

    @property
    def medians(self) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of each prompt, the median over its repeats, float [P] each: without a draft, with one."""
        return np.median(self.plain, axis=0), np.median(self.assisted, axis=0)


def measured(runs: Runs, policy: str) -> Measured:
    """The runs of one policy beside plain decoding.  Raises ValueError for a policy that did not run."""
    calls = runs.of(policy)
    first = [call for call in calls if call.repeat == calls[0].repeat]
    total = paired(runs, policy, decoding=False)
    return Measured(
        policy=policy,
        generator=calls[0].generator,
        prompts=len({call.prompt for call in calls}),
        repeats=len({call.repeat for call in calls}),
        iterations=sum(len(call.drafted) for call in first),
        drafted=int(sum(call.drafted.sum() for call in first)),
        accepted=int(sum(call.accepted.sum() for call in first)),
        tokens=sum(len(call.tokens) for call in first),
        seconds_per_token=sum(call.total_seconds for call in calls) / sum(len(call.tokens) for call in calls),
        total=speedup(total),
        decoding=speedup(paired(runs, policy, decoding=True)),
        spread=float(np.ptp(by_repeat(total))),
        different_texts=len({call.prompt for call in calls if not call.equal}),
    )


def paired(runs: Runs, policy: str, *, decoding: bool, prompts: Sequence[int] | None = None) -> Paired:
    """Seconds of ``policy`` and of plain decoding for the same tokens, of the prompts that every repeat has finished.

    ``prompts`` picks some by number.

    In total: each call from start to end.  Decoding alone: the assisted call from the end of its first target pass on,
    which leaves the tokens from position accepted + 1 to the end; and the plain call's own steps of just these tokens.
    Where the texts differ, plain decoding's mean step stands for each token that the assisted call emitted; a plain
    text of one token has no step, and its prompt is left out.  Raises ValueError where no prompt is left.
    """
    plain = {(call.repeat, call.prompt): call for call in runs.of(PLAIN)}
    calls = runs.of(policy)
    numbers = sorted({call.prompt for call in calls})  # any numbers: a record may hold a single large one
    column = {number: place for place, number in enumerate(numbers)}
    repeats = {call.repeat for call in calls}
    shape = (len(repeats), len(numbers))
    found = Paired(np.full(shape, np.nan), np.full(shape, np.nan))
    whole = max(repeats) < len(repeats)  # none of them is missing
    for call in calls if whole else ():
        key, at = (call.repeat, call.prompt), (call.repeat, column[call.prompt])
        if key in plain:
            found.plain[at], found.assisted[at] = _decoding(plain[key], call) if decoding else _total(plain[key], call)
    usable = ~np.isnan(found.plain).any(axis=0)
    if prompts is not None:
        usable &= np.isin(numbers, prompts)
    if not usable.any():
        raise ValueError(f"policy {policy!r}: no prompt is finished in every repeat; `oracle measure --resume` goes on")
    return Paired(found.plain[:, usable], found.assisted[:, usable])


def _total(plain: Call, call: Call) -> tuple[float, float]:
    if len(plain.tokens) == len(call.tokens):
        return plain.total_seconds, call.total_seconds
    return plain.prefill_seconds + _mean_step(plain) * (len(call.tokens) - 1), call.total_seconds


def _decoding(plain: Call, call: Call) -> tuple[float, float]:
    return float(plain_steps(plain, call).sum()), call.total_seconds - call.prefill_seconds


def plain_steps(plain: Call, call: Call) -> np.ndarray:
    """Plain decoding's seconds per token after ``call``'s first iteration; its mean step where the texts differ."""
    first = int(call.accepted[0]) + 1
    if np.array_equal(plain.tokens, call.tokens):
        return plain.seconds[first:]
    return np.full(len(call.tokens) - first, _mean_step(plain))


def _mean_step(plain: Call) -> float:
    return float(plain.seconds[1:].mean()) if len(plain.tokens) > 1 else float("nan")


def by_repeat(seconds: Paired) -> np.ndarray:
    """The speedup of each repeat, float [R]; nan where nothing was decoded."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return seconds.plain.sum(axis=1) / seconds.assisted.sum(axis=1)


def speedup(seconds: Paired) -> Estimate:
    """Ratio of the totals of each prompt's median over repeats, with its interval; nan where nothing was decoded."""
    return ratio(*seconds.medians)


def summary(runs: Runs, policies: Sequence[str] | None = None) -> list[Measured]:
    """One row a policy, plain decoding left out."""
    return [measured(runs, policy) for policy in (policies or runs.policies) if policy != PLAIN]
