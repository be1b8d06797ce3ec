"""Numbers in, words out: faster, slower, undecided, several drafts, advice that the measurement overturns."""

import dataclasses
import math

import pytest
from builders.found import TUNING, estimate, found

from analysis.diagnosis.drafts import Rival
from analysis.diagnosis.found import answer, settled
from analysis.diagnosis.words import change, drafts, gain, headline, split, surer, unsure, why
from analysis.intervals import Estimate

NO_DRAFT = dataclasses.replace(TUNING, policy="none")


@pytest.mark.parametrize(
    ("value", "by", "said"),
    [
        (1.2, 0.02, "20 % faster (18 to 22 %)"),
        (0.9, 0.02, "10 % slower (8.2 to 12 %)"),
        (1.01, 0.05, "1.0 % faster (3.8 % slower to 6.0 % faster)"),
        (3.0, 0.1, "3.00 times as fast (2.73 to 3.30)"),
        (2.0, 0.1, "2.00 times as fast (82 % faster to 2.20 times as fast)"),
    ],
)
def test_a_speedup_in_words(value, by, said):
    assert gain(estimate(value, by)) == said


def test_a_number_without_an_interval_decides_nothing():
    alone = Estimate(1.3, math.nan, math.nan)
    assert gain(alone) == "30 % faster" and answer(alone) == "undecided"


def test_faster_with_the_default_and_more_so_with_the_advice():
    now, advice = headline(found())
    assert now.startswith("FASTER. With the library's defaults (dynamic), decoding with this draft is 20 % faster")
    assert "measured on 32 prompts" in now
    assert advice.startswith("ADVICE: constant:tokens=3. It is 30 % faster (27 to 33 %) than no draft and 10 % faster")
    assert "measured on 12 prompts that had no part in choosing it." in advice
    assert advice.endswith("1.31 was foretold from the recording and 1.30 measured (confirmed).")


def test_slower_and_nothing_pays():
    slow = found(now=0.8, best=0.9, tuning=NO_DRAFT)
    now, advice = headline(slow)
    assert now.startswith("SLOWER.") and "20 % slower" in now
    assert advice.startswith("ADVICE: no draft. Of 574 settings that were replayed none is seen to pay; the best fixed")
    assert settled(slow) == "none"


def test_slower_with_the_default_and_faster_with_the_advice():
    now, advice = headline(found(now=0.9, best=1.1, over=1.22))
    assert now.startswith("SLOWER.") and "ADVICE: constant:tokens=3. It is 10 % faster" in advice


def test_undecided_is_said_and_no_gain_over_the_default_is_claimed():
    close = found(now=1.02, best=1.03, over=1.01, by=0.05)
    now, advice = headline(close)
    assert now.startswith("UNDECIDED.") and "That it pays is not certain yet." in advice
    assert "not told apart from the library's default (3.8 % slower to 6.0 % faster)" in advice
    assert "whether constant:tokens=3 is faster than no draft" in unsure(close)[0]


def test_the_measurement_overturns_what_the_recording_spoke_for():
    worse = found(now=0.8, best=0.9, over=1.1)
    assert settled(worse) == "none"
    assert headline(worse)[1].startswith("ADVICE: no draft. The recording spoke for constant:tokens=3, but it is 10 %")
    beaten = found(now=1.3, best=1.1, over=0.85)
    assert settled(beaten) == "dynamic"
    assert (
        "keep the library's default. The recording spoke for constant:tokens=3, but it is 15 % slower"
        in (headline(beaten)[1])
    )


def test_the_measurement_overturns_no_draft_too():
    both = found(now=1.2, best=1.3, over=1.1, tuning=NO_DRAFT)
    assert settled(both) == "constant:tokens=3"
    assert headline(both)[1].startswith("ADVICE: constant:tokens=3. Of 574 settings that were replayed none is seen to")
    assert "no draft, the library's default 20 % faster (18 to 22 %), measured on 12 prompts" in headline(both)[1]
    assert settled(found(now=1.3, best=1.1, over=0.85, tuning=NO_DRAFT)) == "dynamic"
    usual = found(now=1.2, best=0.9, over=0.75, tuning=NO_DRAFT)
    assert settled(usual) == "dynamic" and headline(usual)[1].startswith("ADVICE: keep the library's default.")
    assert settled(found(now=1.2, best=0.9, over=0.75)) == "dynamic"  # a setting that loses, and a default that wins
    assert settled(found(now=1.01, best=1.01, over=1.0, tuning=NO_DRAFT)) == "none"  # neither is seen to win


