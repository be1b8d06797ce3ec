"""The verdict's sentences: each follows from its numbers, and the advice from what held out."""

import dataclasses
import math

import pytest
from builders.runs import some_trace

from analysis.cost import CostModel
from analysis.describe import signals
from analysis.describe.statistics import Censoring, Description, Heterogeneity, describe
from analysis.examine import findings
from analysis.gains.heldout import HeldOut
from analysis.gains.loss import BreakEven, Iteration, Loss
from analysis.gains.split import HELD_OUT, HINDSIGHT, Gain, Gains, Null, Split
from analysis.intervals import Estimate
from analysis.verdict import Evidence, advised, verdict

UNKNOWN = Estimate(1.1, math.nan, math.nan)
DESCRIPTION = describe(some_trace(), resamples=5)


@dataclasses.dataclass(frozen=True)
class Iid:
    rejected: bool | None = True
    sentence: str = "Tested."


def sure(value, width=0.01):
    return Estimate(value, value - width, value + width)


def described(longest=0.05, cut=0.05, loops=()):
    found = dataclasses.replace(
        DESCRIPTION.everything,
        longest_share=sure(longest),
        censoring=Censoring(sure(0.1), sure(cut)),
        heterogeneity=Heterogeneity(sure(0.2), sure(0.1), sure(2), sure(0.1)),
    )
    return Description(found, found if loops else None, loops)


def held(constant=2.0, policy=2.2, gain=None, hidden=1.3):
    gain = sure(policy / constant) if gain is None else gain
    return HeldOut("constant:tokens=4", "dynamic", 41, sure(constant), sure(policy), gain, hidden)


def some_gains(between=0.03, within=0.02, per_prompt=-0.01, width=0.01, prompts=80, persistence=0.01):
    null = Null(0.40, 0.38, 0.42)
    whole = 0.4 + between + within
    rows = [Gain(what, sure(whole), null, null) for what in ("oracle:optimal", "oracle:detect", HINDSIGHT)]
    rows.append(Gain(HELD_OUT, sure(per_prompt, width), null, null))
    split = Split(sure(0.4), sure(between, width), sure(within, width), sure(between + within, width))
    return Gains(tuple(rows), split, sure(persistence, 0.001), 20, prompts, 80)


def some_loss(draft=0.4, acceptance=0.9):
    return Loss(
        Iteration("dynamic", 1.8, 0.9, 0.2, 1.1, 0.05),
        BreakEven(0.8, draft, "constant:tokens=1" if draft else None, acceptance),
    )


def evidence(**given):
    usual = {
        "description": described(),
        "iid": Iid(),
        "gains": some_gains(),
        "held_out": held(),
        "oracle_speedup": sure(2.9),
        "loss": None,
        "signals": (),
    }
    return Evidence(**usual | given)


def signal(area, width=0.01, name="margin"):
    return signals.SignalQuality(name, signals.EVERY, 1000, 0.7, sure(area, width), 0.2, sure(0.1), 0.05, sure(0.1))


def test_every_gain_stands_beside_its_null():
    text = str(verdict(evidence()))
    assert "is 45.0% (44.0 to 46.0%) faster than the constant that is best here; of coin flips with the same" in text
    assert "agreement it would make 40.0%, 38.0" in text
    assert "of its 45.0 points 40.0 (39.0 to 41.0) are foreknowledge of coin flips, 3.0 (2.0 to 4.0) diff" in text
    assert "judged on the other, gains -1.0%" in text and "(tokens shuffled over all texts: 40.0%" in text


@pytest.mark.parametrize(
    ("between", "claim"), [(0.03, True), (0.005, False), (0.015, None)], ids=["seen", "small", "unknown"]
)
def test_a_part_is_claimed_where_its_interval_says_so(between, claim):
    width = {True: 0.01, False: 0.01, None: 0.02}[claim]
    found = verdict(evidence(gains=some_gains(between=between, width=width)))
    assert found.prompts_differ is claim
    assert ("(not distinguishable from nothing) differences" in str(found)) == (claim is not True)


def test_prompts_differ_only_where_one_half_of_a_text_foretells_the_other():
    found = verdict(evidence(gains=some_gains(persistence=0.0)))
    assert found.prompts_differ is None and "halves of the texts do not confirm" in str(found)


def test_a_part_of_the_prompts_is_said_to_be_one():
    assert "(on 40 of 80 prompts)" in str(verdict(evidence(gains=some_gains(prompts=40))))


def test_what_cannot_be_shuffled_is_no_gain_of_variation():
    found = verdict(evidence(gains=None))
    assert found.prompts_differ is found.order_matters is None
    assert "How much of that coin flips would give cannot be told" in str(found)


