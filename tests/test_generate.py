import copy
import dataclasses
import logging
import warnings

import numpy as np
import pytest
import torch
from builders.pairs import set_eos, tiny, tiny_pair
from builders.virtual import PROMPTS, Virtual, same_models

from oracle.generate import Settings, assisted, plain
from oracle.loop import draft_and_verify
from oracle.models.caches import rollback
from oracle.models.decoding import switched_off
from oracle.models.pair import Pair
from oracle.policies import parse
from oracle.policies.drawn import Random
from oracle.policies.library import settings_of
from oracle.policies.thresholds import Dynamic
from oracle.timing import Clock, _wait_for, clock_for, describe_machine

PROMPT = np.array(PROMPTS[0])


def run(pair, settings, limit=24, clock=None):
    return assisted(pair, PROMPT, settings, max_new_tokens=limit, clock=clock or Clock())


# --- what the library is told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("constant:tokens=7", Settings(7)),
        ("constant:tokens=7,threshold=0.3", Settings(7, threshold=0.3)),
        ("dynamic", Settings(20, threshold=0.4)),
        ("heuristic", Settings(5, "heuristic")),
        ("heuristic_transient:tokens=9,threshold=0.2", Settings(9, "heuristic_transient", 0.2)),
        ("roc", Settings(20, threshold=0.4, adaptive=True)),
        ("roc:threshold=0", Settings(20)),
        ("random:tokens=9,seed=3", Settings(9, seed=3)),
        ("none", None),
    ],
)
def test_policies_become_settings(text, settings):
    assert settings_of(parse(text)) == settings


def test_a_policy_that_inherits_from_one_of_the_librarys_is_not_taken_for_it():
    @dataclasses.dataclass(frozen=True)
    class Another(Dynamic):
        pass

    assert settings_of(Another()) is None


def test_roc_needs_scikit_learn(monkeypatch):
    monkeypatch.setattr("oracle.policies.library.has_scikit_learn", lambda: False)
    with pytest.raises(ValueError, match="install scikit-learn, or measure dynamic:threshold=0.4"):
        settings_of(parse("roc"))


def test_the_settings_are_in_force_and_the_drafts_own_config_is_not_touched():
    pair = tiny_pair()
    pair.draft.generation_config.num_assistant_tokens = 11
    before = copy.deepcopy(pair.draft.generation_config.to_dict())
    seen = run(pair, Settings(3)).iterations
    room = 24 - seen["position"] - 1
    assert seen["drafted"].tolist() == np.minimum(3, room).tolist()
    assert set(seen["budget"]) == {3} and set(seen["threshold"]) == {0.0}
    assert pair.draft.generation_config.to_dict() == before


def test_a_drawn_lookahead_is_in_force_before_each_draft():
    seen = run(tiny_pair(), Settings(4, seed=1, drawn=2)).iterations
    drawn = [Random(4, 1).lookahead(2 + number) for number in range(len(seen["budget"]))]
    assert seen["budget"].tolist() == drawn and len(set(drawn[:8])) == 4
    assert seen["drafted"].tolist() == np.minimum(drawn, 24 - seen["position"] - 1).tolist()


def test_an_error_in_a_call_leaves_the_models_as_they_were():
    pair = tiny_pair()
    config = pair.draft.generation_config

    def fail(module, args):
        raise RuntimeError("out of memory")

    handle = pair.draft.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        run(pair, Settings(3))
    handle.remove()
    assert pair.draft.generation_config is config
    assert "_get_candidate_generator" not in vars(pair.target)
    assert not pair.target._forward_hooks and not pair.target._forward_pre_hooks
    assert run(pair, Settings(3)).tokens.size == 24


def test_sampling_and_beam_defaults_of_a_checkpoint_change_nothing():
    pair = tiny_pair()
    expected = plain(pair, PROMPT, max_new_tokens=24, clock=Clock()).tokens.tolist()
    for model in (pair.target, pair.draft):
        config = model.generation_config
        config.do_sample, config.temperature, config.repetition_penalty, config.num_beams = True, 0.6, 1.3, 4
    with warnings.catch_warnings(action="error"):
        assert plain(pair, PROMPT, max_new_tokens=24, clock=Clock()).tokens.tolist() == expected
        assert run(pair, Settings(5)).tokens.tolist() == expected


def test_what_a_checkpoint_asks_for_and_does_not_get_is_named():
    model = tiny()
    assert switched_off(model) == {}
    config = model.generation_config
    config.temperature, config.repetition_penalty, config.num_beams = 0.6, 1.3, 4
    assert switched_off(model) == {"repetition_penalty": 1.3, "num_beams": 4}  # greedy: no temperature
    config.do_sample = True
    assert switched_off(model) == {"do_sample": True, "temperature": 0.6, "repetition_penalty": 1.3, "num_beams": 4}


