"""Replay of an n-gram lookup equals transformers' own prompt lookup, iteration by iteration, in float32."""

import dataclasses

import numpy as np
import pytest
from builders.exact import ran, recorded, replayed
from builders.pairs import set_eos, tiny
from builders.traces import EOS

from analysis.replay.drafts import NotRecorded
from analysis.replay.simulate import simulate
from oracle.collect import collect
from oracle.drafts.kinds import PromptLookup
from oracle.generate import Settings, assisted
from oracle.measure import measure
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.prompts.sets import load_prompts
from oracle.records.runs import Runs
from oracle.records.trace import Record, Trace
from oracle.timing import Clock

LIBRARY = ("constant:tokens=1", "constant:tokens=3", "constant:tokens=10", "constant:tokens=20", "random:tokens=9")
LOOP = ("heuristic:tokens=3", "heuristic_transient:tokens=8", "staircase", "ema")
LIMIT = 28


def repeating(seed, size):
    """A prompt that says things again, as code does."""
    drawn = np.random.default_rng(seed)
    block = drawn.integers(2, 97, size).tolist()
    return [*block, *drawn.integers(2, 97, 3).tolist(), *block, *block[: size // 2]]


PROMPTS = [repeating(seed, size) for seed, size in ((1, 6), (2, 9), (3, 4))]


def looking(kind="llama", ngram=2, tokens=64):
    target = tiny(kind)
    return Pair(target, target, None, name=f"tiny-{kind}", drafting=PromptLookup(tokens, ngram))


@pytest.mark.parametrize("ngram", [1, 2, 3])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "opt", "gpt_neox", "codegen"])
def test_every_iteration_is_the_real_one(kind, ngram, tmp_path):
    pair = looking(kind, ngram)
    trace = recorded(pair, tmp_path, PROMPTS, LIMIT)
    assert trace.run.max() >= 1
    for policy in (*LIBRARY, *LOOP):
        assert replayed(trace, policy) == ran(pair, trace, policy), policy
    # The library clips to the room that is left only where one token is left.
    assert any(drafted > LIMIT - at - 1 > 0 for _, at, drafted, _ in replayed(trace, "constant:tokens=20"))


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_texts_that_end_by_themselves(kind, tmp_path):
    pair = looking(kind)
    text = recorded(pair, tmp_path / "open", PROMPTS, LIMIT).target_tokens[:LIMIT].tolist()
    at, token = max((text.index(token), token) for token in text)
    set_eos(pair, token, PROMPTS[1][2])  # and one that stands in a prompt, so that candidates are cut before it
    trace = recorded(pair, tmp_path / "ends", PROMPTS, LIMIT)
    assert trace.finish[0] == "eos" and 1 < np.diff(trace.offsets)[0] <= at + 1
    for policy in (*LIBRARY, *LOOP):
        assert replayed(trace, policy) == ran(pair, trace, policy), policy


def test_code_by_the_embedded_target(tmp_path):
    pair = load_pair("demo", draft="prompt-lookup:tokens=64,ngram=2")
    trace = recorded(pair, tmp_path, load_prompts("demo-code", limit=2), 48)
    assert trace.run.max() >= 3
    for policy in ("constant:tokens=3", "constant:tokens=10"):
        assert replayed(trace, policy) == ran(pair, trace, policy), policy


def test_what_is_recorded_and_what_the_meta_says(tmp_path):
    trace = recorded(looking(tokens=5), tmp_path, PROMPTS, LIMIT)
    assert trace.draft_kind == "round" and trace.rounds.limit == 5 and trace.mute
    draft = trace.meta["draft"]
    assert (draft["model"], draft["kind"]) == ("prompt-lookup:tokens=5,ngram=2", "prompt-lookup")
    assert "max_overrun" not in trace.meta
    assert np.diff(trace.rounds.offsets).max() == 5


