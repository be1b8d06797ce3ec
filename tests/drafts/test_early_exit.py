"""The target's first layers as the draft: they share its weights, and replay equals the library's early exit."""

import numpy as np
import pytest
import torch
from builders.exact import ran, recorded, replayed
from builders.pairs import tiny

from oracle.collect import collect
from oracle.drafts.kinds import FirstLayers
from oracle.drafts.layers import with_first_layers
from oracle.generate import Settings, assisted
from oracle.measure import measure
from oracle.models.decoding import neutral
from oracle.models.identity import facts
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.models.view import views
from oracle.records.trace import Trace
from oracle.timing import Clock

PROMPTS = [np.random.default_rng(size).integers(2, 97, size).tolist() for size in (6, 9, 4)]
POLICIES = (
    "constant:tokens=1",
    "constant:tokens=5",
    "constant:tokens=20",
    "dynamic:threshold=0.2",
    "dynamic:threshold=0.6,tokens=5",
    "heuristic:tokens=5",
    "heuristic:tokens=5,threshold=0.3",
    "heuristic_transient:tokens=5",
    "random:tokens=7",
    "svip",  # of the toolkit's own loop, as all from here on
    "staircase",
    "roc",  # the library does not refit the threshold of an early exit
)


def leaving(kind="llama", layers=1):
    target = tiny(kind)
    return with_first_layers(Pair(target, target, None, name=f"tiny-{kind}"), layers)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
def test_every_iteration_is_the_real_one(kind, tmp_path):
    pair = leaving(kind)
    trace = recorded(pair, tmp_path, PROMPTS, 24)
    agree = np.mean(trace.agrees)
    assert 0.05 < agree < 0.95
    for policy in POLICIES:
        assert replayed(trace, policy) == ran(pair, trace, policy), policy


def test_the_weights_are_the_targets_own_and_its_layers_stay():
    pair = leaving()
    for mine, theirs in zip(pair.draft.parameters(), pair.target.parameters(), strict=True):
        assert mine is theirs
    assert (pair.draft.config.num_hidden_layers, pair.target.config.num_hidden_layers) == (1, 2)
    ids = torch.arange(2, 9)
    with torch.inference_mode(), neutral(pair):
        target, draft = (view.after(ids) for view in views(pair))
        pair.target.config.num_hidden_layers = 1
        again = views(pair)[0].after(ids)
        pair.target.config.num_hidden_layers = 2
    assert torch.equal(draft, again) and not torch.allclose(draft, target)


@pytest.mark.parametrize("layers", [0, 2, 9, -1, True, 1.0])
def test_a_number_of_layers_that_there_is_not_is_refused(layers):
    with pytest.raises(ValueError, match="has 2 layers, of which a draft may be the first 1 to 1"):
        leaving(layers=layers)


@pytest.mark.parametrize("kind", ["opt", "gpt_neox", "codegen", "gpt2"])
def test_a_model_that_the_library_cannot_leave_early_is_refused(kind):
    target = tiny(kind)
    pair = Pair(target, target, None)
    with pytest.raises(ValueError, match="runs all its 2 layers whatever its configuration says"):
        with_first_layers(pair, 1)
    # The library's own words, and what it leaves behind.
    ids = torch.tensor([PROMPTS[0]])
    with pytest.raises(IndexError):
        target.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, assistant_early_exit=1)
    assert target.config.num_hidden_layers == 1


def test_an_error_in_a_call_gives_the_target_its_layers_back():
    pair = leaving()

    def fail(module, args):
        if pair.target.config.num_hidden_layers == 1:  # the library drafts
            raise RuntimeError("out of memory")

    handle = pair.target.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        assisted(pair, np.array(PROMPTS[0]), Settings(5), max_new_tokens=8, clock=Clock())
    handle.remove()
    assert pair.target.config.num_hidden_layers == 2
    assert len(assisted(pair, np.array(PROMPTS[0]), Settings(5), max_new_tokens=8, clock=Clock()).tokens) == 8


def test_trace_and_runs_say_what_drafted(tmp_path):
    pair = leaving()
    trace = recorded(pair, tmp_path, PROMPTS[:1], 12)
    runs = measure(pair, PROMPTS[:1], ["dynamic", "roc"], max_new_tokens=12, repeats=1)
    for meta in (trace.meta, runs.meta):
        draft = meta["draft"]
        assert (draft["kind"], draft["layers"]) == ("first-layers", 1)
        assert draft["model"].endswith(", first 1 of 2 layers")
        assert draft["weights_sample_sha256"] != meta["target"]["weights_sample_sha256"]
    assert {call.policy: call.generator for call in runs.calls} == {
        "none": "library",
        "dynamic": "library",
        "roc": "loop",
    }


def test_other_numbers_of_layers_are_other_drafts():
    target = load_pair("demo", draft_layers=1).target
    one, two = (with_first_layers(Pair(target, target, None), layers) for layers in (1, 2))
    assert facts(one)["draft"]["weights_sample_sha256"] != facts(two)["draft"]["weights_sample_sha256"]


def test_the_embedded_target_with_its_own_layers(tmp_path):
    pair = load_pair("demo", draft_layers=2)
    assert isinstance(pair.drafting, FirstLayers) and pair.name == "demo + first 2 layers"
    collect(pair, ["def add(a, b):\n"], tmp_path, max_new_tokens=16)
    trace = Trace.load(tmp_path)
    for policy in ("dynamic:threshold=0.3", "heuristic"):
        assert replayed(trace, policy) == ran(pair, trace, policy), policy


def test_a_draft_and_layers_exclude_each_other():
    with pytest.raises(ValueError, match="draft_layers=1 and draft='prompt-lookup' exclude each other"):
        load_pair("demo", draft="prompt-lookup", draft_layers=1)
