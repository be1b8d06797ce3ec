"""Collecting at the edge of the context: whatever a model is handed, padding included, lies inside its tables."""

import contextlib

import numpy as np
import pytest
import transformers as hf
from builders.pairs import CONFIGS, VOCABULARY, tiny, tiny_pair
from builders.recomputed import expect_equals_recomputation

from oracle.collect import collect
from oracle.models.abilities import Abilities
from oracle.models.batches import narrow
from oracle.models.pair import Pair
from oracle.models.view import views
from oracle.records.trace import Trace

CONTEXT = 40
SIZES = (22, 3, 14, 37, 1, 22)  # the fourth leaves room for 3 tokens, the others for the limit
LIMIT = 18


def prompts_of(seed):
    draw = np.random.default_rng(seed)
    return [draw.integers(2, VOCABULARY, size).tolist() for size in SIZES]


@contextlib.contextmanager
def watched(model, seen):
    """Append to ``seen`` the (tokens, positions, columns) of every pass; fail at the first that is illegal."""

    def before(module, arguments, named):
        ids, places, mask = named["input_ids"], named.get("position_ids"), named["attention_mask"]
        assert 0 <= ids.min() and ids.max() < module.get_input_embeddings().num_embeddings
        if places is not None:
            assert places.shape == ids.shape and 0 <= places.min() and places.max() < CONTEXT
        if mask.dim() == 4:
            assert (mask == 0).any(-1).all()  # every column sees something, itself if nothing else
        else:
            assert mask.shape[1] <= CONTEXT
        seen.append((int(ids.max()), -1 if places is None else int(places.max()), mask.shape[-1]))

    handle = model.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.filterwarnings("ignore:.*cannot continue several texts")
@pytest.mark.parametrize("seed", [2, 3, 5])
@pytest.mark.parametrize("kind", CONFIGS)
def test_every_input_is_legal_and_every_number_right(kind, seed, tmp_path):
    pair, prompts, seen = tiny_pair(kind, pos=CONTEXT, seed=seed), prompts_of(seed), []
    if kind == "bloom":  # names no limit; the test keeps it to the same one
        pair.target.config.n_positions = pair.draft.config.n_positions = CONTEXT
    with watched(pair.target, seen), watched(pair.draft, seen):
        collect(pair, prompts, tmp_path, max_new_tokens=LIMIT, max_overrun=32, batch_size=3)
    trace = Trace.load(tmp_path)
    assert [len(text) for text in np.split(trace.target_tokens, trace.offsets[1:-1])] == [18, 18, 18, 3, 18, 18]
    assert len(trace.overruns.tokens) > 10
    assert kind == "bloom" or max(place for _, place, _ in seen) == CONTEXT - 2  # the last token is never read
    expect_equals_recomputation(pair, trace, prompts, 32)


def test_an_assisted_text_may_fill_the_context_too(tmp_path):
    pair, prompts = tiny_pair("gpt2", pos=CONTEXT, seed=1), prompts_of(1)
    collect(pair, prompts, tmp_path, max_new_tokens=LIMIT, max_overrun=32, batch_size=3, reference="assisted")
    expect_equals_recomputation(pair, Trace.load(tmp_path), prompts, 32)


@pytest.mark.parametrize("longest", [4, 5, 7, 13, 14])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_small_context_is_not_misjudged(kind, longest):
    """The trial of a shared cache reads no further than the models can."""
    model = tiny(kind, pos=longest)
    shares = Abilities(views(Pair(model, model))[1], longest).shares_a_cache
    assert shares is (kind != "bloom" and not (kind == "mistral" and longest >= 8))  # mistral's window has 8 places


@pytest.mark.parametrize(("prompt", "limit"), [(1, 3), (4, 6), (2, 1)])
def test_a_tiny_context_is_collected_without_a_warning(prompt, limit, tmp_path, recwarn):
    """What decides is the texts that will be, not the limit that was asked for."""
    pair = tiny_pair("gpt2", pos=prompt + limit)
    prompts = [np.random.default_rng(n).integers(2, VOCABULARY, prompt).tolist() for n in range(4)]
    collect(pair, prompts, tmp_path, max_new_tokens=100, max_overrun=32)
    assert not [warning for warning in recwarn if "on one cache" in str(warning.message)]
    expect_equals_recomputation(pair, Trace.load(tmp_path), prompts, 32)


def test_a_table_of_columns_is_found_out(tmp_path, monkeypatch):
    """GPT-Neo masks by column: with a cache that many share, what it looks up is not the branch's own past."""
    config = hf.GPTNeoConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]],
        window_size=30, max_position_embeddings=CONTEXT, bos_token_id=1, eos_token_id=None,
    )  # fmt: skip
    monkeypatch.setitem(CONFIGS, "gpt_neo", lambda vocab, pos: config)
    pair, prompts = tiny_pair("gpt_neo"), prompts_of(0)
    with pytest.warns(UserWarning, match="on one cache"):
        collect(pair, prompts, tmp_path, max_new_tokens=LIMIT, max_overrun=32, batch_size=3)
    expect_equals_recomputation(pair, Trace.load(tmp_path), prompts, 32)


def test_rows_that_would_pad_one_another_out_of_the_context_are_parted():
    assert narrow([22, 3, 37, 1], [18, 18, 3, 18], 40) == [[2], [0, 1, 3]]
    assert narrow([5, 3, 9], [2, 8, 3], 12) == [[0, 2], [1]]
    assert narrow([5, 3], [2, 8], None) == narrow([5, 3], [2, 7], 12) == [[0, 1]]
    assert narrow([50, 3], [2, 8], 12) == [[0], [1]]  # too long by itself: the caller's to judge
