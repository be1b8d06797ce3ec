"""Round drafts: what is accepted depends on where the round began, so runs are recorded for each start."""

import dataclasses

import numpy as np
import pytest
from builders.traces import EOS

from analysis.describe.statistics import describe
from analysis.fit.distributions import Counts, fit_all
from analysis.plots.histogram import plot_histogram
from oracle.collect import summarize
from oracle.records.trace import Record, Trace, iter_records, write_meta, write_part

META = {"eos_token_ids": [EOS], "draft_kind": "round", "round_limit": 3}
# r(t + 1) is not r(t) - 1: from 0 two tokens are right, from 1 three.
FIRST = dict(run=[2, 3, 0, 1, 0, 0], rounds=[[11, 12, 1], [12, 13, 14], [1], [14, 1, 1], [], []])
SECOND = dict(run=[0, 1], rounds=[[1, 2], [EOS]])


def rounds_record(target, run, rounds, *, index=0, **missing):
    size = len(target)
    record = Record(
        id=f"p{index}",
        index=index,
        finish="eos" if target[-1] == EOS else "length",
        max_new_tokens=size,
        prompt_tokens=np.array([7, 8, 9], np.int32),
        target_tokens=np.array(target, np.int32),
        run=np.array(run, np.int32),
        round_tokens=[np.array(tokens, np.int32) for tokens in rounds],
        round_confidence=[np.full(len(tokens), 0.5, np.float32) for tokens in rounds],
    )
    return dataclasses.replace(record, **missing)


def records(**missing):
    return [
        rounds_record([11, 12, 13, 14, 15, 16], **FIRST, **missing),
        rounds_record([20, EOS], **SECOND, index=1, **missing),
    ]


@pytest.fixture
def written(tmp_path):
    write_meta(tmp_path, META)
    for number, record in enumerate(records()):
        write_part(tmp_path, number, [record])
    return Trace.load(tmp_path)


def test_written_loaded_and_given_back(written):
    rounds = written.rounds
    assert rounds.limit == 3 and rounds.run.tolist() == [*FIRST["run"], *SECOND["run"]]
    assert rounds.offsets.tolist() == [0, 3, 6, 7, 10, 10, 10, 12, 13]
    assert rounds.tokens.tolist() == [11, 12, 1, 12, 13, 14, 1, 14, 1, 1, 1, 2, EOS]
    assert rounds.confidence.dtype == np.float32 and rounds.entropy is None
    assert written.lacks == ("target_margin", "round_entropy", "round_margin")
    assert written.overruns is None and written.draft_kind == "round"
    for again, original in zip(iter_records(written), records(), strict=True):
        assert again.run.tolist() == original.run.tolist()
        assert [x.tolist() for x in again.round_tokens] == [x.tolist() for x in original.round_tokens]
    second = written.select(["p1"]).rounds
    assert (second.run.tolist(), second.offsets.tolist(), second.tokens.tolist()) == ([0, 1], [0, 2, 3], [1, 2, EOS])


def test_outcomes_by_hand(written):
    found = written.outcomes
    assert found.run.tolist() == [2, 3, 0, 1, 0, 0, 0, 1]
    assert found.accepted.tolist() == [2, 3, 0, 1, 0, 0, 0, 0]
    # From 1 the record ends (three tokens), from 4 and 5 the text; from 3 the draft was wrong about 15.
    assert found.censored.tolist() == [False, True, False, False, False, True, False, True]
    assert found.budget.tolist() == [5, 4, 3, 2, 1, 0, 1, 0]
    assert found.context.tolist() == [3, 4, 5, 6, 7, 8, 3, 4]
    assert found.starts.tolist() == [0, 3, 5, 6, 7]
    assert written.run is found.run and written.censored is found.censored


def test_iterations_statistics_fit_and_histogram(written):
    frame = written.iterations()
    assert frame["accepted"].tolist() == [2, 1, 0, 0, 0]
    assert frame["position"].tolist() == [0, 3, 5, 0, 1]
    assert frame["censored"].tolist() == [False, False, True, False, True]
    assert describe(written).everything.accepted.mean.value == pytest.approx(0.6)
    counts = Counts.from_samples(frame["accepted"], frame["censored"])
    assert fit_all(counts)[0].n == 5
    assert plot_histogram(written).patches
    assert summarize(written).agreement == 4 / 8  # starts whose first token is right


def test_run_lengths_alone_are_enough():
    found = Trace.from_records(records(round_tokens=None, round_confidence=None), META)
    assert found.rounds.offsets is None and found.rounds.tokens is None
    assert found.iterations()["accepted"].tolist() == [2, 1, 0, 0, 0]
    assert "round_tokens" in found.lacks
    assert found.select(slice(1, 2)).run.tolist() == [0, 1]


def test_a_chain_s_columns_are_refused_by_name(written):
    with pytest.raises(ValueError, match=r"no confidence \(its draft is of kind round\): needed by dynamic"):
        written.need("confidence", for_="dynamic")
    assert written.need("round_confidence", for_="dynamic")[0] == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": None}, "column run is missing"),
        ({"run": np.array([2, 3, 0, 1, 0, 7])}, "row 0: a run of 7 tokens where 1 are left and round_limit is 3"),
        ({"run": np.array([1, 3, 0, 1, 0, 0])},
         "row 0: round_tokens and target_tokens do not agree on exactly 1 tokens"),
        ({"run": np.array([2, 3, 1, 1, 0, 0])},
         "row 0: round_tokens and target_tokens do not agree on exactly 1 tokens"),
        ({"run": np.array([2, 3, 2, 1, 0, 0])}, "row 0: a round of 1 tokens with a run of 2"),
        ({"round_tokens": [np.array(x) for x in FIRST["rounds"][:-1]]},
         "row 0: column round_tokens has other lengths than"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(change, message):
    first, second = records(round_confidence=None)
    changed = dataclasses.replace(first, **change)
    second = dataclasses.replace(second, **{name: None for name, value in change.items() if value is None})
    with pytest.raises(ValueError, match=message):
        Trace.from_records([changed, second], META)


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"draft_kind": "tree"}, "draft_kind is 'tree'; legal: chain, round"),
        ({"round_limit": 0}, "round_limit is 0; it must be a whole number from 1 on"),
        ({"round_limit": True}, "round_limit is True"),
    ],
)
def test_what_meta_must_say(meta, message):
    with pytest.raises(ValueError, match=message):
        Trace.from_records(records(), META | meta)
