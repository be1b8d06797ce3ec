"""Two traces of the same prompts against each other: another draft, another target, another number format, ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.belonging import ROLES, WEIGHTS, Side, other_form, together
from analysis.cost import CostModel, assumed
from analysis.describe.signals import accepted_first
from analysis.intervals import Estimate, ends, ratio, share_bands, t_975, weighed
from analysis.replay.drafts import NotRecorded
from analysis.replay.result import Totals
from analysis.replay.simulate import USUAL, simulate_totals
from oracle.policies import Policy
from oracle.policies.names import name_of
from oracle.records.shown import Shown
from oracle.records.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

# What a trace says of how it was made, beside which models made it, and what to call it.
_SETTINGS = {"decoding": "decoding", "reference": "text recorded from", "draft_kind": "kind of draft", "chat": "chat"}


@dataclass(frozen=True)
class Difference:
    """Something that the two traces say differently of themselves."""

    what: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.what}: {self.first} / {self.second}"


@dataclass(frozen=True)
class Row:
    """One policy on both; ``ratio`` is paired by prompt, above 1 where the second is faster."""

    policy: str
    first: Estimate  # speedup
    second: Estimate
    ratio: Estimate


@dataclass(frozen=True, repr=False)
class Versus(Shown):
    """Two traces on the prompts that both hold: same id, same tokens, same limit."""

    differences: tuple[Difference, ...]
    prompts: int  # common ones
    of: tuple[int, int]  # that each of them has
    different_texts: int  # common prompts whose texts are not the same
    compares: str  # what ``ratio`` is a ratio of, in words
    first_agreement: Estimate  # share of the text's tokens that the draft would choose, or the rounds' first ones
    second_agreement: Estimate
    agreement_difference: Estimate  # second less first, paired by prompt
    rows: tuple[Row, ...]
    left_out: dict[str, str]  # policies that one of them cannot replay, and why
    notes: tuple[str, ...]  # whether prices and traces belong together, as far as that is not known

    def in_short(self) -> str:
        apart = f", {self.different_texts:,} with other texts" if self.different_texts else ""
        return f"{len(self.rows)} policies on {self.prompts:,} common prompts{apart}, {self.compares}"

    def to_frame(self) -> pd.DataFrame:
        """One row a policy; ``ratio`` is above 1 where the second trace is faster."""
        import pandas as pd

        rows = [
            {
                "policy": each.policy,
                **ends("first", each.first),
                **ends("second", each.second),
                **ends("ratio", each.ratio),
            }
            for each in self.rows
        ]
        return pd.DataFrame(rows)


def versus(
    first: Trace,
    second: Trace,
    policies: Sequence[str | Policy | Callable] = USUAL,
    costs: tuple[CostModel, CostModel] | None = None,
) -> Versus:
    """Compare ``second`` with ``first`` under ``policies``, each trace at its own prices (default: as assumed).

    Raises ValueError for policies that are not known, for prices of another pair, and for traces without a common
    prompt.
    """
    prices = costs or (assumed(first), assumed(second))
    notes = [note for trace, cost in zip((first, second), prices, strict=True) for note in _belongs(trace, cost)]
    common = _common(first, second)
    one, other = (trace if len(common) == trace.prompts else trace.select(common) for trace in (first, second))
    other = _in_order(other, one.ids)
    differences = _differences(first, second)
    measure = _Measure.of(one, other, differences, prices)
    rows, left_out = _rows(one, other, policies, prices, measure)
    return Versus(
        differences=differences,
        prompts=one.prompts,
        of=(first.prompts, second.prompts),
        different_texts=int((~_same_texts(one, other)).sum()),
        compares=measure.words,
        **_agreement(one, other),
        rows=tuple(rows),
        left_out=left_out,
        notes=tuple(dict.fromkeys(notes)),
    )


def _belongs(trace: Trace, cost: CostModel) -> tuple[str, ...]:
    return together(trace, cost=cost).expect().notes


def _common(first: Trace, second: Trace) -> list[str]:
    """Ids of the prompts that both hold, in the first's order.  Raises ValueError, saying why, where there is none."""
    place = {name: number for number, name in enumerate(second.ids)}
    found, problem = [], None
    for number, name in enumerate(first.ids):
        other = place.get(name)
        reason = _other_prompt(first, number, second, other)
        problem = problem or reason
        if reason is None:
            found.append(name)
    if not found:
        raise ValueError(f"the traces have no prompt in common: {problem}; collect the same prompts with both")
    return found


