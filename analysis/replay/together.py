"""Many policies on one trace: what they share is done once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from analysis.replay.drafts import Book, NotRecorded
from analysis.replay.lanes import Natural, Rows, natural, walk
from oracle.policies.contract import Policy, Prices, judges_alone, overrides
from oracle.policies.thresholds import Below


def shared_scans(book: Book, rules: Mapping[int, Policy]) -> Iterator[tuple[list[int], Natural | None]]:
    """The rules in groups that judge tokens alike, by number, and each group's scan of the trace.

    None where a rule cannot be scanned; where the trace holds too little for it, it will say so by its own name.
    """
    groups: dict[object, list[int]] = {}
    for number, rule in rules.items():
        groups.setdefault(_judgement(rule), []).append(number)
    for numbers in groups.values():
        first = rules[numbers[0]]
        try:
            yield numbers, natural(book, first) if judges_alone(first) else None
        except NotRecorded:
            yield numbers, None


def walked(book: Book, rule: Policy, cost: Prices | None, scan: Natural | None) -> Rows | NotRecorded:
    """`walk`, with what it raises as an answer."""
    try:
        return walk(book, rule, cost, scan)
    except NotRecorded as error:
        return error


def only_cap(rule: Policy) -> int | None:
    """The cap of a rule where that and how it judges tokens alone say how much it drafts; else None."""
    others = ("start", "send", "update", "next_prompt")
    if not isinstance(rule, Below) or type(rule).budget is not Below.budget:
        return None
    return None if any(overrides(rule, method) for method in others) else rule.tokens


def _judgement(rule: Policy) -> object:
    """Rules with equal values judge each token alike: known of the toolkit's own threshold; any other is on its own."""
    if isinstance(rule, Below) and judges_alone(rule) and type(rule).judge is Below.judge:
        return Below.judge, rule.threshold
    return id(rule)
