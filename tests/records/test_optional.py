"""Traces that lack columns, and what is refused then."""

import dataclasses

import numpy as np
import pytest
from builders.traces import EOS, pattern, trace

from analysis import plots
from analysis.cost import CostModel
from analysis.describe import signals
from analysis.plots.roc import plot_roc
from analysis.replay.simulate import simulate
from analysis.report.page import Source, report
from oracle.collect import summarize
from oracle.records.trace import SIGNALS, Trace, iter_records, write_meta, write_part

META = {"eos_token_ids": [EOS], "max_overrun": 4}
OVERRUNS = ("overrun_position", "overrun_tokens", *(f"overrun_{name}" for name in SIGNALS))
SOURCES = {
    "signals": (*SIGNALS, *(f"overrun_{name}" for name in SIGNALS)),
    "overruns": OVERRUNS,
    "target_margin": ("target_margin",),
    "draft_tokens": ("draft_tokens",),
}
LACKS = {
    "signals": (*SIGNALS, *(f"overrun_{name}" for name in SIGNALS)),
    "overruns": ("overruns",),
    "target_margin": ("target_margin",),
    "draft_tokens": ("draft_tokens",),
}


def records(*missing):
    rows = [pattern("++-+-", overruns={2: [(4, 0.5), (5, 0.25)]}), pattern("-+++", index=1, overruns={0: [(6, 0.125)]})]
    return [dataclasses.replace(row, **dict.fromkeys(missing)) for row in rows]


def without(*missing):
    return Trace.from_records(records(*missing), META)


@pytest.mark.parametrize("source", SOURCES)
def test_written_loaded_selected_and_given_back_without_them(tmp_path, source):
    missing = SOURCES[source]
    write_meta(tmp_path, META)
    for number, row in enumerate(records(*missing)):
        write_part(tmp_path, number, [row])
    loaded, whole = Trace.load(tmp_path), without()
    assert loaded.lacks == LACKS[source]
    assert f"lacks {LACKS[source][0]}" in repr(loaded)
    assert loaded.run.tolist() == whole.run.tolist() == [2, 1, 0, 1, 0, 0, 3, 2, 1]
    assert loaded.iterations().equals(whole.iterations())
    assert summarize(loaded) == summarize(whole)
    second = loaded.select(["p1"])
    assert second.ids == ("p1",) and second.lacks == loaded.lacks and second.run.tolist() == [0, 3, 2, 1]
    for again, original in zip(iter_records(loaded), records(*missing), strict=True):
        for name in missing:
            assert getattr(again, name) is None
        assert again.target_tokens.tolist() == original.target_tokens.tolist()


def test_a_whole_trace_lacks_nothing():
    assert without().lacks == ()
    assert without().need("entropy", for_="svip").tolist() == without().entropy.tolist()


def test_what_is_lacking_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"this trace has no entropy: needed by svip .*`oracle collect`.* without entropy"
    ):
        without("entropy", "overrun_entropy").need("entropy", for_="svip")
    with pytest.raises(ValueError, match="this trace has no overruns: needed by dynamic"):
        without(*OVERRUNS).need("overruns", for_="dynamic")
    with pytest.raises(ValueError, match="'logit' is no column of a trace; legal: id, index"):
        without().need("logit", for_="a policy")


def test_nothing_says_where_the_draft_is_right():
    with pytest.raises(ValueError, match="nothing says where the draft is right"):
        without("draft_tokens", *OVERRUNS)


def test_records_of_one_part_hold_the_same_columns():
    mixed = [records()[0], records("entropy")[1]]
    with pytest.raises(ValueError, match="row 1 has no entropy, others have"):
        Trace.from_records(mixed, META)


def test_parts_of_one_trace_hold_the_same_columns(tmp_path):
    write_meta(tmp_path, META)
    write_part(tmp_path, 0, records()[:1])
    write_part(tmp_path, 1, records("entropy", "overrun_entropy")[1:])
    with pytest.raises(ValueError, match="part-00001.parquet and part-00000.parquet differ in column entropy"):
        Trace.load(tmp_path)


