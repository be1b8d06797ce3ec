"""Whether a trace, measured runs and prices belong together: one answer, for every command that joins two of them.

Of each fact there are three verdicts.  *Contradiction*: both sides say it, and differently.  *Unknown*: a side does not
say it.  *Fine*: they say the same.  Weights decide which models these are, and names never do: one model is called by
its name on the hub here and by its folder there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from analysis.cost import CostModel
    from oracle.records.runs import Call, Runs
    from oracle.records.trace import Trace

ROLES = ("target", "draft")
WEIGHTS = "weights_sample_sha256"
# What decides the form of prompts -> how messages call it, and how to get the first one's again.
_FORM = {
    "chat": ("the use of the chat template", "measure with --chat"),
    "system": ("the system message", "measure with that --system"),
    "template_args": ("the argument list of the template", "measure with those of --template-arg"),
    "template_date": ("the date that the chat template wrote", "measure with --date {}"),
}
_SHOWN = {"model": 100, WEIGHTS: 12, "dtype": 30}  # characters of each fact that a message shows


@dataclass(frozen=True)
class Side:
    """One of the things that are put together, and what it says of itself."""

    name: str  # as messages call it
    meta: Mapping[str, Any]  # ``meta.json`` of a trace or of runs, or the ``machine`` of a cost model
    kind: Literal["trace", "runs", "prices"] = "trace"

    def of(self, role: str, fact: str) -> str | None:
        """What it says of its target or draft; None where it says nothing."""
        found = _text(_mapping(self.meta.get(role)).get(fact))
        if found is None and (role, fact) == ("target", "dtype"):
            return _text(self.meta.get("dtype")) or _text(self.machine.get("dtype"))
        return found

    @property
    def machine(self) -> Mapping[str, Any]:
        """Where it was measured; empty for a trace."""
        return self.meta if self.kind == "prices" else _mapping(self.meta.get("machine"))

    @property
    def models(self) -> str | None:
        """The pair by name."""
        names = [self.of(role, "model") for role in ROLES]
        return " + ".join(name[:100] for name in names if name) or (_text(self.meta.get("pair")) or "")[:200] or None

    @property
    def lacks(self) -> list[str]:
        """Which of the facts that decide it does not say."""
        weights = [role for role in ROLES if not self.of(role, WEIGHTS)]
        found = [] if not weights else ["weights"] if len(weights) == 2 else [f"weights of the {weights[0]}"]
        return found if self.of("target", "dtype") else [*found, "dtype"]


@dataclass(frozen=True)
class Common:
    """The prompts that a trace and measured runs share: same id, same tokens, same limit."""

    ids: tuple[str, ...]  # those that every policy has finished in every repeat, in the trace's order
    recorded: int  # prompts of the trace
    measured: int  # prompts of the runs, unfinished ones too
    differences: tuple[str, ...]  # for each prompt of the runs that is not one of the trace's, why

    @property
    def some(self) -> bool:
        """Whether these are only some of the trace's prompts."""
        return len(self.ids) < self.recorded

    @property
    def words(self) -> str:
        return f"{len(self.ids):,} of {self.recorded:,} prompts were measured"


@dataclass(frozen=True)
class Answer:
    """What is known of things that are put together; sentences without a full stop."""

    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is not known, what is left out, and what machines differ
    common: Common | None = None  # where there are a trace and runs
    unknown: bool = False  # a side does not say of which weights or dtype it is

    @property
    def level(self) -> Literal["contradiction", "unknown", "fine"]:
        return "contradiction" if self.contradictions else "unknown" if self.unknown else "fine"

    def expect(self) -> Answer:
        """The same.  Raises ValueError where there is a contradiction."""
        if self.contradictions:
            raise ValueError(self.contradictions[0])
        return self


