"""The verdict in words: is one lookahead for all enough, what is lost by it, and what could win it back.

A pure function of numbers that other modules computed; every sentence carries the numbers that it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.describe.signals import SignalQuality
from analysis.describe.statistics import Description
from analysis.intervals import Estimate

SIGNIFICANCE = 0.05
SMALL_EXCESS = 0.1  # relative; less excess variance than this is detectable in large traces but changes little
SMALL_GAP = 0.05  # relative speedup; less than this is not worth a policy
SOME_BETWEEN, MUCH_BETWEEN = 0.05, 0.25  # variance between prompts over that of coin flips
SOME_SIGNAL, GOOD_SIGNAL = 0.65, 0.8  # AUC


@dataclass(frozen=True)
class Gap:
    """Simulated speedups; ``gain`` is the oracle's over the best constant's (a paired ratio), 1 = nothing to gain.

    ``per_prompt``: the same ratio for the best constant lookahead of each single prompt, chosen with hindsight; None
    where it was not simulated.
    """

    constant: str
    constant_speedup: Estimate
    oracle: str
    oracle_speedup: Estimate
    gain: Estimate
    per_prompt: Estimate | None = None


@dataclass(frozen=True)
class Verdict:
    """``iid_rejected`` and the grades are None where the data cannot say."""

    iid_rejected: bool | None
    gap: bool | None  # whether the oracle is worth more than 5 % over the best constant
    between_prompts: str | None  # "much", "some" or "little"
    predictable: str | None  # "well", "partly" or "hardly"
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def verdict(
    description: Description,
    geometric_p: float,
    gap: Gap | None = None,
    signals: Sequence[SignalQuality] = (),
) -> Verdict:
    """The verdict on one trace.

    ``geometric_p`` is the goodness-of-fit p-value of the geometric distribution (NaN = not tested); ``signals`` the
    quality of each recorded signal at the positions that matter to the reader.
    """
    rejected, on_iid = _iid(description, geometric_p)
    large, on_gap = _gap(gap)
    between, on_prompts = _prompts(description, gap)
    predictable, on_signals = _signals(signals)
    advice = _advice(large, between, predictable)
    sentences = (on_iid, *_caveats(description), on_gap, on_prompts, on_signals, _loss(gap), advice)
    return Verdict(rejected, large, between, predictable, tuple(text for text in sentences if text))


def _iid(description: Description, p: float) -> tuple[bool | None, str]:
    found = description.everything
    excess, rate = found.excess_dispersion, found.acceptance_rate
    by_fit = None if math.isnan(p) else p < SIGNIFICANCE
    by_spread = None if math.isnan(excess.low) else not excess.low <= 1 <= excess.high
    if by_fit is None and by_spread is None:
        return (
            None,
            "Whether acceptance is i.i.d. cannot be told: the trace is too small for a test; collect more prompts.",
        )
    tested = "" if by_fit is None else f" (goodness of fit of the geometric distribution: p = {p:.3g})"
    spread = (
        f"the oracle SL varies {excess} times as much as i.i.d. acceptance at this rate, {rate}, "
        "would make it vary on texts of these lengths"
    )
    if not (by_fit or by_spread):
        return False, f"I.i.d. acceptance is not rejected{tested}: {spread}. Closed-form speedups may be trusted here."
    small = ", a difference that is real but small" if abs(excess.value - 1) < SMALL_EXCESS else ""
    # Two tests, and one is enough: say which, or a large p beside "rejected" reads like a mistake.
    which = (
        "" if by_fit is None or (by_fit and by_spread) else " by its shape alone" if by_fit else " by its spread alone"
    )
    return True, f"I.i.d. acceptance is rejected{which}{tested}: {spread}{small}."


def _caveats(description: Description) -> list[str]:
    found, without = description.everything, description.without_loops
    longest, cut = found.longest_share.value, found.censoring.accepted.value
    notes = []
    if longest > 0.1:
        notes.append(f"The longest 1% of iterations bring {longest:.0%} of all accepted tokens.")
    if cut > 0.1:
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


def _gap(gap: Gap | None) -> tuple[bool | None, str]:
    if gap is None:
        return None, ""
    reach = (
        f"The best constant lookahead ({gap.constant}) reaches a speedup of {gap.constant_speedup}, "
        f"{gap.oracle} {gap.oracle_speedup}: "
    )
    gain = f"{_percent(gap.gain)} more"
    if gap.gain.value - 1 < SMALL_GAP:
        return False, f"{reach}{gain}, so hardly anything is lost by never changing the lookahead."
    if gap.gain.low <= 1:
        return None, f"{reach}{gain}, but the interval includes nothing at all; collect more prompts."
    return True, f"{reach}{gain}, which is what a perfect choice of the lookahead would add."


def _prompts(description: Description, gap: Gap | None) -> tuple[str | None, str]:
    found = description.everything.heterogeneity
    between = found.between
    if math.isnan(between.value) or math.isnan(between.low):
        return None, "How much of the variation lies between prompts cannot be told from so few; collect more."
    share = (
        f"differences between prompts add {max(between.value, 0):.1%} to the variance that coin flips would give the "
        f"oracle SL ({between}, design effect {found.design_effect}), the order of tokens within prompts "
        f"{max(found.within.value, 0):.1%} ({found.within})"
    )
    if between.value >= MUCH_BETWEEN and between.low > 0:
        grade, words = "much", f"Prompts differ much: {share}, enough to set the lookahead once per prompt"
    elif between.value >= SOME_BETWEEN and between.low > 0:
        grade, words = "some", f"Prompts differ somewhat: {share}"
    else:
        grade, words = "little", f"Prompts are alike: {share}"
    near = f"; neighbouring iterations of a prompt correlate by {found.lag1}"
    if gap is not None and gap.per_prompt is not None:
        added = _percent(gap.per_prompt)
        words = (
            f"{words}; the best constant of each prompt, known beforehand, would add {added} to the best one for all"
        )
    return grade, f"{words}{near}."


def _signals(signals: Sequence[SignalQuality]) -> tuple[str | None, str]:
    known = [signal for signal in signals if not math.isnan(signal.auc.value)]
    if not known:
        return (
            None,
            "No recorded signal could be judged: the draft was always right or always wrong." if signals else "",
        )
    best = max(known, key=lambda signal: signal.auc.value)
    # A signal whose interval includes a coin's 0.5 foretells nothing, whatever its value.
    coin = best.auc.low <= 0.5
    grade = "hardly" if coin or best.auc.value < SOME_SIGNAL else "partly" if best.auc.value < GOOD_SIGNAL else "well"
    return grade, (
        f"Acceptance is {grade} foretold by the recorded signals: the best is {best.signal}, with an AUC of {best.auc} "
        f"at {best.count:,} positions ({best.positions}; 0.5 is a coin, 1 is perfect)."
    )


def _loss(gap: Gap | None) -> str:
    """Where a draft does not pay, that comes before any advice on how to use it."""
    if gap is None or gap.constant_speedup.value >= 1:
        return ""
    if gap.oracle_speedup.value <= 1:
        return (
            "At these prices this draft cannot pay: even the oracle is no faster than the target alone. Use none, or a "
            "cheaper one."
        )
    return (
        "At these prices every constant lookahead is slower than the target alone: use no draft, unless a policy "
        "with a speedup above 1 is found."
    )


def _advice(large: bool | None, between: str | None, predictable: str | None) -> str:
    if large is None:
        return ""
    if not large:
        return "Advice: keep the best constant lookahead."
    if between == "much":
        return "Advice: set the lookahead per prompt, or let a policy with memory find it."
    if predictable in ("well", "partly"):
        return "Advice: stop drafting by a threshold on that signal; `oracle report` tries them and names the best."
    if predictable == "hardly":
        return "Advice: keep the best constant lookahead; the oracle's gain is out of reach of the recorded signals."
    return ""


def _percent(ratio: Estimate) -> str:
    """A ratio as the per cent that it adds, with its interval."""
    value, low, high = (100 * (end - 1) for end in (ratio.value, ratio.low, ratio.high))
    return f"{value:.1f}%" if math.isnan(low) else f"{value:.1f}% ({low:.1f} to {high:.1f}%)"