def _other_prompt(first: Trace, number: int, second: Trace, other: int | None) -> str | None:
    """Why a prompt of the first is not that of the second; None where it is."""
    name = f"prompt {first.ids[number][:100]!r}"
    if other is None:
        return f"{name} is in the first alone"
    one, two = (
        trace.prompt_tokens[trace.prompt_offsets[at] : trace.prompt_offsets[at + 1]]
        for trace, at in ((first, number), (second, other))
    )
    if not np.array_equal(one, two):
        form = other_form(first.meta, second.meta, "the second")
        return f"{name} has other tokens in the second{f' ({form})' if form else ''}"
    limits = int(first.max_new_tokens[number]), int(second.max_new_tokens[other])
    return None if limits[0] == limits[1] else f"{name} has max_new_tokens {limits[0]} and {limits[1]}"


def _in_order(trace: Trace, ids: Sequence[str]) -> Trace:
    """The trace with its prompts in the order of ``ids``."""
    if trace.ids == tuple(ids):
        return trace
    from oracle.records.trace import iter_records

    records = {each.id: each for each in iter_records(trace)}
    return Trace.from_records([records[name] for name in ids], trace.meta)


def _differences(first: Trace, second: Trace) -> tuple[Difference, ...]:
    """What is compared: the facts that both say, and say differently."""
    sides = Side("the first", first.meta), Side("the second", second.meta)
    found = []
    for role in ROLES:
        weights, names, formats = (_facts(sides, role, fact) for fact in (WEIGHTS, "model", "dtype"))
        if formats is not None:
            found.append(Difference(f"{role}'s dtype", *formats))
        # The fingerprint is of the weights as they were loaded, so that it differs in another number format too.
        called = names or weights if weights is not None and formats is None else names if weights is None else None
        if called is not None:
            found.append(Difference(role, *called))
    for name, called in _SETTINGS.items():
        if name in first.meta and name in second.meta and first.meta[name] != second.meta[name]:
            found.append(Difference(called, str(first.meta[name])[:100], str(second.meta[name])[:100]))
    if first.dataset != second.dataset:
        found.append(Difference("data set", first.dataset, second.dataset))
    return tuple(found)


def _facts(sides: tuple[Side, Side], role: str, fact: str) -> tuple[str, str] | None:
    """What both say of a model; None where one is silent or they say the same."""
    first, second = (side.of(role, fact) for side in sides)
    return (first[:100], second[:100]) if first and second and first != second else None


def _same_texts(one: Trace, other: Trace) -> np.ndarray:
    """Of each prompt, whether both wrote the same text, bool [P]."""
    spans = zip(one.offsets, one.offsets[1:], other.offsets, other.offsets[1:], strict=False)
    return np.array([np.array_equal(one.target_tokens[a:b], other.target_tokens[c:d]) for a, b, c, d in spans])


