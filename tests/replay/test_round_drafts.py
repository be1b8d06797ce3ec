"""Replay where a draft depends on where its round began, by hand: each start has tokens and signals of its own."""

import dataclasses

import numpy as np
import pytest
from builders.traces import EOS

from analysis import examine
from analysis.examine import Source
from analysis.replay.drafts import NotRecorded
from analysis.replay.simulate import simulate, simulate_totals
from analysis.report.page import report
from oracle.records.trace import Record, Trace

META = {"eos_token_ids": [EOS], "draft_kind": "round", "round_limit": 3}
# From 0 two tokens are right, from 1 three, from 3 one: a draft that goes on from 0 says another thing than one from 1.
TARGET = [11, 12, 13, 14, 15, 16]
ROUNDS = {
    0: (2, [11, 12, 1], [0.8, 0.6, 0.9]),
    1: (3, [12, 13, 14], [0.9, 0.9, 0.9]),
    2: (0, [1], [0.9]),
    3: (1, [14, 1, 1], [0.45, 0.9, 0.9]),
    4: (0, [], []),
    5: (0, [], []),
}


def text(target, rounds, index=0, limit=None):
    """A record from position -> (run, tokens, confidence) of the round from there."""
    run, tokens, confidence = zip(*rounds.values(), strict=True)
    return Record(
        id=f"p{index}",
        index=index,
        finish="eos" if target[-1] == EOS else "length",
        max_new_tokens=limit or len(target),
        prompt_tokens=np.array([7, 8, 9], np.int32),
        target_tokens=np.array(target, np.int32),
        run=np.array(run, np.int32),
        round_tokens=[np.array(each, np.int32) for each in tokens],
        round_confidence=[np.array(each, np.float32) for each in confidence],
    )


def trace(target, rounds, copies=1, **options):
    return Trace.from_records([text(target, rounds, index, **options) for index in range(copies)], META)


def rows(t, policy):
    """(position, drafted, accepted) of the first text's iterations, after a look that all texts say the same."""
    found = simulate(t, policy)
    each = [
        list(zip(*(column[found.prompt == prompt].tolist() for column in (found.position, found.drafted,
        found.accepted)),
                 strict=True))
        for prompt in range(t.prompts)
    ]  # fmt: skip
    assert all(one == each[0] for one in each)
    totals = dict(simulate_totals(t, [policy]))[0]
    assert np.array_equal(totals.prompt_seconds, found.prompt_seconds)
    return each[0]


@pytest.mark.parametrize("copies", [1, 20])  # texts one by one, and side by side
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("constant:tokens=1", [(0, 1, 1), (2, 1, 0), (3, 1, 1), (5, 0, 0)]),
        ("constant:tokens=3", [(0, 3, 2), (3, 2, 1), (5, 0, 0)]),
        # No confidence is below 0.4; 0.5 stops the round from 3 at its first token, 0.7 that from 0 at its second.
        ("dynamic:threshold=0.4,tokens=3", [(0, 3, 2), (3, 2, 1), (5, 0, 0)]),
        ("dynamic:threshold=0.5,tokens=3", [(0, 3, 2), (3, 1, 1), (5, 0, 0)]),
        ("dynamic:threshold=0.7,tokens=3", [(0, 2, 2), (3, 1, 1), (5, 0, 0)]),
        # From 0: 0.8, 0.48; from 3: 0.45 at once.
        ("survival:tokens=3,threshold=0.5", [(0, 2, 2), (3, 1, 1), (5, 0, 0)]),
        ("survival:tokens=3,threshold=0.46", [(0, 3, 2), (3, 1, 1), (5, 0, 0)]),
        ("oracle:detect", [(0, 3, 2), (3, 2, 1), (5, 0, 0)]),
        ("oracle:clairvoyant", [(0, 2, 2), (3, 1, 1), (5, 0, 0)]),
    ],
)
def test_rows_by_hand(policy, expected, copies):
    assert rows(trace(TARGET, ROUNDS, copies), policy) == expected


