"""What goes wrong with models in the field: devices, settings saved with a checkpoint, compiled models, padding."""

import numpy as np
import pytest
import torch
from builders.pairs import tiny_pair
from builders.tokenizers import save, word_tokenizer

from oracle.collect import collect
from oracle.generate import plain
from oracle.measure import measure
from oracle.models import pairs
from oracle.models.pair import Pair
from oracle.records.trace import Trace
from oracle.timing import Clock

PROMPTS = [[1, 5, 9, 4], [1, 7, 3]]


def texts(pair, folder):
    collect(pair, PROMPTS, folder / "trace", max_new_tokens=12, progress=False)
    return Trace.load(folder / "trace")


def test_each_model_goes_to_its_own_device(tmp_path, monkeypatch):
    """There is one device here, so what is asked of it is looked at."""
    pair = tiny_pair("llama")
    folders = {name: save(tmp_path / name, getattr(pair, name), word_tokenizer()) for name in ("target", "draft")}
    moved = []
    monkeypatch.setattr(pairs, "check_device", lambda device: None)
    monkeypatch.setattr(type(pair.target), "to", lambda model, device: moved.append(device) or model)
    found = pairs.load_pair(target=folders["target"], draft=folders["draft"], device="cuda:0", draft_device="cpu")
    assert moved == ["cuda:0", "cpu"]
    pairs.with_draft(found, folders["draft"], device="cuda:1")
    assert moved[2:] == ["cuda:1"]


def test_a_checkpoint_saved_without_a_cache_is_recorded_and_measured(tmp_path):
    pair, other = tiny_pair("llama"), tiny_pair("llama")
    for model in (other.target, other.draft):
        model.config.use_cache = model.generation_config.use_cache = False
    np.testing.assert_array_equal(texts(other, tmp_path / "a").draft_tokens, texts(pair, tmp_path / "b").draft_tokens)
    runs = measure(
        other, PROMPTS, ["constant:tokens=3"], tmp_path / "runs", max_new_tokens=8, repeats=1, progress=False
    )
    assert runs.meta["prompts_planned"] == 2
    assert not other.target.config.use_cache and not other.target.generation_config.use_cache


def test_a_compiled_model_is_one_clear_error():
    """Its shapes grow with every round, so that it would be compiled again inside of what is clocked."""
    pair = tiny_pair("llama")
    compiled = Pair(torch.compile(pair.target, backend="eager"), pair.draft)
    with pytest.raises(RuntimeError, match=r"torch.compile wraps it in another one\); give the model itself"):
        plain(compiled, np.array(PROMPTS[0]), max_new_tokens=4, clock=Clock())


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tokenizer_saved_with_padding_pads_no_prompt(side, tmp_path):
    pair = tiny_pair("llama")
    padded = word_tokenizer(padding_side=side)
    padded.backend_tokenizer.enable_padding(direction=side, length=32, pad_id=0, pad_token="<pad>")
    found = []
    for name, tokenizer in (("padded", padded), ("plain", word_tokenizer())):
        (tmp_path / name).mkdir()
        collect(
            Pair(pair.target, pair.draft, tokenizer), ["w5 w9"], tmp_path / name / "t", max_new_tokens=8, progress=False
        )
        found.append(Trace.load(tmp_path / name / "t"))
    assert found[0].prompt_tokens.tolist() == found[1].prompt_tokens.tolist() == [1, 5, 9]
    np.testing.assert_array_equal(found[0].draft_tokens, found[1].draft_tokens)
