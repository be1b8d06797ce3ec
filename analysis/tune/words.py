"""What `tune` found, in sentences; each carries the numbers that it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.gains.heldout import FEWEST as FEWEST_FOR_GAIN
from analysis.gains.heldout import HeldOut
from analysis.intervals import Estimate
from analysis.replay.paired import FEWEST
from analysis.replay.sweep import LENGTHS
from analysis.tune.result import Tuned
from analysis.verdict import NO_DRAFT, on_policies
from oracle.policies import parse
from oracle.policies.library import fixed_length

_NAMED = 4  # families that the sentence on the group spells out


def sentences(found: Tuned) -> tuple[str, ...]:
    """Everything that is to be said of it, the advice first."""
    held = found.held
    assert held is not None
    texts = (
        _nothing_drafted(found) or _advice(found, held),
        *_few(found.prompts),
        *(() if math.isnan(held.gain.low) else (on_policies(held)[1],)),
        _group(found),
        _optimism(found),
        _edge(held),
        *_left_out(found),
    )
    return tuple(text for text in texts if text)


def _nothing_drafted(found: Tuned) -> str:
    if any(each.speedup.value != 1 for each in found.settings):
        return ""
    return (
        "Use no draft: every setting costs what no draft costs, for no text leaves room for one; collect longer texts "
        "(--max-new-tokens)."
    )


def _advice(found: Tuned, held: HeldOut) -> str:
    if found.policy == NO_DRAFT:
        how = "beats no draft" if held.policy_speedup.high < 1 else "is seen to beat no draft"
        return (
            f"Use no draft: nothing that was tried {how}; the best of {found.tried:,} settings has a speedup of "
            f"{held.policy_speedup}, {_judged(held.policy_speedup)}."
        )
    told = f"Use {found.policy}: {found.speedup} times as fast as no draft, {_judged(found.speedup)}"
    if found.speedup.low <= 1:
        return f"{told}; that it is faster at all, these prompts do not show for sure."
    return f"{told}."


def _judged(speedup: Estimate) -> str:
    return "on the prompts that chose it" if math.isnan(speedup.low) else "on prompts that did not choose it"


def _few(prompts: int) -> tuple[str, ...]:
    if prompts < FEWEST:
        few = f"With {prompts} prompt{'s' * (prompts > 1)}"
        return (f"{few} no choice can be judged on others: collect at least {FEWEST_FOR_GAIN}, better 50.",)
    if prompts < FEWEST_FOR_GAIN:
        return (
            f"With {prompts} prompts whether a policy beats a constant cannot be told: collect at least "
            f"{FEWEST_FOR_GAIN}, better 50.",
        )
    return ()


def _group(found: Tuned) -> str:
    if found.prompts < FEWEST:
        return ""
    of = found.tried + 1
    if len(found.group) == 1:
        return (
            f"Every other one of {of:,} settings (no draft among them) is told from {found.group[0]} (95 %, at once)."
        )
    return (
        f"Not distinguishable from the best (95 %, all at once) are {len(found.group):,} of {of:,} settings, no draft "
        f"counted: {_by_family(found.group)}. The simplest of them is {found.simplest}."
    )


def _by_family(group: Sequence[str]) -> str:
    """The settings of a group, each family with the ranges of its numbers, the most numerous first."""
    families: dict[str, list[str]] = {}
    for each in group:
        families.setdefault(each.partition(":")[0], []).append(each)
    ordered = sorted(families, key=lambda name: -len(families[name]))
    told = [_family(name, families[name]) for name in ordered[:_NAMED]]
    more = len(ordered) - len(told)
    return "; ".join(told) + (f"; and {more} more families" if more > 0 else "")


def _family(name: str, settings: Sequence[str]) -> str:
    """One setting as it is written; of several how many, and from what to what their numbers go."""
    if len(settings) == 1:
        return settings[0]
    values: dict[str, list[float]] = {}
    for setting in settings:
        for pair in setting.partition(":")[2].split(","):
            key, _, value = pair.partition("=")
            if value.replace(".", "", 1).isdigit():
                values.setdefault(key, []).append(float(value))
    ranges = [f"{key} {min(each):g} to {max(each):g}" for key, each in values.items() if min(each) < max(each)]
    return f"{len(settings)} of {name} ({', '.join(ranges)})" if ranges else f"{len(settings)} of {name}"


def _optimism(found: Tuned) -> str:
    if math.isnan(found.optimism):
        return ""
    return (
        f"Optimism: on the prompts that chose it the best setting looks {100 * found.optimism:.1f}% faster than on "
        f"others ({found.folds} folds)."
    )


def _edge(held: HeldOut) -> str:
    if fixed_length(parse(held.constant)) != LENGTHS[-1]:
        return ""
    return f"{LENGTHS[-1]} is the longest constant that was tried: a longer one may do better still."


def _left_out(found: Tuned) -> tuple[str, ...]:
    return tuple(f"{family} is left out, or in part: {reason}." for family, reason in found.left_out.items())
