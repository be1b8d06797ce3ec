"""What is probed, on every architecture that the tests know: told by the model itself, never by its name."""

import numpy as np
import pytest
import torch
from builders.pairs import CONFIGS, VOCABULARY, tiny, tiny_pair
from transformers import MambaConfig, MambaForCausalLM

from oracle.collect import collect
from oracle.loop import check_loop
from oracle.models.abilities import Abilities
from oracle.models.pair import Pair
from oracle.models.passes import listen, speak
from oracle.models.scores import best, distribution
from oracle.models.view import Reader, View, views
from oracle.policies import parse
from oracle.records.trace import Trace

USUAL = {
    "takes_positions": True,
    "limits_logits": True,
    "remembers": None,
    "obeys_masks": True,
    "rolls_back": True,
    "keeps_rows_apart": True,
}
UNUSUAL = {
    "mistral": {"remembers": 7, "obeys_masks": False},  # a window of eight, its own token included
    "bloom": {"takes_positions": False, "obeys_masks": False},  # it counts in the mask
}
PROMPTS = [np.random.default_rng(size).integers(2, VOCABULARY, size) for size in (7, 1, 12, 3)]


def view_of(model):
    return views(Pair(model, model))[1]


@pytest.mark.parametrize("kind", CONFIGS)
def test_what_was_probed(kind):
    can = Abilities(view_of(tiny(kind)))
    assert {name: getattr(can, name) for name in USUAL} == USUAL | UNUSUAL.get(kind, {})


def test_each_ability_is_tried_once():
    model, passes = tiny("llama"), []
    model.register_forward_pre_hook(lambda module, inputs: passes.append(1))
    can = Abilities(view_of(model))
    for _ in range(2):
        assert can.rolls_back and len(passes) == 3


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_short_context_is_neither_overstepped_nor_misjudged(kind, size):
    can = Abilities(view_of(tiny(kind, pos=size)), longest=size)
    assert can.keeps_rows_apart and can.rolls_back
    # mistral's window has eight places, bloom counts in the mask; in three positions there is no branch
    assert can.shares_a_cache is (size < 4 or kind not in ("bloom", *(["mistral"] if size == 8 else [])))


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_row_does_not_depend_on_its_neighbours(kind):
    pair = tiny_pair(kind)
    target, draft = views(pair)
    limits = [6, 9, 2, 4]
    with torch.inference_mode():
        together = speak(target, PROMPTS, limits, best)
        texts = [columns["tokens"] for columns in together]
        heard, _ = listen(draft, PROMPTS, texts, distribution)
        for n, prompt in enumerate(PROMPTS):
            alone = speak(target, [prompt], limits[n : n + 1], best)[0]
            expect_same(alone, together[n])
            expect_same(listen(draft, [prompt], [texts[n]], distribution)[0][0], heard[n])


def expect_same(ours, theirs):
    assert ours["tokens"].tolist() == theirs["tokens"].tolist()
    for name, column in ours.items():
        np.testing.assert_allclose(column, theirs[name], atol=1e-4)


class Mixing(View):
    """A model whose logits lean on the first row of the batch, as routing with a capacity would make them."""

    def logits(self, *args, **options):
        found = super().logits(*args, **options)
        return found + 0.5 * (found[:1] - found)


def test_a_model_that_mixes_its_rows_is_found_out_and_read_row_by_row(tmp_path, monkeypatch):
    pair = tiny_pair("llama")
    view = view_of(pair.target)
    assert not Abilities(Mixing(view.model, view.role, view.vocabulary, view.stop)).keeps_rows_apart

    plain = [
        collect(pair, PROMPTS, tmp_path / "plain", max_new_tokens=9, max_overrun=4),
        Trace.load(tmp_path / "plain"),
    ]
    rows = []
    hook = pair.target.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    monkeypatch.setattr(Abilities, "keeps_rows_apart", False)
    monkeypatch.setattr(Abilities, "reads_alike_at_any_length", True)  # its probe reads two rows at once
    with pytest.warns(UserWarning, match="LlamaForCausalLM mixes the texts of a batch: prompts are read one by one"):
        summary = collect(pair, PROMPTS, tmp_path / "rows", max_new_tokens=9, max_overrun=4)
    hook.remove()
    assert set(rows) == {1} and summary.tokens == plain[0].tokens
    np.testing.assert_array_equal(Trace.load(tmp_path / "rows").overruns.tokens, plain[1].overruns.tokens)


def test_a_model_that_cannot_forget_is_refused_by_name(monkeypatch):
    pair = tiny_pair("llama")
    check_loop(pair, parse("svip"))
    monkeypatch.setattr(Reader, "forget", lambda self, length: None)
    with pytest.raises(ValueError, match=r"the target \(LlamaForCausalLM\) cannot forget .*; choose another model"):
        check_loop(pair, parse("svip"))


def test_recurrent_states_remember_nothing():
    model = MambaForCausalLM(MambaConfig(vocab_size=97, hidden_size=16, num_hidden_layers=1, state_size=4))
    can = Abilities(view_of(model), 5)
    assert (can.remembers, can.shares_a_cache, can.rolls_back) == (0, False, False)


def test_both_models_are_cut_to_the_ids_that_they_share():
    target, draft = views(Pair(tiny("llama", vocab=128), tiny("llama", vocab=97)))
    assert target.vocabulary == draft.vocabulary == 97
    with torch.inference_mode():
        assert target.after(torch.tensor([5, 6])).shape == draft.after(torch.tensor([5, 6])).shape == (97,)