@pytest.mark.parametrize(
    ("judged", "advice", "words"),
    [
        (held(), "dynamic", "Advice: use dynamic."),
        (held(policy=2.02, gain=Estimate(1.01, 1.001, 1.02)), "dynamic", "use dynamic, little as that gains."),
        (held(policy=2.02, gain=Estimate(1.01, 0.99, 1.03)), "constant:tokens=4", "could hide is 30.0%"),
        (held(0.99, 1.2, Estimate(1.2, 0.9, 1.5)), "dynamic", "Advice: use dynamic."),
        (held(0.9, 0.95, Estimate(1.05, 1.01, 1.1)), "none", "Advice: use no draft, or a cheaper one."),
        (held(0.99, 1.005, Estimate(1.01, 0.9, 1.1)), "none", "Advice: use no draft, or a cheaper one."),
    ],
)
def test_advice_is_what_held_out(judged, advice, words):
    assert advised(judged) == advice
    found = verdict(evidence(held_out=judged, loss=some_loss() if advice == "none" else None))
    assert found.advice == advice and words in str(found) and found.sentences[-1].startswith("Advice:")
    assert ("`oracle tune` tries finer steps" in found.sentences[-1]) == (advice != "none")  # and it may differ


def test_a_loss_comes_first_and_says_why():
    found = verdict(evidence(held_out=held(0.9, 0.95), loss=some_loss(), oracle_speedup=sure(1.2)))
    assert found.pays is False
    assert found.sentences[0].startswith(
        "The draft does not pay at these prices: the best of 41 settings (here dynamic) "
    )
    assert "as long as 2.05 steps of the target alone: 0.90 for drafting (0.20 of it" in found.sentences[1]
    assert "draft step at 0.4 of a target step; its own cost 0.8 here" in found.sentences[2]
    assert "i.i.d. acceptance of 0.90; here it is" in found.sentences[2]
    unsure = verdict(evidence(held_out=held(0.99, 0.995), loss=some_loss()))
    assert unsure.pays is None and "is not seen to pay" in unsure.sentences[0]


def test_a_loss_that_nothing_mends_says_so():
    found = verdict(evidence(held_out=held(0.5, 0.6), loss=some_loss(None, None), oracle_speedup=sure(1.001, 0.0005)))
    assert "even a draft that costs nothing" in found.sentences[2] and "no acceptance is enough" in found.sentences[2]
    assert "no setting can change that" in found.sentences[-1]


@pytest.mark.parametrize(
    ("area", "width", "grade"),
    [(0.88, 0.01, "well"), (0.81, 0.02, "partly"), (0.7, 0.01, "partly"), (0.6, 0.01, "hardly"), (0.7, 0.3, None)],
)
def test_signals_are_graded_by_the_whole_interval(area, width, grade):
    found = verdict(evidence(signals=(signal(0.51, name="entropy"), signal(area, width))))
    assert found.predictable == grade and "the best is margin" in str(found) and "1,000 positions" in str(found)
    assert verdict(evidence(signals=(signal(math.nan),))).predictable is None


def test_tails_cuts_and_loops_are_told():
    text = str(verdict(evidence(description=described(longest=0.3, cut=0.2, loops=("a", "b")))))
    assert (
        "longest 1% of iterations bring 30%" in text and "hold 20%" in text and "repeat themselves to the end" in text
    )
    assert "repeat" not in str(verdict(evidence())) and "longest" not in str(verdict(evidence()))


def test_one_prompt_claims_nothing():
    found = findings(some_trace(prompts=1), CostModel(draft=0.1)).verdict
    claims = (found.pays, found.prompts_differ, found.order_matters, found.per_prompt, found.foreseeable)
    assert claims == (None,) * 5 and "chosen with hindsight" in str(found)


def test_no_sentence_trusts_a_formula_or_calls_an_oracle_beyond_reach():
    for prices in (CostModel(draft=0.1), CostModel(draft=3.0)):
        text = str(findings(some_trace(), prices).verdict)
        assert "trusted" not in text and "nothing can" not in text.lower()


def test_a_held_out_speedup_says_what_it_was_judged_on():
    """0.8 held out beside an oracle at 1.4 that is 70 % faster than the constant of hindsight is no contradiction."""
    text = str(verdict(evidence()))
    assert "(here constant:tokens=4) reaches a speedup of 2 (1.99 to 2.01) on prompts that did not choose it." in text
    assert "%) faster than the constant that is best here" in text


def test_where_the_other_half_chooses_the_constant_the_gain_is_no_measured_zero():
    found = verdict(evidence(held_out=held(gain=Estimate(1.0, 1.0, 1.0), hidden=1.01)))
    assert "chosen on other prompts, is that constant and gains nothing over it" in str(found)


def test_what_is_not_known_is_said_so():
    nothing = dataclasses.replace(described().everything, acceptance_rate=Estimate(math.nan, math.nan, math.nan))
    lost = evidence(description=Description(nothing, None, ()), held_out=held(0.7, 0.8), loss=some_loss(), gains=None)
    text = str(verdict(lost))
    assert "here it is not known." in text and "nan" not in text
    assert "no text has two of them" in text


def test_a_bound_that_bounds_nothing_is_not_printed():
    text = str(verdict(evidence(held_out=held(gain=sure(1.0), hidden=1.9e12))))
    assert "these prompts do not tell" in text and "hide" not in text