@pytest.mark.parametrize("copies", [1, 20])
def test_an_eos_ends_a_round(copies):
    t = trace([20, 21, EOS], {0: (1, [20, EOS, 5], [0.9] * 3), 1: (2, [21, EOS], [0.9] * 2), 2: (1, [EOS], [0.9])},
    copies,
              limit=8)  # fmt: skip
    assert rows(t, "constant:tokens=3") == [(0, 2, 1), (2, 1, 0)]


@pytest.mark.parametrize("copies", [1, 20])
def test_a_draft_beyond_a_refused_token_is_counted(copies):
    # Three tokens are recorded from 0, of which the third is refused: a fourth changes nothing but its own price.
    t = trace(TARGET, ROUNDS, copies)
    assert rows(t, "constant:tokens=4") == [(0, 4, 2), (3, 2, 1), (5, 0, 0)]
    assert simulate(t, "constant:tokens=4").unrecorded == copies
    with pytest.raises(NotRecorded, match="reads 4 tokens of a round of which 3 are recorded"):
        simulate(t, "dynamic:threshold=0.4,tokens=4")
    with pytest.raises(NotRecorded, match="reads 4 tokens of a round of which 3 are recorded"):
        simulate(t, "survival:tokens=4,threshold=0.1")


@pytest.mark.parametrize("copies", [1, 20])
def test_a_draft_beyond_a_round_that_was_accepted_whole_is_refused(copies):
    # From 0 nothing is right; from 1 three tokens are, as many as are recorded, and the text leaves room for a fourth.
    t = trace(TARGET, ROUNDS | {0: (0, [1], [0.9])}, copies)
    assert rows(t, "constant:tokens=3") == [(0, 3, 0), (1, 3, 3), (5, 0, 0)]
    assert rows(t, "staircase") == [(0, 3, 0), (1, 3, 3), (5, 0, 0)]
    for policy in ("constant:tokens=4", "heuristic:tokens=5"):  # after a draft that was refused: four
        with pytest.raises(NotRecorded, match="sends 4 tokens where all 3 .* not known; lower its tokens to 3"):
            simulate(t, policy)
        assert isinstance(dict(simulate_totals(t, [policy]))[0], NotRecorded)
    # An oracle looks no further ahead than was recorded.
    assert rows(t, "oracle:detect") == [(0, 1, 0), (1, 3, 3), (5, 0, 0)]
    # Where the text ends first, nothing more could be accepted: the last token is the target's own.
    short = trace(TARGET[:5], {at: each for at, each in (ROUNDS | {0: (0, [1], [0.9])}).items() if at < 5}, copies)
    assert rows(short, "constant:tokens=4") == [(0, 4, 0), (1, 3, 3)]


def test_run_lengths_alone_replay_what_only_counts():
    whole = text(TARGET, ROUNDS)
    t = Trace.from_records([dataclasses.replace(whole, round_tokens=None, round_confidence=None)], META)
    assert rows(t, "constant:tokens=3") == [(0, 3, 2), (3, 2, 1), (5, 0, 0)]
    assert simulate(t, "constant:tokens=3").unrecorded == 2  # no token is recorded: one may have been EOS
    with pytest.raises(NotRecorded, match="no confidence: policy dynamic"):
        simulate(t, "dynamic")


def test_parts_of_a_trace_may_differ_in_what_can_be_replayed(monkeypatch):
    from oracle.records import selection

    monkeypatch.setattr(selection.parts, "__defaults__", (6,))  # a text a part
    first, second = text(TARGET, ROUNDS), text(TARGET, ROUNDS | {0: (0, [1], [0.9])}, index=1)
    found = examine.findings(Trace.from_records([first, second], META)).evidence
    # Whether a fourth token would be accepted is not known in the second text: longer constants are out for both.
    assert found.held_out.constant in {"constant:tokens=1", "constant:tokens=2", "constant:tokens=3"}
    assert np.isfinite(found.held_out.gain.value) and found.gains is None  # tokens of rounds cannot be shuffled


def test_a_report_shows_what_can_be_replayed(tmp_path):
    t = Trace.from_records([text(TARGET, ROUNDS), text(TARGET, ROUNDS | {0: (0, [1], [0.9])}, index=1)], META)
    written = report([Source(t)], tmp_path / "report.html", policies=["constant:tokens=5", "constant:tokens=3"])
    assert "lower its tokens to 3" in written.read_text(encoding="utf-8")