def test_a_policy_that_reads_a_missing_signal_is_refused_and_one_that_counts_is_not():
    bare = without(*SOURCES["signals"])
    for policy in ("dynamic:threshold=0.9,tokens=1", "roc"):
        with pytest.raises(ValueError, match="this trace has no confidence"):
            simulate(bare, policy)
    found, whole = simulate(bare, "constant:tokens=2"), simulate(without(), "constant:tokens=2")
    assert found.drafted.tolist() == whole.drafted.tolist() and found.accepted.tolist() == whole.accepted.tolist()


def test_a_policy_is_refused_for_what_it_reads_only():
    found = simulate(without("entropy", "overrun_entropy"), "dynamic:threshold=0.3")
    assert found.drafted.tolist() == simulate(without(), "dynamic:threshold=0.3").drafted.tolist()


def test_without_overruns_a_counting_policy_says_what_it_could_not_see():
    found = simulate(without(*OVERRUNS), "constant:tokens=4")
    assert found.drafted.tolist() == simulate(without(), "constant:tokens=4").drafted.tolist()
    assert found.unrecorded == 2


def test_signals_that_are_not_numbers_are_no_signals():
    for name in SIGNALS:
        broken = [dataclasses.replace(row, **{name: np.full(len(row.target_tokens), np.nan)}) for row in records()]
        with pytest.raises(ValueError, match=f"row 0: column {name} holds nan"):
            Trace.from_records(broken, META)


def test_signals_that_are_there_are_judged():
    some = without("entropy", "overrun_entropy")
    assert [found.signal for found in signals.signal_quality(some)] == ["confidence", "margin"]
    with pytest.raises(ValueError, match="this trace has no entropy: needed by judging this signal"):
        signals.signal_quality(some, names=["entropy"])
    with pytest.raises(ValueError, match="this trace has no confidence: needed by the ROC curves"):
        plot_roc(without(*SOURCES["signals"]))
    with pytest.raises(ValueError, match="this trace has no confidence: needed by the heatmap"):
        plots.plot_heatmap(without(*SOURCES["signals"]), ["x"] * 5)


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "draft_tokens"])
def test_the_report_leaves_out_what_cannot_be_shown(tmp_path, source):
    policies = ["constant:tokens=1", "oracle:detect"]
    page = report(
        [Source(without(*SOURCES[source]), "mine", CostModel(draft=0.1))], tmp_path / "r.html", policies=policies
    )
    text = page.read_text(encoding="utf-8")
    assert ("mine holds no signals of the draft" in text) == (source == "signals")
    assert "Not recorded" in text


def test_a_trace_shows_itself_in_one_line():
    meta = {"target": {"model": "big"}, "draft": {"model": "small"}, "prompts": {"dataset": "mbpp"}}
    assert repr(trace(pattern("+-"), pattern("+++"), **meta)) == "<Trace big + small, mbpp: 2 prompts, 5 tokens>"
    assert len(trace(pattern("+-"), pattern("+++"))) == 2


def test_select_by_mask_ids_and_slice():
    whole = trace(pattern("+-"), pattern("+++"), pattern("--"))
    assert whole.select(np.array([True, False, True])).ids == ("p0", "p2")
    assert whole.select(["p2", "p0"]).ids == ("p0", "p2")
    assert whole.select(slice(1, None)).ids == ("p1", "p2")
    assert whole.select(slice(1, 2)).target_tokens.tolist() == [10, 11, 12]
    with pytest.raises(ValueError, match="no prompt has the id 'p7'; the first ids here: p0, p1, p2"):
        whole.select(["p7"])
    with pytest.raises(ValueError, match="none of the 3 prompts is kept"):
        whole.select(slice(0, 0))
    with pytest.raises(ValueError, match="give a list of ids"):
        whole.select("p1")
