"""Two traces of the same prompts against each other."""

import dataclasses
import math

import numpy as np
import pytest
from builders.traces import EOS, pattern

from analysis.cost import CostModel
from analysis.intervals import ratio
from analysis.replay.simulate import simulate
from analysis.versus import Difference, versus
from oracle.records.trace import Trace, iter_records

OVERRUNS = {at: [(1, 0.9)] * 9 for at in range(9)}


def made(*flags, prompts=None, **meta):
    rows = [
        pattern(text, index=n, overruns=OVERRUNS, prompt=(7, 8, n))
        for n, text in zip(prompts or range(len(flags)), flags, strict=True)
    ]
    named = [dataclasses.replace(row, id=f"p{row.index}") for row in rows]
    return Trace.from_records(named, {"eos_token_ids": [EOS], "max_overrun": 9, **meta})


def model(name, weights, dtype="float32"):
    return {"model": name, "weights_sample_sha256": weights * 64, "dtype": dtype}


TARGET = model("org/big", "a")
A = {"target": TARGET, "draft": model("org/small", "b")}
B = {"target": TARGET, "draft": model("org/other", "c")}


def test_two_drafts_by_hand():
    """constant:tokens=1 at a tenth of a step.

    A: "++++" in rounds of 2, 2 tokens: 1.1 + 1.1; "----" takes 1.1 for each of three tokens and 1 for the last.
    B: "++--" takes 1.1, 1.1 and 1; "++++" 2.2.
    """
    found = versus(made("++++", "----", **A), made("++--", "++++", **B), ["constant:tokens=1"])
    (row,) = found.rows
    assert row.first.value == pytest.approx(8 / (2.2 + 4.3))
    assert row.second.value == pytest.approx(8 / (3.2 + 2.2))
    by_hand = ratio(np.array([2.2, 4.3]), np.array([3.2, 2.2]))
    ends = [(each.value, each.low, each.high) for each in (row.ratio, by_hand)]
    assert ends[0] == pytest.approx(ends[1])
    assert found.compares == "time in target steps"
    assert found.differences == (Difference("draft", "org/small", "org/other"),)
    assert (found.prompts, found.of, found.different_texts, found.left_out) == (2, (2, 2), 0, {})
    assert found.first_agreement.value == 4 / 8 and found.second_agreement.value == 6 / 8
    # Prompt by prompt the agreement moves by -2 and +4 of 8 tokens; their mean is 1: residuals of 3 / 8 either way.
    apart = found.agreement_difference
    from scipy.stats import t

    half = t.ppf(0.975, 1) * math.sqrt(2 * 2 * (3 / 8) ** 2)
    assert (apart.value, apart.high) == pytest.approx((0.25, 0.25 + half))


def test_only_common_prompts_are_compared_in_whatever_order():
    """The second has its prompts the other way round, one more of its own, and one of other tokens."""
    first = made("++++", "----", "+-+-", "++--", **A)
    second = made("++--", "----", "+-+-", "+---", prompts=[3, 1, 5, 0], **B)
    strange = [dataclasses.replace(r, prompt_tokens=r.prompt_tokens + (r.id == "p0")) for r in iter_records(second)]
    found = versus(first, Trace.from_records(strange, second.meta), ["constant:tokens=1", "oracle:detect"])
    assert found.prompts == 2 and found.of == (4, 4)
    assert [row.ratio.value for row in found.rows] == pytest.approx([1, 1])
    expected = simulate(first.select(["p1", "p3"]), "oracle:detect", CostModel(draft=0.1))
    assert found.rows[1].first.value == expected.speedup


def with_other_tokens(source):
    rows = [dataclasses.replace(row, prompt_tokens=row.prompt_tokens + 1) for row in iter_records(source)]
    return Trace.from_records(rows, source.meta)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (made("++++", prompts=[4]), "is in the first alone"),
        (with_other_tokens(made("++++")), "has other tokens in the second"),
        (made("+++"), "has max_new_tokens 4 and 3"),
    ],
)
def test_traces_without_a_common_prompt_are_refused_with_the_reason(second, reason):
    with pytest.raises(ValueError, match=f"no prompt in common: prompt 'p0' {reason}; collect the same prompts"):
        versus(made("++++"), second, ["constant:tokens=1"])


def test_another_number_format_compares_seconds_a_token_and_counts_other_texts():
    half = {"target": model("org/big", "d", "bfloat16"), "draft": model("org/small", "e", "bfloat16")}
    first, second = made("++++", "+-+-", **A), made("++++", "+-", **half)
    second = dataclasses.replace(second, max_new_tokens=first.max_new_tokens)
    cost = CostModel(draft=0.01, verify=((1, 0.1),), unit="s")
    found = versus(first, second, ["constant:tokens=1"], (cost, cost))
    assert found.differences == (
        Difference("target's dtype", "float32", "bfloat16"), Difference("draft's dtype", "float32", "bfloat16"),
    )  # fmt: skip
    assert found.different_texts == 1 and found.compares == "seconds a token, as texts differ in length"
    # The first takes .11 twice for "++++"; for "+-+-" too.  The second takes .22 and, for half the tokens, .11.
    assert found.rows[0].ratio.value == pytest.approx(1)


def test_steps_of_different_targets_are_no_common_unit():
    """Each side's speedup is over its own plain decoding; the interval is of the ratio of the two."""
    other = {"target": model("org/huge", "d"), "draft": A["draft"]}
    rows = ["++++", "+-+-", "+---"], ["+++-", "----", "++++"]
    costs = CostModel(draft=0.1), CostModel(draft=0.1, iteration=0.3)
    found = versus(made(*rows[0], **A), made(*rows[1], **other), ["constant:tokens=2"], costs)
    assert found.compares.startswith("speedups") and found.differences[0].what == "target"
    (row,) = found.rows
    assert row.ratio.value == pytest.approx(row.second.value / row.first.value)
    same = versus(made(*rows[0], **A), made(*rows[1], **B), ["constant:tokens=2"], costs)
    # Under one target plain decoding takes the same on both sides and cancels: ratios of speedups and of seconds agree.
    assert (row.ratio.low, row.ratio.high) == pytest.approx((same.rows[0].ratio.low, same.rows[0].ratio.high))


def test_prices_of_another_pair_are_refused():
    cost = CostModel(draft=0.01, verify=((1, 0.1),), unit="s", machine=A)
    with pytest.raises(ValueError, match="draft with weights_sample_sha256"):
        versus(made("++++", **A), made("++++", **B), ["constant:tokens=1"], (cost, cost))


def test_what_one_of_them_cannot_replay_is_left_out_and_named():
    short = made("-+-+-+-+", **A)
    few = dataclasses.replace(short, meta=short.meta | {"max_overrun": 0})
    rows = [dataclasses.replace(row, **{f"overrun_{name}": [values[:0] for values in getattr(row, f"overrun_{name}")]
            for name in ("tokens", "confidence", "entropy", "margin")}) for row in iter_records(few)]  # fmt: skip
    found = versus(short, Trace.from_records(rows, few.meta), ["dynamic:threshold=0.1", "constant:tokens=1"])
    assert "--max-overrun" in found.left_out.pop("dynamic:threshold=0.1") and not found.left_out
    assert [row.policy for row in found.rows] == ["constant:tokens=1"]