def test_a_schedule_that_the_library_would_take_for_constant_is_refused():
    with pytest.raises(ValueError, match="'dynamic' is not one that the library knows"):
        run(tiny_pair(), Settings(5, "dynamic"))


def test_models_with_other_numbers_of_rows_are_refused():
    target = tiny(vocab=128)
    with pytest.raises(ValueError, match=r"resize_token_embeddings\(97\)"):
        run(Pair(target, tiny(vocab=97), None), Settings(5))


# --- what is observed ------------------------------------------------------------------------------------------------


def test_a_last_token_is_not_drafted():
    seen = run(tiny_pair(), Settings(20), limit=1)
    assert (seen.iterations["drafted"].tolist(), len(seen.tokens)) == ([0], 1)
    assert seen.prefill_seconds == seen.total_seconds
    seven = run(same_models(), Settings(20), limit=7)
    assert (seven.iterations["drafted"].tolist(), len(seven.tokens)) == ([6], 7)  # clipped, not a lookahead of 6


def test_iterations_say_where_they_began_and_cover_the_text():
    seen = run(tiny_pair(), Settings(4))
    rows = seen.iterations
    assert rows["position"].tolist() == [0, *np.cumsum(rows["accepted"] + 1)[:-1].tolist()]
    assert (rows["accepted"] + 1).sum() == len(seen.tokens) == 24


def test_clocked_seconds_are_where_they_were_spent():
    pair = tiny_pair()
    world = Virtual(pair, draft=lambda tokens, context: 0.1, target=lambda tokens, context: 1.0 if context else 10.0)
    seen = run(pair, Settings(3), clock=world.clock)
    rows = seen.iterations
    assert rows["draft_seconds"] == pytest.approx(0.1 * rows["drafted"])
    assert rows["forward_seconds"] == pytest.approx([10.0] + [1.0] * (len(rows["drafted"]) - 1))
    assert rows["verify_seconds"] == pytest.approx(rows["forward_seconds"])
    assert rows["rest_seconds"] == pytest.approx(0 * rows["draft_seconds"])
    assert seen.total_seconds == pytest.approx(world.time)
    assert seen.prefill_seconds == pytest.approx(10 + 0.1 * rows["drafted"][0])


def test_plain_decoding_is_clocked_step_by_step():
    pair = tiny_pair()
    world = Virtual(pair, draft=lambda tokens, context: 0.1, target=lambda tokens, context: 1 + 0.5 * context)
    seen = plain(pair, PROMPT, max_new_tokens=5, clock=world.clock)
    assert seen.iterations["verify_seconds"] == pytest.approx([1, 4, 4.5, 5, 5.5])  # the prompt has 6 tokens
    assert (seen.prefill_seconds, seen.total_seconds) == pytest.approx((1, 20))
    assert set(seen.iterations["drafted"]) == {0}


def test_work_between_the_passes_is_told_apart(monkeypatch):
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    pair = tiny_pair()
    world = Virtual(pair, draft=lambda tokens, context: 0.1, target=lambda tokens, context: 1.0)
    update = AssistedCandidateGenerator.update_candidate_strategy

    def slow(self, *args):
        world.time += 0.02
        return update(self, *args)

    monkeypatch.setattr(AssistedCandidateGenerator, "update_candidate_strategy", slow)
    rest = run(pair, Settings(3), clock=world.clock).iterations["rest_seconds"]
    assert rest[0] == pytest.approx(0) and rest[1:-1] == pytest.approx(0.02)
    assert rest[-1] == pytest.approx(0.04)  # the end of the call belongs to the last iteration


def test_seconds_add_up_to_the_call_on_a_real_clock():
    pair = tiny_pair()
    for seen in (
        run(pair, Settings(4), clock=clock_for(pair)),
        plain(pair, PROMPT, max_new_tokens=8, clock=clock_for(pair)),
        draft_and_verify(pair, PROMPT, parse("constant"), None, max_new_tokens=8, clock=clock_for(pair))[0],
    ):
        rows = seen.iterations
        parts = rows["draft_seconds"] + rows["verify_seconds"] + rows["rest_seconds"]
        assert parts.sum() == pytest.approx(seen.total_seconds)
        assert min(rows["forward_seconds"]) > 0 and np.all(rows["forward_seconds"] <= rows["verify_seconds"] + 1e-9)


# --- the clock -------------------------------------------------------------------------------------------------------