def together(trace: Trace | None = None, runs: Sequence[Runs] = (), cost: CostModel | None = None) -> Answer:
    """Whether what is given belongs together.  Prices that were made up belong to everything."""
    found = answer(sides(trace, runs, cost))
    if trace is None or len(runs) != 1:
        return found
    common = common_prompts(trace, runs[0])
    contradictions, notes = list(found.contradictions), list(found.notes)
    differences = list(common.differences)
    if differences and len(differences) == common.measured:
        contradictions.append(
            f"none of the {common.measured:,} measured prompts is one of the trace's: {differences[0]}"
        )
    elif differences:
        more = f" (and {len(differences) - 1:,} more)" if len(differences) > 1 else ""
        notes.append(f"left out of the comparison: {differences[0]}{more}")
    if common.some:
        notes.append(common.words)
    return Answer(tuple(contradictions), tuple(notes), common, found.unknown)


def sides(trace: Trace | None = None, runs: Sequence[Runs] = (), cost: CostModel | None = None) -> list[Side]:
    """What each of them says of itself, in that order."""
    found = [] if trace is None else [Side("the trace", trace.meta)]
    names = ["the runs"] if len(runs) == 1 else [f"the runs number {number + 1}" for number in range(len(runs))]
    found += [Side(name, one.meta, "runs") for name, one in zip(names, runs, strict=True)]
    return found if cost is None or not cost.machine else [*found, Side("the prices", cost.machine, "prices")]


def answer(given: Sequence[Side]) -> Answer:
    """Whether these are of the same pair, in the same number format, decoded alike; and on which machines."""
    pairs = list(combinations(given, 2))
    contradictions = [text for pair in pairs for text in _contradictions(*pair)]
    machines = [text for pair in pairs if (text := _other_machine(*pair))]
    unknown = _unknown(given)
    notes = machines if unknown is None else [unknown, *machines]
    return Answer(tuple(contradictions), tuple(notes), unknown=unknown is not None)


def common_prompts(trace: Trace, runs: Runs) -> Common:
    """Which prompts both hold, and of the measured ones that the trace does not hold, why."""
    place = {name: number for number, name in enumerate(trace.ids)}
    first: dict[str, Call] = {}
    for call in runs.calls:
        first.setdefault(call.id, call)
    form = other_form(trace.meta, runs.meta)
    found = {name: difference(trace, place.get(name), call, form) for name, call in first.items()}
    often = Counter(name for name, _, _ in {(call.id, call.policy, call.repeat) for call in runs.calls})
    wanted = len(runs.policies) * runs.repeats
    ids = tuple(name for name in trace.ids if name in found and found[name] is None and often[name] == wanted)
    return Common(ids, trace.prompts, len(first), tuple(text for text in found.values() if text))


def other_form(first: Mapping[str, Any], second: Mapping[str, Any], by: str = "the runs") -> str | None:
    """What two ``meta.json`` say differently of how texts became tokens; None where they say nothing differently.

    ``by`` is what the second one is of.  A template that writes today's date makes other prompts of the same texts.
    """
    for name, (label, option) in _FORM.items():
        one, other = ((meta.get(name) or None) for meta in (first, second))
        if one != other:
            said = f"{label} is {_form(one)} there and {_form(other)} in {by}"
            return f"{said}; {option.format(_form(one))}" if one else said
    return None


def _form(value: object) -> str:
    return "none" if value is None else str(value)[:60]


def difference(trace: Trace, number: int | None, call: Call, form: str | None = None) -> str | None:
    """Why the trace's prompt of that number (None: it has none of that id) is not the call's; None where it is.

    ``form`` is what ``other_form`` says of the two.
    """
    if number is None:
        return f"prompt {call.id!r} was measured but is not in the trace; collect and measure the same prompts"
    tokens = trace.prompt_tokens[trace.prompt_offsets[number] : trace.prompt_offsets[number + 1]]
    if not np.array_equal(tokens, call.prompt_tokens):
        why = f": {form}" if form else "; collect it again"
        return f"prompt {call.id!r} has other tokens in the trace than in the runs{why}"
    if (limit := int(trace.max_new_tokens[number])) != call.max_new_tokens:
        limits = f"{limit} in the trace, {call.max_new_tokens} in the runs"
        return f"prompt {call.id!r}: max_new_tokens is {limits}; collect and measure with the same limit"
    return None


