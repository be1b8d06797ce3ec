"""Many policies on one trace: what they share is done once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.replay.drafts import Book, NotRecorded
from analysis.replay.lanes import Rows, natural, walk, walk_caps
from oracle.policies.contract import Policy, Prices, judges_alone, overrides
from oracle.policies.thresholds import Below


def walk_all(
    book: Book, rules: Mapping[int, Policy], cost: Prices | None = None
) -> Iterator[tuple[int, Rows | NotRecorded]]:
    """(number, rows) of each rule, in any order; `NotRecorded` for one that reads more than the trace holds.

    Rules that judge tokens alike share a scan of the trace, and those of them that differ in their cap only are lanes of
    one walk.
    """
    groups: dict[object, list[int]] = {}
    for number, rule in rules.items():
        groups.setdefault(_judgement(rule), []).append(number)
    for numbers in groups.values():
        first = rules[numbers[0]]
        try:
            scan = natural(book, first) if judges_alone(first) else None
        except NotRecorded:  # each of them will say so by its own name
            scan = None
        capped = [number for number in numbers if scan is not None and _capped_only(rules[number])]
        yield from zip(capped, walk_caps(book, [rules[number] for number in capped], scan), strict=True)
        for number in numbers:
            if number not in capped:
                try:
                    yield number, walk(book, rules[number], cost, scan)
                except NotRecorded as error:
                    yield number, error


def _judgement(rule: Policy) -> object:
    """Rules with equal values judge each token alike: known of the toolkit's own threshold; any other is on its own."""
    if judges_alone(rule) and getattr(type(rule), "judge", None) is Below.judge:
        return Below.judge, rule.threshold
    return id(rule)


def _capped_only(rule: Policy) -> bool:
    """Whether ``tokens`` and the threshold alone say how much the rule drafts."""
    others = ("start", "send", "update", "next_prompt")
    return type(rule).budget is Below.budget and not any(overrides(rule, method) for method in others)