def test_a_clock_waits_for_the_device_before_it_tells_the_time():
    happened = []
    clock = Clock(now=lambda: happened.append("now") or 1.0, sync=lambda: happened.append("sync"))
    assert clock() == 1.0 and happened == ["sync", "now"]


def test_accelerators_are_waited_for_and_processors_are_not(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    _wait_for(torch.device("cuda:1"))()
    assert waited == [torch.device("cuda:1")]
    assert _wait_for(torch.device("mps")) is torch.mps.synchronize
    clock_for(tiny_pair())()
    assert waited == [torch.device("cuda:1")]


def test_every_timed_region_is_waited_for_on_both_sides():
    pair, waits = tiny_pair(), []
    seen = run(pair, Settings(3), clock=Clock(sync=lambda: waits.append(1)))
    rounds = len(seen.iterations["drafted"])
    assert len(waits) == 2 + 5 * rounds  # call: 2; round: draft 2, forward 2, end of the verification 1


def test_the_machine_is_described():
    machine = describe_machine(tiny_pair())
    assert {"processor", "threads", "load", "versions", "accelerators", "dtype", "scikit_learn"} <= set(machine)
    assert machine["dtype"] == "float32" and machine["accelerators"] == []


# --- our own loop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "keep"), [(3, 0), (3, 1), (3, 3), (0, 0)])
def test_rollback_leaves_just_what_was_asked_for(length, keep):
    cache = cache_of(length)
    rollback(cache, keep)
    assert cache.get_seq_length() == keep


@pytest.mark.parametrize("keep", [4, -1])
def test_rollback_refuses_what_it_cannot_keep(keep):
    with pytest.raises(ValueError, match="the cache holds 3 tokens"):
        rollback(cache_of(3), keep)


def cache_of(length):
    from transformers import DynamicCache

    cache = DynamicCache()
    if length:
        cache.update(torch.zeros(1, 1, length, 4), torch.zeros(1, 1, length, 4), 0)
    return cache


def test_a_loop_with_an_identical_draft_accepts_every_draft_whole():
    pair = same_models()
    seen, _ = draft_and_verify(pair, PROMPT, parse("constant:tokens=4"), None, max_new_tokens=60, clock=Clock())
    assert seen.iterations["drafted"].tolist() == seen.iterations["accepted"].tolist() == [4] * 12


def test_a_loop_drafts_under_a_policy_that_the_library_lacks():
    @dataclasses.dataclass(frozen=True)
    class Alternating(type(parse("constant"))):
        def start(self, lanes, cost=None):
            return (np.full(lanes, 1),)

        def budget(self, state):
            return state[0]

        def update(self, state, drafted, accepted, signals):
            assert signals.confidence.shape == (1, drafted[0])
            return (5 - state[0],)

    pair = tiny_pair()
    seen, state = draft_and_verify(pair, PROMPT, Alternating(), max_new_tokens=16, clock=Clock())
    drafted = seen.iterations["drafted"]
    assert drafted[:2].tolist() == [1, 4]
    assert state[0] == [1, 4][len(drafted) % 2]
    assert seen.tokens.tolist() == plain(pair, PROMPT, max_new_tokens=16, clock=Clock()).tokens.tolist()


def test_a_loop_stops_at_the_end_of_the_text():
    pair = tiny_pair()
    text = plain(pair, PROMPT, max_new_tokens=24, clock=Clock()).tokens.tolist()
    at = max(range(12), key=lambda place: text.index(text[place]))
    set_eos(pair, text[at])
    seen, _ = draft_and_verify(pair, PROMPT, parse("constant"), None, max_new_tokens=24, clock=Clock())
    assert seen.tokens.tolist() == text[: at + 1]


def test_a_loop_cuts_both_models_to_the_shared_vocabulary():
    target, draft = tiny(vocab=128), tiny(vocab=97)
    with torch.no_grad():
        target.lm_head.weight[120] = 0  # rows past 96 exist in the target only
    seen, _ = draft_and_verify(
        Pair(target, draft, None), PROMPT, parse("constant"), None, max_new_tokens=24, clock=Clock()
    )
    assert len(seen.tokens) == 24 and seen.tokens.max() < 97


def test_the_librarys_advice_about_its_own_call_is_kept_back(monkeypatch):
    from transformers.generation import utils

    said = []
    monkeypatch.setattr(utils.logger, "warning_once", lambda text: utils.logger.warning(text))  # each time, not once
    utils.logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: said.append(record.getMessage())
    try:
        assisted(tiny_pair(), PROMPT, Settings(3), max_new_tokens=8, clock=Clock())
        assert said == []
        utils.logger.warning("something else")
    finally:
        utils.logger.removeHandler(handler)
    assert said == ["something else"] and utils.logger.filters == []