def test_a_threshold_that_the_library_moves_is_said():
    moved = dataclasses.replace(TUNING, policy="dynamic:threshold=0.6,tokens=10", constant="constant:tokens=2")
    assert "(run as constant:tokens=3: where scikit-learn is installed" in headline(found(tuning=moved))[1]


def test_the_parts_of_an_iteration_add_up():
    parts = split(found())
    assert [name for name, *_ in parts] == ["drafting", "checking", "overhead"]
    assert sum(share for _, _, share, _ in parts) == pytest.approx(1)
    assert parts[0][3] == "25% for tokens that were refused"  # 0.6 of 2.4
    first, second = why(found())
    assert "yields 3.00 tokens and takes as long as 2.40 steps" in first
    assert "too early in 20% of the iterations (2.5 more" in second and "too late in 50% (4.0 tokens refused)" in second


def test_what_another_draft_would_give():
    cost, better = change(found())
    assert cost == (
        "A draft step costs 0.30 of a target step. Up to 0.45 a fixed length of 2 pays. At these prices a fixed length "
        "pays from 60% of right tokens on; here it is 80%."
    )
    assert "draft twice as fast it would give 1.60, with one that is right a tenth more often (88%) 1.50." in better
    assert "can exceed 1.90" in better


def test_prices_at_which_nothing_helps():
    base = found(now=0.5, best=0.6)
    even = dataclasses.replace(base.what_if.break_even, draft_cost_needed=None, by=None, acceptance_needed=None)
    hopeless = dataclasses.replace(base, what_if=dataclasses.replace(base.what_if, break_even=even, more_accurate=None))
    cost, better = change(hopeless)
    assert "Not even a draft that costs nothing" in cost and "no acceptance is enough" in cost
    assert "tenth" not in better


def test_several_drafts():
    rivals = (Rival("org/tiny", estimate(1.2, 0.01), estimate(1.08, 0.02)), Rival("b", estimate(1.1), estimate(1.01)))
    several = found(rivals=rivals, failed={"org/broken": "it has no weights."})
    said, left_out = drafts(several)
    assert said.startswith("Best of 3 drafts: org/small. It is 8.0 % faster (5.9 to 10 %) than org/tiny (1.20 [1.19,")
    assert said.endswith("which these prompts do not tell apart.")
    assert left_out == "org/broken was left out: it has no weights."
    assert "which draft is the best" in unsure(several)[0] and drafts(found()) == []


def test_a_tuning_on_a_few_prompts_says_what_it_cannot_tell():
    said = " ".join(unsure(found(tuning=dataclasses.replace(TUNING, prompts=3))))
    assert "whether any setting beats a fixed length, which 3 recorded prompts cannot tell (it takes 10)" in said
    assert unsure(found()) == []


def test_how_many_prompts_would_make_it_surer():
    (line,) = surer(found())
    assert line == (
        "The measured speedup of constant:tokens=3 is known to within ±2 %; ±1 % would take about 48 prompts in the "
        "check instead of 12 (--budget 40m)."
    )
    assert "all that there are were used" in surer(found(exhausted=True))[0]
    few = found()
    few = dataclasses.replace(few, check=dataclasses.replace(few.check, within=math.nan, closer=None))
    assert surer(few)[0] == "So few prompts say nothing of others."


def test_what_the_budget_left_unsure():
    group = dataclasses.replace(TUNING, group=("constant:tokens=3", "dynamic"))
    said = unsure(found(tuning=group, cut=0.8, parted=2))
    assert "which of 2 settings (of 574 tried) is the best" in said[0]
    assert "what comes after 64 tokens, where 80% of the texts were cut" in said[0]
    assert "Of the 12 texts of the check 2 with a draft are not those without one" in said[1]
    assert unsure(found()) == []
