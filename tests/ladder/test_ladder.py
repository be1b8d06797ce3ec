"""The ladder of traces whose truth is known: its order, what nothing can gain there, and what it says is missing."""

import dataclasses

import numpy as np
import pytest
from builders.synthetic import synthetic
from builders.traces import pattern, trace
from builders.truths import known

from analysis.cost import CostModel
from analysis.ladder.ladder import TOKENS, ladder
from analysis.ladder.reach import longest_draft, reach
from analysis.ladder.replays import (
    CONSTANT,
    LIBRARY,
    NONE,
    PER_PROMPT,
    POLICY,
    RUNGS,
    SIGNALS,
    replays,
)  # fmt: skip
from analysis.ladder.rungs import rung
from analysis.ladder.words import headroom_sentence, remarks
from analysis.replay.oracles import ORACLES
from analysis.replay.paired import parts
from analysis.replay.simulate import simulate
from analysis.replay.sweep import library_policies
from oracle.records.trace import Rounds

COST = CostModel(draft=0.1)
DETECT, CLAIRVOYANT, OPTIMAL = ORACLES


def foretold(prompts, seed=0):
    """Coins, and a confidence that says of every token what will become of it."""
    source = known("coins", prompts, seed)
    over = source.overruns
    sure = np.where(source.agrees, 0.99, 0.01).astype(np.float32)
    wrong = np.full(len(over.tokens), 0.01, np.float32)
    after = dataclasses.replace(over, confidence=wrong, entropy=1 - wrong, margin=wrong / 2)
    return dataclasses.replace(source, confidence=sure, entropy=1 - sure, margin=sure / 2, overruns=after)


@pytest.mark.parametrize("draft", [0.05, 0.4, 1.5])
def test_no_rung_is_above_the_optimal_one_on_any_text(draft):
    cost = CostModel(draft=draft, verify=((1, 1.0), (4, 1.2)))
    found = replays(known("both", 8, 3), cost, library_policies()).stood
    assert tuple(found) == RUNGS
    for each in found.values():
        assert np.all(each.optimal.prompt_seconds <= each.rung.prompt_seconds + 1e-9)
        assert np.all(each.optimal.prompt_seconds <= each.constant.prompt_seconds + 1e-9)
    assert np.all(found[CLAIRVOYANT].rung.prompt_seconds <= found[DETECT].rung.prompt_seconds)
    assert found[NONE].rung.speedup == 1 and found[CONSTANT].rung is found[POLICY].constant


def test_nothing_is_seen_to_beat_the_tuned_constant_where_acceptance_is_coins():
    rungs, draws = (PER_PROMPT, POLICY, SIGNALS), 30
    claims = dict.fromkeys(rungs, 0)
    for seed in range(draws):
        found = replays(known("coins", 20, seed), COST, library_policies()).stood
        for name in rungs:
            claims[name] += rung(name, found[name], [], "").over_constant.low > 1
    assert all(count <= 3 for count in claims.values()), claims  # 2.5 % of 30, and what 30 draws may stray


def test_a_confidence_that_foretells_everything_lifts_the_signals_to_the_oracle():
    cost = CostModel(draft=0.02)
    found = replays(foretold(12), cost, ["constant:tokens=5"]).stood
    seconds = {name: found[name].rung.prompt_seconds.sum() for name in (SIGNALS, DETECT, CLAIRVOYANT, CONSTANT)}
    # Whoever has to draft a token to see that it is wrong pays for it: that is `detect`.
    assert seconds[SIGNALS] <= 1.01 * seconds[DETECT] and seconds[SIGNALS] <= 1.03 * seconds[CLAIRVOYANT]
    assert seconds[SIGNALS] < 0.9 * seconds[CONSTANT]


def test_a_prompt_is_drafted_by_models_that_know_nothing_of_its_part():
    source, part = known("signal", 10, 1), parts(10)
    mine = part == part[0]
    other = np.flatnonzero(mine)[1]  # of the same part as the first prompt
    changed = source.confidence.copy()
    changed[source.prompt_of == other] = 0.5
    length = reach(source, COST, part)
    again = reach(dataclasses.replace(source, confidence=changed), COST, part)
    first, others = source.prompt_of == 0, ~mine[source.prompt_of]
    assert np.array_equal(length[first], again[first])
    assert not np.array_equal(length[others], again[others])  # theirs were fitted to it


def test_what_earlier_outcomes_say_is_used():
    source = known("between", 40, 2)  # signals say nothing, prompts differ
    early = source.offsets[:-1]
    length = reach(source, COST, parts(40))
    share = np.add.reduceat(source.agrees, early) / np.diff(source.offsets)
    late = np.add.reduceat(np.where(np.arange(source.tokens) - source.offsets[source.prompt_of] > 40, length, 0), early)
    assert np.corrcoef(share, late)[0, 1] > 0.5