@dataclass(frozen=True)
class _Measure:
    """What is compared under every policy: seconds, where both sides' seconds are the same thing, else speedups."""

    words: str
    seconds: bool
    scale: np.ndarray  # float [P], tokens of the second's text for each of the first's
    one_price: bool  # errors of the prices are then the same on both sides

    @staticmethod
    def of(one: Trace, other: Trace, differences: Sequence[Difference], costs: tuple[CostModel, CostModel]) -> _Measure:
        scale = np.diff(other.offsets) / np.diff(one.offsets)
        targets = any(each.what.startswith("target") for each in differences)
        alike, measured = costs[0] == costs[1], costs[0].unit == "s"
        if costs[0].unit != costs[1].unit or (targets and not measured):
            words = "speedups, each over plain decoding with its own target, which are no seconds of one machine"
            return _Measure(words, False, scale, alike)
        per_token = "" if (scale == 1).all() else " a token, as texts differ in length"
        return _Measure(f"{'seconds' if measured else 'time in target steps'}{per_token}", True, scale, alike)

    def ratio(self, first: Totals, second: Totals) -> Estimate:
        """Of two results on the same prompts; above 1 where ``second`` is faster."""
        if self.seconds:
            variance = second.price_variance(first) if self.one_price else _own(first) + _own(second)
            return ratio(first.prompt_seconds * self.scale, second.prompt_seconds, log_variance=variance)
        moves = _moves(second) - _moves(first)
        shares = second.prompt_seconds / second.prompt_seconds.sum()
        # What a prompt moves the log of a ratio of two speedups; a ratio of 1 moved so has its relative interval.
        found = ratio(shares + moves, shares, log_variance=first.price_variance() + second.price_variance())
        times = second.speedup / first.speedup
        return Estimate(times, times * found.low, times * found.high)


def _own(found: Totals) -> float:
    """Variance, from the prices' errors, of the log of a total by itself."""
    return float((found.shifts**2).sum())


def _moves(found: Totals) -> np.ndarray:
    """How far each prompt moves the log of the speedup, float [P]."""
    return found.plain_seconds / found.plain_seconds.sum() - found.prompt_seconds / found.prompt_seconds.sum()


def _rows(
    one: Trace,
    other: Trace,
    policies: Sequence[str | Policy | Callable],
    costs: tuple[CostModel, CostModel],
    measure: _Measure,
) -> tuple[list[Row], dict[str, str]]:
    first, second = (
        dict(simulate_totals(trace, policies, cost)) for trace, cost in zip((one, other), costs, strict=True)
    )
    rows, left_out = [], {}
    for number, name in enumerate(map(name_of, policies)):
        one_found, other_found = first[number], second[number]
        if isinstance(one_found, NotRecorded):
            left_out[name] = str(one_found)
        elif isinstance(other_found, NotRecorded):
            left_out[name] = str(other_found)
        else:
            speedups = one_found.speedup_estimate(), other_found.speedup_estimate()
            rows.append(Row(name, *speedups, measure.ratio(one_found, other_found)))
    return rows, left_out


def _agreement(one: Trace, other: Trace) -> dict[str, Estimate]:
    """Both agreements, each with Wilson's interval under clustering, and their difference with a paired t interval."""
    counted = [_hits(trace) for trace in (one, other)]
    shares = [float(hits.sum() / tokens.sum()) for hits, tokens in counted]
    ends = [share_bands(hits[:, None], tokens[:, None]) for hits, tokens in counted]
    alone = [Estimate(share, *(float(end[0]) for end in both)) for share, both in zip(shares, ends, strict=True)]
    moved = [(hits - share * tokens) / tokens.sum() for share, (hits, tokens) in zip(shares, counted, strict=True)]
    apart = shares[1] - shares[0]
    long = np.mean([tokens / tokens.sum() for _, tokens in counted], axis=0)
    variance, free = weighed((moved[1] - moved[0])[:, None], long[:, None])
    half = float(t_975(free)[0] * np.sqrt(variance)[0])
    return {
        "first_agreement": alone[0],
        "second_agreement": alone[1],
        "agreement_difference": Estimate(apart, apart - half, apart + half),
    }


def _hits(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of each prompt that the draft would choose too, and all of its tokens, float [P] each."""
    hits = np.bincount(trace.prompt_of, weights=accepted_first(trace), minlength=trace.prompts)
    return hits, np.diff(trace.offsets).astype(float)
