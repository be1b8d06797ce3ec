"""What a ladder says, in words that need no others: one sentence on the headroom, and remarks on what is missing."""

from __future__ import annotations

import math

from analysis.ladder.ladder import Ladder
from analysis.ladder.replays import CONSTANT, DEFAULT, LIBRARY, POLICY, SIGNALS
from analysis.ladder.rungs import GONE
from analysis.replay.oracles import OPTIMAL

_NOTHING = 1e-9  # what is above 1 by less is rounding
_SHOWN = 4  # policies that are named before the rest are counted


def headroom_sentence(found: Ladder) -> str:
    """What lies between the best constant and the best that there could be, and who takes how much of it."""
    constant, optimal, over = found.of_name(CONSTANT), found.of_name(OPTIMAL), found.headroom
    if constant.speedup is None or optimal.speedup is None or over is None:
        return (
            "Headroom is the time that could still be saved over the best fixed draft length by knowing beforehand "
            "which draft tokens will be kept; it cannot be told here: "
            f"{constant.why[0].removeprefix(GONE) if constant.why else 'no constant could be judged'}."
        )
    less = 1 - 1 / over.value
    return (
        f"Headroom: the best fixed draft length decodes {constant.speedup.value:.2f} times as fast as no draft; to "
        f"know beforehand which draft tokens will be kept would make it {optimal.speedup.value:.2f} times, "
        f"in {less:.0%} less time.{_takers(found)}{_by_chance(found)}{_no_gain(found)}"
    )


def _takers(found: Ladder) -> str:
    """How much of the headroom can be had without knowing the text."""
    said = []
    for name, words in ((POLICY, "the best policy"), (SIGNALS, "a model of all recorded signals")):
        each = found.of_name(name).share
        if each is not None:
            interval = "" if math.isnan(each.low) else f" ({100 * each.low:.0f} to {100 * each.high:.0f} %)"
            said.append(f"{words} saves {100 * each.value:.0f} %{interval}")
    rest = "the rest takes a better rule or model, or foreknowledge"
    return f" Of that time {' and '.join(said)}; {rest}." if said else ""


def _by_chance(found: Ladder) -> str:
    null, over = found.null_headroom, found.headroom
    if null is None or over is None:
        return ""
    return (
        f" To know it beforehand is worth {100 * (over.value - 1):.0f} % over the best constant, and still "
        f"{100 * (null.mean - 1):.0f} % where the tokens of each text are shuffled: only what goes beyond that lies in "
        "their order."
    )


def _no_gain(found: Ladder) -> str:
    best = max(each.speedup.value for name in (LIBRARY, CONSTANT, POLICY) if (each := found.of_name(name)).speedup)
    return "" if best > 1 + _NOTHING else " None of the policies is faster here than no draft."


def remarks(found: Ladder) -> list[str]:
    """What stands behind the table, and for each thing that is missing why."""
    said = [_library(found)]
    if found.prompts < found.of:
        said.append(f"replayed on {found.prompts:,} of {found.of:,} prompts, evenly spread")
    if found.left_out:
        named = ", ".join(found.left_out[:_SHOWN])
        more = f" and {len(found.left_out) - _SHOWN} more" if len(found.left_out) > _SHOWN else ""
        said.append(f"not tried for {POLICY}, because the trace recorded too little for them: {named}{more}")
    signals = found.of_name(SIGNALS)
    if signals.speedup is not None:
        said.append(
            f"{SIGNALS}: two logistic regressions on all recorded signals, fitted to one half of the prompts and "
            f"judged on the other, in drafts of up to {found.longest_draft} tokens; another model may reach more"
        )
    by_reason: dict[str, list[str]] = {}
    for each in found.rungs:
        for reason in each.why:
            by_reason.setdefault(reason, []).append(each.name)
    for reason, names in by_reason.items():
        where = "every rung" if len(names) == len(found.rungs) else ", ".join(names)
        missing = reason.removeprefix(GONE)
        said.append(f"{where}: missing, {missing}" if missing != reason else f"{where}: without {reason}")
    return said


def _library(found: Ladder) -> str:
    if found.drafting == "prompt-lookup":
        return f"there is no {LIBRARY} of a lookup: transformers looks up as many tokens as it is told, or none"
    if found.drafting is not None:
        return f"the {LIBRARY} is transformers' {DEFAULT} with nothing set, whose threshold stays for such a draft"
    roc = "which this trace recorded too little for" if found.roc is None else f"whose speedup here is {found.roc}"
    return (
        f"the {LIBRARY} is transformers' {DEFAULT} with nothing set; where scikit-learn is installed, transformers "
        f"from 5.20 on moves its threshold, which is the policy roc, {roc}"
    )