def test_the_ladder_of_a_trace_has_nine_rungs_beside_their_nulls():
    source = known("signal", 12, 5)
    found = ladder(source, COST, shuffles=2)
    assert [each.name for each in found.rungs] == list(RUNGS) and len(found.rungs) == 9
    for name in (LIBRARY, PER_PROMPT, POLICY, SIGNALS, *ORACLES):
        null = found.of_name(name).null
        assert null.low <= null.mean <= null.high
    assert found.of_name(POLICY).over_constant.low > 1 and found.of_name(SIGNALS).share.low > 0.3
    assert found.of_name(OPTIMAL).share.value == 1 and found.of_name(CONSTANT).share.value == 0
    assert found.headroom.value == pytest.approx(
        found.of_name(OPTIMAL).speedup.value / found.of_name(CONSTANT).speedup.value
    )
    assert found.of_name(LIBRARY).speedup.value == simulate(source, "dynamic", COST).speedup
    assert found.roc.value == simulate(source, "roc", COST).speedup
    sentence = headroom_sentence(found)
    assert "most" not in SIGNALS and "a better rule or model, or foreknowledge" in sentence  # one model is no bound
    assert f"{found.of_name(OPTIMAL).speedup.value:.2f} times" in sentence and "\n" not in sentence
    assert any("scikit-learn" in each for each in remarks(found))


@pytest.mark.parametrize(("prompts", "missing", "bare"), [(4, True, True), (5, False, True), (10, False, False)])
def test_few_prompts_are_told_what_they_lack(prompts, missing, bare):
    found = ladder(known("coins", prompts, 0), COST, shuffles=1)
    for name in (CONSTANT, POLICY, SIGNALS):
        assert (found.of_name(name).speedup is None) == missing
    assert (found.headroom is None) == missing
    said = " ".join(remarks(found))
    assert ("takes 5 of them" in said) == missing and ("they take 10 prompts" in said) == bare
    if missing:
        assert "cannot be told" in headroom_sentence(found)
    else:
        assert np.isnan(found.headroom.low) == np.isnan(found.of_name(POLICY).share.low) == bare
    assert found.of_name(DETECT).speedup.value > 1 and np.isfinite(found.of_name(DETECT).speedup.low)


def test_a_trace_without_signals_says_so_and_keeps_the_rest():
    source = dataclasses.replace(known("coins", 10, 0), confidence=None)
    found = ladder(source, COST, shuffles=1)
    for name in (LIBRARY, SIGNALS):
        each = found.of_name(name)
        assert each.speedup is each.null is None and "no confidence" in each.why[0]
    assert found.roc is None and any("adaedl" not in each and "dynamic" in each for each in found.left_out)
    assert found.of_name(POLICY).null is not None and found.of_name(OPTIMAL).null is not None
    assert any("too little for them" in each for each in remarks(found))


def test_a_trace_without_overruns_says_so():
    found = ladder(dataclasses.replace(known("coins", 10, 0), overruns=None), COST, shuffles=1)
    assert "no overruns" in found.of_name(SIGNALS).why[0]
    assert found.of_name(CONSTANT).speedup is not None


def test_a_draft_whose_tokens_cannot_change_places_says_so():
    base = synthetic(10, 30)
    source = dataclasses.replace(
        base,
        meta=base.meta | {"draft_kind": "round", "round_limit": 20},
        rounds=Rounds(np.minimum(base.run, 20), 20),
        **dict.fromkeys(("draft_tokens", "overruns", "confidence", "entropy", "margin")),
    )
    found = ladder(source, COST, shuffles=2)
    assert found.shuffles == 0 and "kind round" in found.of_name(OPTIMAL).why[-1]
    assert "kind round" in found.of_name(PER_PROMPT).why[0] and "rounds" in found.of_name(SIGNALS).why[0]
    assert found.of_name(OPTIMAL).share.value == 1


def test_signals_are_read_as_far_as_they_are_recorded_everywhere():
    source = known("coins", 10, 0)
    short = dataclasses.replace(source, meta=source.meta | {"max_overrun": 3})
    assert longest_draft(short) == 4 and reach(short, COST, parts(10)).max() <= 4


def test_a_large_trace_is_taken_in_a_sample_of_its_prompts(monkeypatch):
    monkeypatch.setattr("analysis.ladder.ladder.candidates", lambda: ["constant:tokens=5"])
    source = synthetic(2 * TOKENS // 500, 500)
    found = ladder(source, COST, shuffles=0)
    assert found.of == source.prompts and found.prompts == source.prompts // 2
    assert any(f"{found.prompts:,} of {found.of:,} prompts" in each for each in remarks(found))
    assert found.of_name(OPTIMAL).null is None


def test_a_draft_that_never_pays_has_plain_decoding_at_the_top():
    found = ladder(known("coins", 12, 0), CostModel(draft=2.0), shuffles=1)
    assert found.of_name(NONE).over_constant.low > 1 and "faster here than no draft" in headroom_sentence(found)
    assert found.of_name(OPTIMAL).speedup.value >= 1


def test_one_token_and_one_text_have_a_ladder_too():
    for source in (trace(pattern("+")), trace(pattern("++-+++-+")), trace(pattern("+"), pattern("++-+", index=1))):
        found = ladder(source, COST, shuffles=1)
        assert len(found.rungs) == 9 and found.of_name(OPTIMAL).speedup.value >= 1 and headroom_sentence(found)