def _contradictions(one: Side, other: Side) -> list[str]:
    """What the two say differently, the first thing of each model and then how texts came about."""
    found = [text for role in ROLES if (text := _other_model(one, other, role))]
    first, second = (_text(side.meta.get("decoding")) for side in (one, other))
    if first and second and first != second:
        found.append(
            f"the decoding is {first[:30]} in {one.name} and {second[:30]} in {other.name}; {_advice(one, other)}"
        )
    return found


def _other_model(one: Side, other: Side, role: str) -> str | None:
    # The number format first: the fingerprint is of the weights as they were loaded, so that it differs too then.
    for fact in ("dtype", WEIGHTS):
        first, second = one.of(role, fact), other.of(role, fact)
        if first and second and first != second:
            most = _SHOWN[fact]
            names = [(side.of(role, "model") or side.models or "")[: _SHOWN["model"]] for side in (one, other)]
            called = f" ({names[0]} and {names[1]})" if all(names) else ""
            return (
                f"{one.name} {_is(one)} of a {role} with {fact} {first[:most]}, {other.name} with {second[:most]}"
                f"{called}; {_advice(one, other)}"
            )
    return None


def _advice(one: Side, other: Side) -> str:
    kinds = {one.kind, other.kind}
    if "prices" in kinds:
        return (
            "calibrate that pair in that dtype, or take the prices all the same with --any-cost (`cost.for_any_pair()`)"
        )
    if kinds == {"runs"}:
        return "calibrate each pair in each dtype by itself"
    return "collect and measure the same pair in the same dtype"


def _unknown(given: Sequence[Side]) -> str | None:
    """One sentence on what is not said; None where everything is, or nothing is put together."""
    silent = [side for side in given if side.lacks]
    if len(given) < 2 or not silent:
        return None
    said = "; ".join(f"{side.name} {_do(side)} not say {' and '.join(side.lacks)}" for side in silent)
    names = {side.name: side.models for side in given if side.models}
    called = ", ".join(f"{name}: {models}" for name, models in names.items())
    old = any(side.kind == "prices" and side.models for side in silent)  # those for any pair do not name one
    anew = "; `oracle calibrate` records this" if old else ""
    by_name = f" (by name {called})" if len(set(names.values())) > 1 else ""
    return f"whether {_listed([side.name for side in given])} are of one pair is not known: {said}{by_name}{anew}"


def _other_machine(one: Side, other: Side) -> str | None:
    """Says that prices or runs are of different machines, or prices of another device than a trace."""
    if one.kind == "trace":
        recorded, accelerators = _text(one.meta.get("device")), other.machine.get("accelerators")
        if other.kind != "prices" or recorded is None or not isinstance(accelerators, list):
            return None
        if (recorded == "cpu") == (not accelerators):
            return None
        there = _where(other)
        return f"the trace was recorded on {recorded[:50]} and the prices measured on {there}, whose speedups these are"
    if any(
        one.machine.get(name) is not None and other.machine.get(name) is not None
        and one.machine[name] != other.machine[name]
        for name in ("processor", "accelerators", "threads")
    ):  # fmt: skip
        return f"{one.name} and {other.name} were measured on different machines: {_where(one)} and {_where(other)}"
    return None


def _where(side: Side) -> str:
    """The machine in a few words."""
    machine = side.machine
    devices = machine.get("accelerators")
    parts = [*(devices if isinstance(devices, list) else ()), machine.get("processor")]
    threads = [f"{machine['threads']} threads"] if isinstance(machine.get("threads"), int) else []
    return ", ".join([*(str(part)[:80] for part in parts[:4] if part), *threads]) or "a machine without a name"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _is(side: Side) -> str:
    return "is" if side.kind == "trace" else "are"


def _do(side: Side) -> str:
    return "does" if side.kind == "trace" else "do"


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _text(found: object) -> str | None:
    """A fact; what is no text says nothing."""
    return found if isinstance(found, str) and found else None
