"""A diagnosis in words, paragraph by paragraph; every sentence carries the numbers that it rests on."""

from __future__ import annotations

import math

from analysis.diagnosis.found import Found, answer, settled
from analysis.gains.heldout import FEWEST
from analysis.intervals import Estimate
from analysis.replay.enough import percent
from analysis.verdict import NO_DRAFT

TIMES = 1.995  # a speedup from here on is said in times, not in per cent
CUT = 0.5  # share of the texts that the limit cut short, from which it is worth a word


def headline(found: Found) -> list[str]:
    """Faster or slower now, and with what is recommended."""
    return [_now(found), *_best(found)]


def why(found: Found) -> list[str]:
    """What an average iteration of the library's default yields, and where it stops wrongly."""
    each, stops = found.causes.iteration, found.causes.stops
    return [
        "The draft proposes some tokens, the target checks them all in one pass: an iteration. With the library's "
        f"default an average one yields {each.tokens:.2f} tokens and takes as long as {each.total:.2f} steps of the "
        "target alone, which yield one token each. Of these steps go to:",
        f"The draft's next token is the target's own in {found.causes.acceptance:.0%} of the places; of what it "
        f"proposed, {found.causes.accepted_share:.0%} was kept. It stopped too early in {stops.early:.0%} of the "
        f"iterations ({stops.missed:.1f} more tokens would have been kept), too late in {stops.late:.0%} "
        f"({stops.wasted:.1f} tokens refused).",
    ]


def split(found: Found) -> list[tuple[str, float, float, str]]:
    """The parts of an average iteration: name, target steps, share of the whole, and a remark."""
    each = found.causes.iteration
    share = each.wasted / each.total
    return [
        ("drafting", each.draft, each.draft / each.total, f"{share:.0%} for tokens that were refused"),
        ("checking", each.verification, each.verification / each.total, ""),
        ("overhead", each.overhead, each.overhead / each.total, ""),
    ]


def change(found: Found) -> list[str]:
    """Where it breaks even, what two better drafts would give, and what no setting can exceed."""
    what, even = found.what_if, found.what_if.break_even
    better = "" if what.more_accurate is None else (
        f", with one that is right a tenth more often ({what.acceptance_then:.0%}) {what.more_accurate.value:.2f}"
    )  # fmt: skip
    return [
        f"A draft step costs {even.draft_cost:.2f} of a target step. {_draft_cost(found)}{_acceptance(found)}",
        f"The best fixed length gives {what.now.value:.2f} times the speed of no draft here; with a draft twice as "
        f"fast it would give {what.twice_as_fast.value:.2f}{better}. No setting of this draft can exceed "
        f"{found.causes.ceiling.value:.2f}, which takes knowing the text beforehand.",
    ]


def drafts(found: Found) -> list[str]:
    """Which of several drafts; empty where there is one."""
    lines = [f"{name} was left out: {reason.rstrip('.')}." for name, reason in found.failed.items()]
    if not found.rivals:
        return lines
    best = [f"Best of {len(found.rivals) + 1} drafts: {found.draft}."]
    for each in found.rivals:
        told = "" if each.told_apart else ", which these prompts do not tell apart"
        best.append(f"It is {gain(each.best_over_it)} than {each.name} ({_plain(each.speedup)}){told}.")
    return [" ".join(best), *lines]


def surer(found: Found) -> list[str]:
    """How well the measured speedup is known, how many prompts would make it surer, and what is left unsure."""
    check = found.check
    if math.isnan(check.within) or math.isinf(check.within):
        return ["So few prompts say nothing of others.", *unsure(found)]
    known = f"The measured speedup of {check.judged} is known to within {percent(check.within)}"
    if check.closer is None:
        return [f"{known}.", *unsure(found)]
    share, count = check.closer
    longer = found.budget * max(1.0, count / check.prompts) / 60
    more = "; give more prompts too: all that there are were used" if found.exhausted else ""
    return [
        f"{known}; {percent(share)} would take about {count:,} prompts in the check instead of {check.prompts} "
        f"(--budget {math.ceil(longer)}m{more}).",
        *unsure(found),
    ]


def unsure(found: Found) -> list[str]:
    """What was too little to decide."""
    check, tuning, said = found.check, found.tuning, []
    if answer(check.arm(found.ran_as).speedup) == "undecided":
        said.append(f"whether {found.ran_as} is faster than no draft")
    if tuning.prompts < FEWEST:
        said.append(
            f"whether any setting beats a fixed length, which {tuning.prompts} recorded prompts cannot tell (it takes "
            f"{FEWEST})"
        )
    if len(tuning.group) > 1:
        said.append(f"which of {len(tuning.group):,} settings (of {tuning.tried:,} tried) is the best")
    if check.verdict == "undecided":
        said.append("whether replay and measurement agree within the budget for errors")
    if any(not each.told_apart for each in found.rivals):
        said.append("which draft is the best")
    if found.cut >= CUT:
        said.append(
            f"what comes after {found.max_new_tokens} tokens, where {found.cut:.0%} of the texts were cut "
            "(--max-new-tokens)"
        )
    notes = [f"Left unsure: {'; '.join(said)}."] if said else []
    if found.parted:
        notes.append(
            f"Of the {check.prompts} texts of the check {found.parted} with a draft are not those without one, at "
            "near-ties that this number format rounds differently."
        )
    return notes


# --- faster or slower -------------------------------------------------------------------------------------------------


