"""Pairs: what is loaded, what is refused and why; and prompts as both models will see them."""

import json
import shutil

import numpy as np
import pytest
import torch
from builders.pairs import tiny, tiny_pair
from builders.tokenizers import SPECIAL_WORDS, WORDS, save, word_tokenizer
from transformers import (
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from oracle.collect import collect
from oracle.models import loading
from oracle.models.checks import check_pair
from oracle.models.configs import known_rows
from oracle.models.identity import describe
from oracle.models.pair import Pair
from oracle.models.pairs import PAIRS, load_pair
from oracle.prompts.encode import context_limit, digest, encode
from oracle.prompts.forms import Prompt
from oracle.records.trace import Trace


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A pair on disk: (target, draft)."""
    root, pair = tmp_path_factory.mktemp("pair"), tiny_pair("llama")
    return save(root / "target", pair.target, word_tokenizer()), save(root / "draft", pair.draft, word_tokenizer())


# --- loading ----------------------------------------------------------------------------------------------------------


def test_a_pair_from_local_directories(folders, tmp_path):
    pair = load_pair(target=folders[0], draft=folders[1], device="cpu")
    assert pair.name == f"{folders[0]} + {folders[1]}" and not pair.target.training
    assert describe(pair.target)["model"] == str(folders[0])
    collect(pair, ["w5 w9", "w7"], tmp_path, max_new_tokens=5)
    memory = tiny_pair("llama")
    collect(memory, [[1, 5, 9], [1, 7]], tmp_path / "memory", max_new_tokens=5)
    loaded, given = Trace.load(tmp_path), Trace.load(tmp_path / "memory")
    np.testing.assert_array_equal(loaded.target_tokens, given.target_tokens)
    np.testing.assert_array_equal(loaded.prompt_tokens, given.prompt_tokens)
    assert describe(memory.target)["weights_sample_sha256"] == describe(pair.target)["weights_sample_sha256"]


def test_dtype(folders):
    assert load_pair(target=folders[0], draft=folders[1], dtype="bfloat16").draft.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(name="demmo"), "no pair is called 'demmo'; choose one of demo, demo-t5, opt, .*Did you mean 'demo'"),
        (dict(name="demo", target="x"), "give either the name of a pair"),
        (dict(target="x"), "a pair needs a target and a draft"),
        (dict(target="./a", draft="./b", dtype="int3"), "dtype 'int3' is unknown; choose one of auto, float32"),
        (dict(target="./a", draft="./b", device="gpu"), "device 'gpu' cannot be used .*; cpu always can"),
        (dict(target="./nowhere", draft="./b"), r"\./nowhere: no such directory; give a local directory"),
    ],
)
def test_arguments_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        load_pair(**options)


def test_published_pairs_have_names():
    assert {"demo", "pythia", "opt", "codegen", "flan-t5", "llama-3", "starcoder", "vicuna"} < set(PAIRS)


def test_an_unreachable_hub_is_one_error_at_once(monkeypatch, tmp_path):
    """No retries, whatever the network does; nothing here may go there."""
    asked = []
    monkeypatch.setattr(loading, "_hub_problem", lambda source: asked.append(source) or "ConnectError: no route")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="org/model: neither a local directory nor .*no route.*local directory"):
        load_pair(target="org/model", draft="org/other")
    assert asked


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda path: (path / "model.safetensors").rename(path / "model.bin"),
            "no .*safetensors in there, and no pytor",
        ),
        (lambda path: (path / "model.safetensors").unlink(), "no .*safetensors in there.*; give a local directory"),
        (lambda path: (path / "model.safetensors").write_bytes(b"nonsense"), "cannot be loaded"),
        (lambda path: (path / "config.json").write_text('{"model_type": "nonsense"}'), "cannot be loaded"),
        (lambda path: (path / "config.json").unlink(), "cannot be loaded"),
    ],
)
def test_a_damaged_directory_is_one_error(spoil, message, folders, tmp_path):
    draft = shutil.copytree(folders[1], tmp_path / "draft")
    spoil(draft)
    with pytest.raises(ValueError, match=message) as caught:
        load_pair(target=folders[0], draft=draft)
    assert str(draft) in str(caught.value)


def test_missing_weights_are_not_made_up(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    draft = shutil.copytree(folders[1], tmp_path / "draft")
    weights = load_file(draft / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, draft / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 weights \(model.layers.1.mlp.up_proj.weight\)"):
        load_pair(target=folders[0], draft=draft)


def test_code_of_a_checkpoint_is_never_run(folders, tmp_path):
    draft = shutil.copytree(folders[1], tmp_path / "draft")
    config = json.loads((draft / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
    (draft / "config.json").write_text(json.dumps(config))
    (draft / "own.py").write_text("raise SystemExit('this ran')")
    with pytest.raises(ValueError, match="checkpoints that bring their own code are not supported"):
        load_pair(target=folders[0], draft=draft)


def test_models_that_say_where_they_are_stay_there(folders, monkeypatch):
    from transformers import LlamaForCausalLM

    def move(self, *where):
        raise AssertionError("moved")

    monkeypatch.setattr(LlamaForCausalLM, "to", move)
    monkeypatch.setattr(LlamaForCausalLM, "is_quantized", True, raising=False)
    load_pair(target=folders[0], draft=folders[1])


# --- pairs that do not fit --------------------------------------------------------------------------------------------


def test_a_model_with_an_encoder_and_one_without_are_refused(folders, tmp_path):
    config = T5Config(vocab_size=97, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    with pytest.raises(ValueError, match="the draft .* is an encoder-decoder: the draft must be decoder-only"):
        check_pair(Pair(tiny("llama"), model))
    save(tmp_path, model)
    with pytest.raises(ValueError, match="the target .* is an encoder-decoder and the draft .* is decoder-only"):
        load_pair(target=tmp_path, draft=folders[1])


def test_recurrent_models_are_refused():
    config = MambaConfig(vocab_size=97, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(ValueError, match="the target .* keeps a recurrent state"):
        check_pair(Pair(MambaForCausalLM(config), tiny("llama")))


def test_other_tokens_are_named(folders, tmp_path):
    shuffled = WORDS[:10] + [WORDS[11], WORDS[10]] + WORDS[12:]
    draft = save(tmp_path / "draft", tiny("llama"), word_tokenizer(shuffled))
    with pytest.raises(
        ValueError, match="differ: id 10 is 'w10' in the target's and 'w11' in the draft's, where that is id 11"
    ):
        load_pair(target=folders[0], draft=draft)


@pytest.mark.parametrize(("target", "draft"), [(97, 97), (97, 128), (128, 97), (97, 90)])
def test_embedding_sizes_may_differ_by_padding_only(target, draft):
    pair = Pair(tiny("llama", vocab=target), tiny("llama", vocab=draft), word_tokenizer())
    assert known_rows(pair) == min(target, draft)
    if draft >= len(WORDS):
        check_pair(pair)
    else:
        with pytest.raises(ValueError, match="ids up to 96, but the draft .* knows only 90"):
            check_pair(pair)


# --- prompts ----------------------------------------------------------------------------------------------------------


def with_tokenizer(tokenizer, **options):
    pair = tiny_pair("llama", **options)
    return Pair(pair.target, pair.draft, tokenizer)


def test_text_and_ids_and_prompts():
    pair = with_tokenizer(word_tokenizer())
    prompts = ["w5 w6", [7, 8], np.array([9]), torch.tensor([10, 11]), Prompt("task-3", "w12", "w13")]
    found, skipped = encode(pair, iter(prompts), 6)
    assert [item.tokens.tolist() for item in found] == [[1, 5, 6], [7, 8], [9], [10, 11], [1, 12]]
    assert [item.id for item in found] == ["0", "1", "2", "3", "task-3"] and not skipped
    assert {item.tokens.dtype for item in found} == {np.dtype(np.int32)}
    assert {item.max_new_tokens for item in found} == {6}


@pytest.mark.parametrize("begin", [True, False])
def test_an_empty_prompt_is_skipped_and_named_whatever_a_tokenizer_adds_to_it(begin):
    found, skipped = encode(with_tokenizer(word_tokenizer(begin=begin)), ["w5", "", "  \n", [], np.zeros(0), "w6"], 4)
    assert [item.index for item in found] == [0, 5]
    reason = {"reason": "empty prompt", "kind": "empty"}
    assert skipped == [{"id": str(at), "index": at, **reason} for at in (1, 2, 3, 4)]


def test_a_prompt_of_nothing_but_a_special_token_is_a_prompt():
    found, skipped = encode(with_tokenizer(word_tokenizer()), ["<s>", [1]], 4)
    assert [item.tokens.tolist() for item in found] == [[1, 1], [1]] and not skipped


def test_the_shorter_context_limits_prompts_and_answers(tmp_path):
    """The draft reads 32 positions, the target 128."""
    models_ = [
        GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=size, n_embd=16, n_layer=1, n_head=2, bos_token_id=1))
        for size in (128, 32)
    ]
    for model in models_:
        model.generation_config.eos_token_id = model.config.eos_token_id = None
    pair = Pair(*models_)
    assert context_limit(pair) == 32
    found, skipped = encode(pair, [[5] * 20, [5] * 32, [5] * 28, [5] * 31], 30)
    assert [item.max_new_tokens for item in found] == [12, 4, 1]
    assert [item["index"] for item in skipped] == [1]
    assert "32 tokens, but the models read at most 32" in skipped[0]["reason"]
    summary = collect(pair, [[5] * 20, [5] * 40, [5] * 28], tmp_path, max_new_tokens=30)
    trace = Trace.load(tmp_path)
    assert (summary.prompts, summary.skipped, np.diff(trace.offsets).tolist()) == (2, 1, [12, 4])
    assert trace.max_new_tokens.tolist() == [12, 4] and set(trace.finish) == {"length"}


@pytest.mark.parametrize(("kind", "limit"), [("llama", -1), ("llama", 10**30), ("bloom", None)])
def test_contexts_without_a_limit(kind, limit):
    pair = tiny_pair(kind)
    if limit is not None:
        pair.target.config.max_position_embeddings = pair.draft.config.max_position_embeddings = limit
    assert context_limit(pair) is None
    assert encode(pair, [[5] * 1000], 4)[0][0].max_new_tokens == 4


def test_padding_and_truncation_saved_with_a_tokenizer_do_not_leak(tmp_path):
    core = word_tokenizer().backend_tokenizer
    core.enable_padding(direction="right", length=32, pad_id=0, pad_token="<pad>")
    core.enable_truncation(max_length=3)
    PreTrainedTokenizerFast(
        tokenizer_object=core, **SPECIAL_WORDS, padding_side="right", model_max_length=3
    ).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert "padding" in json.loads((tmp_path / "tokenizer.json").read_text())
    found, _ = encode(with_tokenizer(tokenizer), ["w5 w6 w7 w8"], 4)
    assert found[0].tokens.tolist() == [1, 5, 6, 7, 8]


def test_a_chat_template_is_rendered_once():
    """The template writes <s> itself; the tokenizer would add a second one."""
    template = "<s> {{ messages[0]['content'] }}{% if add_generation_prompt %} w96{% endif %}"
    pair = with_tokenizer(word_tokenizer(chat_template=template))
    found, _ = encode(pair, ["w5 w6", Prompt("a", "w7", "w8 w9")], 4, chat=True)
    assert [item.tokens.tolist() for item in found] == [[1, 5, 6, 96], [1, 8, 9, 96]]
    with pytest.raises(ValueError, match="leave chat out"):
        encode(pair, [[5, 6]], 4, chat=True)
    with pytest.raises(ValueError, match="no chat template"):
        encode(with_tokenizer(word_tokenizer()), ["w5"], 4, chat=True)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("w5 w6", "prompts is one string; give a list"),
        ([[5.0, 1.5]], r"prompt 0 is neither text nor a sequence of token ids: it has '1.5' \(float\) at index 1"),
        ([[5, 6, float("nan")]], r"'nan' \(float\) at index 2"),
        ([[5, True]], r"'True' \(bool\) at index 1; give whole numbers"),
        ([np.array([True, False])], r"'True' \(bool\) at index 0"),
        ([[[5, 6]]], r"prompt 0 is neither text .* it has '\[5, 6\]' \(list\) at index 0"),
        ([torch.tensor([[5, 6]])], r"neither text .* of shape \(1, 2\); give a string or a flat list of ids"),
        ([[5], ["w5"]], r"prompt 1 is neither text .* it has 'w5' \(str\) at index 0"),
        ([[5], [None]], r"'None' \(NoneType\) at index 0"),
        ([5], "prompt 0 is neither text nor a sequence of token ids: '5'"),
        ([None], "prompt 0 is neither text"),
        ([b"w5"], "prompt 0 is neither text"),
        ([{5: 6}], "prompt 0 is neither text"),
    ],
)
def test_what_is_no_prompt(prompts, message):
    with pytest.raises(ValueError, match=message):
        encode(with_tokenizer(word_tokenizer()), prompts, 4)


@pytest.mark.parametrize(
    "ids",
    [[5, 6], (5, 6), [5.0, np.int64(6)], np.array([5, 6], np.uint8), torch.tensor([5.0, 6.0]), [5, torch.tensor(6)]],
)
def test_ids_are_read_by_value(ids):
    found, _ = encode(tiny_pair("llama"), [ids], 4)
    assert found[0].tokens.tolist() == [5, 6] and found[0].tokens.dtype == np.int32


def test_text_needs_a_tokenizer():
    with pytest.raises(ValueError, match="prompt 1 is text, but the pair has no tokenizer"):
        encode(tiny_pair("llama"), [[5], "w5"], 4)


@pytest.mark.parametrize("tokens", [[97], [5, -1], [2**40], [5, 6, 2**70]])
def test_ids_that_a_model_does_not_know_are_skipped(tokens):
    found, skipped = encode(tiny_pair("llama"), [tokens, [5]], 4)
    assert [item.index for item in found] == [1]
    at = f"(at index {len(tokens) - 1} of the prompt)"
    assert skipped[0]["reason"] == f"token id {tokens[-1]}, but the models share ids 0 to 96 {at}"


def test_the_digest_sees_ids_order_and_limits():
    pair = tiny_pair("llama")
    several = ([[5, 6], [7]], [[5], [6, 7]], [[7], [5, 6]])
    assert len({digest(encode(pair, prompts, limit)[0]) for prompts in several for limit in (3, 4)}) == 6


def test_a_device_that_holds_nothing_is_refused():
    from oracle.models.loading import check_device

    with pytest.raises(ValueError, match="device 'meta' cannot be used"):
        check_device("meta")