def test_policies_that_read_probabilities_are_refused_with_the_reason(tmp_path):
    pair = looking()
    trace = recorded(pair, tmp_path, PROMPTS[:1], LIMIT)
    for policy in ("dynamic", "svip", "adaedl"):
        with pytest.raises(NotRecorded, match="n-gram lookup gives no probabilities"):
            simulate(trace, policy)
        with pytest.raises(ValueError, match="n-gram lookup gives no probabilities; take one that counts"):
            measure(pair, PROMPTS[:1], [policy], max_new_tokens=8)
    with pytest.raises(ValueError, match="n-gram lookup cannot give it: choose what does without confidence"):
        trace.need("confidence", for_="the heatmap")
    with pytest.raises(ValueError, match="has no confidence to stop at where tokens are looked up"):
        assisted(pair, np.array(PROMPTS[0]), Settings(5, threshold=0.4), max_new_tokens=8, clock=Clock())
    with pytest.raises(ValueError, match="gives no probabilities; leave top_k out"):
        collect(pair, PROMPTS[:1], tmp_path / "top", top_k=3)


def test_measured_runs_are_stored_and_say_who_drafted(tmp_path):
    pair = looking()
    runs = measure(pair, PROMPTS, ["constant:tokens=20", "heuristic"], tmp_path, max_new_tokens=LIMIT, repeats=1)
    found = Runs.load(tmp_path)
    assert {(call.policy, call.generator) for call in found.calls} == {
        ("none", "library"), ("constant:tokens=20", "library"), ("heuristic", "loop"),
    }  # fmt: skip
    assert all(call.equal for call in found.calls) and len(found.calls) == len(runs.calls)
    assert any((call.drafted > LIMIT - call.position).any() for call in found.calls)
    assert found.meta["draft"]["kind"] == "prompt-lookup"


def test_what_is_looked_up_beyond_the_end_must_fit_into_the_context():
    target = tiny("opt", pos=40)
    pair = Pair(target, target, None, drafting=PromptLookup())
    prompt = PROMPTS[2]
    limit = 40 - len(prompt)
    with pytest.raises(ValueError, match="4 more may be looked up .* of the 40 .* lower max_new_tokens by 2"):
        measure(pair, [prompt], ["constant:tokens=4"], max_new_tokens=limit, repeats=1)
    runs = measure(pair, [prompt], ["constant:tokens=4"], max_new_tokens=limit - 2, repeats=1)
    assert all(call.equal for call in runs.calls)


def by_hand(limit, **meta):
    record = Record(
        id="p", index=0, finish="length", max_new_tokens=4, prompt_tokens=np.array([7], np.int32),
        target_tokens=np.array([11, 12, 13, 14], np.int32), run=np.array([2, 0, 1, 0], np.int32),
        round_tokens=[np.array(each, np.int32) for each in ([11, 12], [], [13, 5, 6], [])],
    )  # fmt: skip
    meta = {"eos_token_ids": [EOS], "draft_kind": "round", "round_limit": limit} | meta
    return Trace.from_records([record], meta)


@pytest.mark.parametrize("copies", [1, 20])
def test_rounds_end_where_the_record_of_them_ends(copies):
    ending = by_hand(3, round_ends=True, round_clipped=False)
    ending = Trace.from_records(
        [dataclasses.replace(record, id=str(n), index=n) for n in range(copies) for record in _records(ending)],
        ending.meta,
    )
    found = simulate(ending, "constant:tokens=9")
    # Two tokens are all there is at first; at 3 one token is left, where nothing is drafted.
    assert found.drafted.tolist() == [2, 0] * copies and found.unrecorded == 0
    found = simulate(ending, "constant:tokens=1")
    assert found.drafted.tolist() == [1, 1] * copies and found.accepted.tolist() == [1, 1] * copies
    assert simulate(ending, "oracle:detect").drafted.tolist() == [2, 0] * copies


def test_without_that_word_a_round_may_go_on():
    assert simulate(by_hand(3), "constant:tokens=9").drafted.tolist() == [3, 0]


def _records(trace):
    from oracle.records.trace import iter_records

    return list(iter_records(trace))