def _now(found: Found) -> str:
    words = {"faster": "FASTER", "slower": "SLOWER", "undecided": "UNDECIDED"}[answer(found.now)]
    return (
        f"{words}. With the library's defaults ({found.default}), decoding with this draft is {gain(found.now)} than "
        f"without one, measured on {found.now_prompts} prompts."
    )


def _best(found: Found) -> list[str]:
    use, tuning, arm = settled(found), found.tuning, found.check.arm(found.ran_as)
    measured = f"measured on {found.check.prompts} prompts that had no part in choosing it"
    if tuning.policy == NO_DRAFT:
        return [_spoke_for_none(found, use, measured)]
    spoke = f"The recording spoke for {tuning.policy}{_run_as(found)}, but it"
    if use == NO_DRAFT:
        return [f"ADVICE: no draft. {spoke} is {gain(arm.speedup)} than no draft, {measured}. {_foretold(found)}"]
    if use != tuning.policy:
        return [
            f"ADVICE: keep the library's default. {spoke} is {gain(arm.over_default)} than the default, {measured}. "
            f"{_foretold(found)}"
        ]
    alone = "" if answer(arm.speedup) == "faster" else " That it pays is not certain yet."
    return [
        f"ADVICE: {tuning.policy}{_run_as(found)}. It is {gain(arm.speedup)} than no draft{_over_default(found)}, "
        f"{measured}.{alone} {_foretold(found)}"
    ]


def _spoke_for_none(found: Found, use: str, measured: str) -> str:
    """Where no replayed setting was seen to pay; ``use`` is another thing only where the check measured it faster."""
    usual, arm = found.check.arm(found.default), found.check.arm(found.ran_as)
    advice = {NO_DRAFT: "no draft", found.default: "keep the library's default"}.get(use, use)
    beside = "" if found.ran_as == found.default else f", the library's default {gain(usual.speedup)}"
    return (
        f"ADVICE: {advice}. Of {found.tuning.tried:,} settings that were replayed none is seen to pay; the best fixed "
        f"length, {found.ran_as}, is {gain(arm.speedup)} than no draft{beside}, {measured}. {_foretold(found)}"
    )


def _run_as(found: Found) -> str:
    if found.ran_as in (found.tuning.policy, found.tuning.constant):
        return ""
    return f" (run as {found.ran_as}: where scikit-learn is installed, transformers moves the threshold as it goes)"


def _over_default(found: Found) -> str:
    if found.ran_as == found.default:
        return ": that is the library's default"
    over = found.check.arm(found.ran_as).over_default
    if answer(over) == "undecided":
        return f" and not told apart from the library's default ({_ends(over)})"
    return f" and {gain(over)} than the library's default"


def _foretold(found: Found) -> str:
    check = found.check
    how = {
        "pass": "confirmed",
        "fail": "not confirmed: trust the measurement",
        "undecided": "close enough or not, so few prompts do not tell",
        None: "in a generator whose prices were not measured",
    }[check.verdict]
    foretold, found_there = (f"{each.value:.2f}" for each in (check.predicted, check.decoding))
    return f"For decoding alone {foretold} was foretold from the recording and {found_there} measured ({how})."


# --- what would change it ---------------------------------------------------------------------------------------------


def _draft_cost(found: Found) -> str:
    even, pays = found.what_if.break_even, found.what_if.now.value > 1
    if even.draft_cost_needed is None:
        return "Not even a draft that costs nothing would make a fixed length pay here: checking is too dear."
    length = str(even.by).removeprefix("constant:tokens=")
    if pays:
        return f"Up to {even.draft_cost_needed:.2f} a fixed length of {length} pays."
    return f"A fixed length of {length} would just pay at {even.draft_cost_needed:.2f}."


def _acceptance(found: Found) -> str:
    needed = found.what_if.break_even.acceptance_needed
    if needed is None:
        return " At these prices no acceptance is enough."
    return (
        f" At these prices a fixed length pays from {needed:.0%} of right tokens on; here it is "
        f"{found.what_if.acceptance:.0%}."
    )


# --- numbers in words -------------------------------------------------------------------------------------------------


def gain(speedup: Estimate) -> str:
    """Of 1.12 (1.08 to 1.16): 12 % faster (8.0 to 16 %); where the ends are on both sides of 1, both are said."""
    value, ends = _one(speedup.value), (speedup.low, speedup.high)
    if math.isnan(speedup.low) or ends == (1.0, 1.0):
        return value
    return f"{value} ({_ends(speedup)})"


def _ends(speedup: Estimate) -> str:
    ends = speedup.low, speedup.high
    if math.isnan(speedup.low):
        return f"{_one(speedup.value)}, without an interval"
    if min(ends) >= TIMES:
        return f"{ends[0]:.2f} to {ends[1]:.2f}"
    if ends[0] < 1 < ends[1] or max(ends) >= TIMES:
        return f"{_one(ends[0])} to {_one(ends[1])}"
    near, far = sorted(ends, key=lambda end: abs(end - 1))
    return f"{_points(near)} to {_points(far)} %"


def _one(speedup: float) -> str:
    if speedup >= TIMES:
        return f"{speedup:.2f} times as fast"
    return f"{_points(speedup)} % {'faster' if speedup >= 1 else 'slower'}"


def _points(speedup: float) -> str:
    points = 100 * abs(speedup - 1)
    return f"{points:.0f}" if points >= 9.5 else f"{points:.1f}"


def _plain(speedup: Estimate) -> str:
    if math.isnan(speedup.low):
        return f"{speedup.value:.2f}"
    return f"{speedup.value:.2f} [{speedup.low:.2f}, {speedup.high:.2f}]"
