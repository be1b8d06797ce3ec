"""The verdict in words: is one lookahead for all enough, what is lost by it, and what could win it back.

A pure function of numbers that other modules computed; every sentence carries the numbers that it rests on.  The
report, ``oracle stats`` and whatever else shows a verdict print these sentences and no others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from analysis.describe.signals import SignalQuality
from analysis.describe.statistics import Description
from analysis.gains.heldout import HeldOut
from analysis.gains.loss import BreakEven, Iteration, Loss
from analysis.gains.split import HELD_OUT, HINDSIGHT, Gains, Null
from analysis.intervals import Estimate
from analysis.replay.oracles import OPTIMAL

SMALL_GAIN = 0.02  # of the time; less than this is not worth a policy, however well it is known
UNKNOWN = 3.0  # times as fast: who can hide that much knows nothing
SOME_SIGNAL, GOOD_SIGNAL = 0.65, 0.8  # AUC
LONG_TAIL, MUCH_CUT = 0.1, 0.1  # shares of the accepted tokens that are worth a word
NO_DRAFT = "none"


class Tested(Protocol):
    """What is read of a test of i.i.d. acceptance."""

    @property
    def rejected(self) -> bool | None: ...
    @property
    def sentence(self) -> str: ...


@dataclass(frozen=True)
class Evidence:
    """All that a verdict rests on; what could not be computed is None."""

    description: Description
    iid: Tested
    gains: Gains | None  # None where tokens cannot be shuffled
    held_out: HeldOut
    oracle_speedup: Estimate
    loss: Loss | None  # where no draft is advised
    signals: Sequence[SignalQuality] = ()


@dataclass(frozen=True)
class Verdict:
    """Each claim is None where the data cannot say; False never means "none", but "at most `SMALL_GAIN`"."""

    pays: bool | None  # whether the best setting that was tried is faster than the target alone
    iid_rejected: bool | None
    prompts_differ: bool | None  # whether differences between prompts add to the oracle's gain
    order_matters: bool | None  # whether the order of tokens within prompts adds to it
    per_prompt: bool | None  # whether a constant for each prompt, held out, is faster than one for all
    foreseeable: bool | None  # whether a policy that was tried, held out, is faster than the best constant
    predictable: str | None  # how well signals foretell acceptance: "well", "partly" or "hardly"
    advice: str  # the policy to use; `NO_DRAFT`: the target alone
    sentences: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def grounds(self) -> tuple[str, ...]:
        """The sentences but for the advice, which is the last one."""
        return self.sentences[:-1]


def verdict(found: Evidence) -> Verdict:
    """The verdict on one trace."""
    speedup, advice = found.held_out.policy_speedup, advised(found.held_out)
    foreseeable, over_constant = on_policies(found.held_out)
    differ, order, on_split = _split(found.gains)
    per_prompt, on_prompts = _per_prompt(found.gains)
    predictable, on_signals = _signals(found.signals)
    sentences = (
        *_loss(found),
        found.iid.sentence,
        *_caveats(found.description),
        _gap(found),
        on_split,
        _variance(found.description),
        on_prompts,
        on_signals,
        over_constant,
        _advice_words(advice, found, foreseeable),
    )
    return Verdict(
        pays=True if speedup.low > 1 else False if speedup.high < 1 else None,
        iid_rejected=found.iid.rejected,
        prompts_differ=differ,
        order_matters=order,
        per_prompt=per_prompt,
        foreseeable=foreseeable,
        predictable=predictable,
        advice=advice,
        sentences=tuple(text for text in sentences if text),
    )


def advised(held: HeldOut) -> str:
    """The policy to use: the best one where it is seen to beat the best constant or alone is seen to pay.

    `NO_DRAFT` where what would be used is not faster than the target alone.
    """
    if held.gain.low > 1 and held.policy_speedup.value > 1:
        return held.policy
    if held.constant_speedup.value > 1:
        return held.constant
    return held.policy if held.policy_speedup.low > 1 else NO_DRAFT


# --- whether the draft pays, and why not ------------------------------------------------------------------------------


def _loss(found: Evidence) -> list[str]:
    if found.loss is None:
        return []
    best, held = found.loss.iteration.policy, found.held_out
    sure = held.policy_speedup.high < 1
    first = (
        f"The draft {'does not pay' if sure else 'is not seen to pay'} at these prices: the best of {held.tried} "
        f"settings (here {best}) has a speedup over the target alone of {_judged(held.policy_speedup)}."
    )
    oracle = (
        f" {OPTIMAL}, which knows the text and drafts only where that pays, reaches {_speedup(found.oracle_speedup)}."
    )
    return [first + oracle, time_words(found.loss.iteration), _break_even(found.loss.break_even, found.description)]


def time_words(each: Iteration) -> str:
    """What an average iteration yields, and where its time goes."""
    return (
        f"Why: an average iteration of {each.policy} yields {_plural(each.tokens, 'token')} and takes as long as "
        f"{each.total:.2f} steps of the target alone: {each.draft:.2f} for drafting ({each.wasted:.2f} of it for "
        f"tokens that are not kept), {each.verification:.2f} for the verification, {each.overhead:.2f} for overhead."
    )


def _break_even(each: BreakEven, description: Description) -> str:
    if each.draft_cost_needed is None:
        price = "even a draft that costs nothing would not make a constant lookahead pay"
    else:
        price = (
            f"{each.by} would just pay with a draft step at {each.draft_cost_needed:.2g} of a target step; its own "
            f"cost {each.draft_cost:.2g} here on average"
        )
    found = description.everything.acceptance_rate
    rate = "not known" if math.isnan(found.value) else str(found)
    if each.acceptance_needed is None:
        need = f"at these prices no acceptance is enough (here it is {rate})"
    else:
        need = f"or at these prices with an i.i.d. acceptance of {each.acceptance_needed:.2f}; here it is {rate}"
    return f"Break-even: {price}; {need}."


# --- what the oracle's gain is made of --------------------------------------------------------------------------------


def _gap(found: Evidence) -> str:
    held = found.held_out
    reach = f"The best constant lookahead (here {held.constant}) reaches a speedup of {_judged(held.constant_speedup)}"
    if found.gains is None:
        return (
            f"{reach}; {OPTIMAL}, which knows the text, {_speedup(found.oracle_speedup)}. How much of that coin flips "
            "would give cannot be told: tokens cannot be shuffled where no text has two of them, or where the draft's "
            "choices depend on where a round began."
        )
    oracle = found.gains.of_kind(OPTIMAL)
    sampled = (
        "" if found.gains.prompts == found.gains.of else f" (on {found.gains.prompts:,} of {found.gains.of:,} prompts)"
    )
    return (
        f"{reach}. {OPTIMAL}, which knows the text, is {_percent(oracle.gain)} faster than the constant that is best "
        f"here{sampled}; of coin flips with the same agreement it would make {_null(oracle.whole)} (tokens shuffled "
        f"over all texts, {found.gains.shuffles} times)."
    )


def _split(gains: Gains | None) -> tuple[bool | None, bool | None, str]:
    if gains is None:
        return None, None, ""
    split, whole = gains.split, gains.of_kind(OPTIMAL).gain.value
    if math.isnan(split.beyond.low):
        return None, None, "Whether more than coin flips is behind that, so few prompts cannot tell; collect more."
    differ, chance = _above(split.between, 0), ""
    if differ and not gains.persistence.low > 0:
        # Tokens that hang together within texts make texts differ too, though prompts are alike.
        differ, chance = None, " (which the halves of the texts do not confirm)"
    return (
        differ,
        _above(split.within, 0),
        f"So of its {100 * whole:.1f} points {_percent(split.coin, '')} are foreknowledge of coin flips, "
        f"{_part(split.between)} differences between prompts{chance}, {_part(split.within)} the order of tokens within "
        "prompts.",
    )


def _part(found: Estimate) -> str:
    if math.isnan(found.low):
        return f"{_percent(found, '')} (of too few prompts for an interval)"
    sure = found.low > 0 or found.high < 0
    return f"{_percent(found, '')}{'' if sure else ' (not distinguishable from nothing)'}"


def _variance(description: Description) -> str:
    """The same two parts in the variance of the oracle SL."""
    found = description.everything.heterogeneity
    if math.isnan(found.between.value) or math.isnan(found.between.low):
        return ""
    return (
        f"To the variance that coin flips would give the oracle SL, differences between prompts add "
        f"{_percent(found.between)}, the order of tokens within prompts {_percent(found.within)}."
    )


def _per_prompt(gains: Gains | None) -> tuple[bool | None, str]:
    if gains is None:
        return None, ""
    held, hindsight = gains.of_kind(HELD_OUT), gains.of_kind(HINDSIGHT)
    claim = _above(held.gain, 0)
    if math.isnan(held.gain.low):
        return None, ""
    words = "" if claim else ", not distinguishable from nothing" if held.gain.high >= 0 else ", a loss"
    return claim, (
        f"A constant for each prompt, chosen on one half of its text and judged on the other, gains "
        f"{_percent(held.gain)} over one for all{words} (tokens shuffled over all texts: {_null(held.whole)}); "
        f"chosen with hindsight {_percent(hindsight.gain)} (shuffled: {_null(hindsight.whole)})."
    )


# --- what could win it back -------------------------------------------------------------------------------------------


def on_policies(held: HeldOut) -> tuple[bool | None, str]:
    """Whether a setting that was tried beats the best constant on other prompts (None: unknown), and that in words."""
    if math.isnan(held.gain.low):
        return None, "What a policy would gain on other texts cannot be told from so few prompts; collect more."
    # Only the bound for all settings at once says that none of them gains; the held-out one judges a single choice.
    claim = True if held.gain.low > 1 else False if held.hidden < 1 + SMALL_GAIN else None
    judged = f"the best of {held.tried} settings, judged on prompts that did not choose it, gains {_gain(held.gain)}"
    if held.gain.low == held.gain.high == 1:
        judged = f"the best of {held.tried} settings, chosen on other prompts, is that constant and gains nothing"
    if claim:
        return True, f"What signals and past outcomes foresee: {judged} over the best constant."
    hidden = f"the largest gain of one of them that the data could hide is {100 * (held.hidden - 1):.1f}%"
    if held.hidden > UNKNOWN:
        hidden = "how much one of them could gain, these prompts do not tell"
    return claim, (f"No setting that was tried is seen to beat the best constant: {judged} over it; {hidden}.")


def _signals(signals: Sequence[SignalQuality]) -> tuple[str | None, str]:
    known = [signal for signal in signals if not math.isnan(signal.auc.value)]
    if not known:
        return (
            None,
            "No recorded signal could be judged: the draft was always right or always wrong." if signals else "",
        )
    best = max(known, key=lambda signal: signal.auc.value)
    grade = _grade(best.auc)
    how = "How well the recorded signals foretell acceptance is not known well" if grade is None else (
        f"Acceptance is {grade} foretold by the recorded signals"
    )  # fmt: skip
    return grade, (
        f"{how}: the best is {best.signal}, with an AUC of {best.auc} at {best.count:,} positions ({best.positions}; "
        "0.5 is a coin, 1 is perfect)."
    )


def _grade(auc: Estimate) -> str | None:
    """The word that holds for the whole interval; None where none does."""
    if auc.low >= GOOD_SIGNAL:
        return "well"
    if auc.high < SOME_SIGNAL:
        return "hardly"
    return "partly" if auc.low > 0.5 else None


def _advice_words(advice: str, found: Evidence, foreseeable: bool | None) -> str:
    if found.loss is not None:
        oracle = found.oracle_speedup.value - 1
        rest = "" if oracle >= SMALL_GAIN else "; no setting can change that"
        return f"Advice: use no draft, or a cheaper one{rest}."
    held = found.held_out
    finer = f" Of {held.tried} settings, that is: `oracle tune` tries finer steps, and may name another one."
    if advice == held.constant:
        return f"Advice: keep {advice}.{finer}"
    small = ", little as that gains" if foreseeable and held.gain.value - 1 < SMALL_GAIN else ""
    return f"Advice: use {advice}{small}.{finer}"


# --- caveats ----------------------------------------------------------------------------------------------------------


def _caveats(description: Description) -> list[str]:
    found, without = description.everything, description.without_loops
    longest, cut = found.longest_share.value, found.censoring.accepted.value
    notes = []
    if longest > LONG_TAIL:
        notes.append(f"The longest 1% of iterations bring {longest:.0%} of all accepted tokens.")
    if cut > MUCH_CUT:
        notes.append(
            f"The end of the text cut short the iterations that hold {cut:.0%} of the accepted tokens; "
            "longer texts would tell more."
        )
    if description.loops:
        count = f"{len(description.loops)} of {found.accepted.prompts} texts repeat themselves to the end"
        rest = "nothing is left without them" if without is None else (
            f"without them the mean accepted length is {without.accepted.mean} instead of {found.accepted.mean}, "
            f"the SD {without.accepted.sd} instead of {found.accepted.sd}"
        )  # fmt: skip
        notes.append(f"{count}; {rest}.")
    return notes


# --- numbers in words -------------------------------------------------------------------------------------------------


def _above(found: Estimate, nothing: float = 1) -> bool | None:
    """Whether ``found`` is above ``nothing``: True, False where it is at most `SMALL_GAIN` above it, None: unknown."""
    if found.low > nothing:
        return True
    return False if found.high < nothing + SMALL_GAIN else None


def _judged(found: Estimate) -> str:
    """A held-out speedup, and what it was judged on."""
    return _speedup(found) if math.isnan(found.low) else f"{found} on prompts that did not choose it"


def _speedup(found: Estimate) -> str:
    return f"{found}, chosen with hindsight" if math.isnan(found.low) else str(found)


def _percent(share: Estimate, sign: str = "%") -> str:
    """A share in per cent, or in points, with its interval."""
    value, low, high = (100 * end for end in (share.value, share.low, share.high))
    return f"{value:.1f}{sign}" if math.isnan(low) else f"{value:.1f}{sign} ({low:.1f} to {high:.1f}{sign})"


def _gain(ratio: Estimate) -> str:
    """A ratio as the per cent that it adds."""
    return _percent(ratio.map(lambda end: end - 1))


def _null(null: Null) -> str:
    return f"{100 * null.mean:.1f}%, {100 * null.low:.1f} to {100 * null.high:.1f}%"


def _plural(count: float, noun: str) -> str:
    return f"{count:.2f} {noun}{'' if count == 1 else 's'}"
