"""What is published beside models and looks like one is named, and refused before anything of it is loaded."""

import json

import pytest
import torch
from builders.pairs import tiny
from builders.tokenizers import save, word_tokenizer
from safetensors.torch import save_file

from oracle.models import pairs
from oracle.models.kinds import check_kind
from oracle.models.pairs import load_pair

HEADS = {
    "an EAGLE head": [
        {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": 32000},
        {"architectures": ["LlamaForCausalLMEagle"], "model_type": "llama"},
        {"architectures": ["EAGLEModel"], "model_type": "eagle"},
        {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3"},
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "draft_vocab_size": 32000},
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "eagle_config": {"eagle_aux": [1]}},
    ],
    "a Medusa head": [
        {"medusa_num_heads": 3, "medusa_num_layers": 1, "base_model_name_or_path": "org/base"},
        {"architectures": ["MedusaModel"], "model_type": "medusa"},
    ],
    "a Hydra head": [{"hydra_num_heads": 4}],
    "an MLP speculator": [{"architectures": ["MLPSpeculatorPreTrainedModel"], "model_type": "mlp_speculator"}],
    "an assistant for its target's hidden states": [
        {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant"},
        {"architectures": None, "model_type": "muse_glimmer_assistant"},
    ],
    "a multi-token-prediction head": [
        {"architectures": ["DeepSeekMTPModel"], "model_type": "deepseek_mtp"},
        {"architectures": ["DeepseekV3ForCausalLMNextN"], "model_type": "deepseek_v3"},
        {"architectures": ["Qwen3NextMTP"], "model_type": "qwen3_next_mtp"},
    ],
    "a DFlash head": [{"architectures": ["DFlashDraftModel"], "model_type": "qwen3"}, {"dflash_config": {}}],
    "a speculator": [{"speculators_config": {"algorithm": "own"}}],
}
MODELS = [
    {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next"},
    {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_nextn_predict_layers": 1},
    {"architectures": ["LlavaNextForConditionalGeneration"], "model_type": "llava_next"},
    {"architectures": ["Eagle2_5_VLForConditionalGeneration"], "model_type": "eagle_2_5_vl"},
    {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "quantization_config": {"bits": 4}},
    {"model_type": "llama"},
    {},
]


@pytest.mark.parametrize(("head", "config"), [(head, one) for head, all_of in HEADS.items() for one in all_of])
def test_heads_are_told_by_their_configuration(head, config):
    with pytest.raises(ValueError, match=f"^x: is {head} .*, which reads its target's hidden states .*; give a draft"):
        check_kind("x", ["config.json", "model.safetensors"], config)


@pytest.mark.parametrize("config", MODELS)
def test_models_are_none(config):
    check_kind("x", ["config.json", "model.safetensors", "tokenizer.json", "model.gguf"], config)
    check_kind("x", ["config.json", "pytorch_model.bin.index.json", "tf_model.h5"], config)


@pytest.mark.parametrize(
    ("files", "config", "message"),
    [
        (["adapter_config.json", "adapter_model.safetensors"], None, "holds an adapter .*merge_and_unload"),
        (["adapter_config.json", "adapter_model.safetensors", "config.json"], {}, "holds an adapter"),
        (["model-Q4_K_M.gguf", "README.md"], None, "holds GGUF files only.*save_pretrained"),
        (["model.gguf", "config.json", "tokenizer.json"], {}, "holds GGUF files only"),
        (["params.json", "consolidated.safetensors", "tekken.json"], None, "Mistral's own format .*config.json and"),
        (["config.json", "model.onnx"], {}, r"holds weights of ONNX only; give a version with \*.safetensors"),
        (["config.json", "model.safetensors"], {"quantization": {"group_size": 64, "bits": 4}}, "quantised for MLX"),
    ],
)
def test_files_of_other_programmes_are_named(files, config, message):
    with pytest.raises(ValueError, match=f"^x: .*{message}"):
        check_kind("x", files, config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "is an EAGLE head"),
        ({"model_type": "gemma4_assistant"}, "is an assistant"),
        ({"medusa_num_heads": 2}, "is a Medusa head"),
    ],
)
def test_nothing_of_a_head_is_loaded(config, message, tmp_path, monkeypatch):
    target = save(tmp_path / "target", tiny("llama"), word_tokenizer())
    draft = save(tmp_path / "draft", tiny("llama"), word_tokenizer())
    content = json.loads((draft / "config.json").read_text())
    (draft / "config.json").write_text(json.dumps(content | config))
    monkeypatch.setattr(pairs, "load_model", lambda *_: pytest.fail("loaded"))
    with pytest.raises(ValueError, match=f"draft: {message}"):
        load_pair(target=target, draft=draft, device="cpu")


@pytest.mark.parametrize(
    ("name", "message"), [("fc.weight", "is an EAGLE head"), ("0.0.linear.weight", "is a Medusa head")]
)
def test_a_head_that_calls_itself_a_llama_is_told_by_its_weights(name, message, tmp_path):
    target = save(tmp_path / "target", tiny("llama"), word_tokenizer())
    draft = save(tmp_path / "draft", tiny("llama"), word_tokenizer())
    save_file({name: torch.zeros(2, 4), "layers.0.mlp.up_proj.weight": torch.zeros(2)}, draft / "model.safetensors")
    with pytest.raises(ValueError, match=f"draft: {message}"):
        load_pair(target=target, draft=draft, device="cpu")


def test_a_file_of_llama_cpp_is_named(tmp_path):
    target = save(tmp_path / "target", tiny("llama"), word_tokenizer())
    (tmp_path / "draft.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=r"draft.gguf: a GGUF file, which is llama.cpp's; give the folder"):
        load_pair(target=target, draft=tmp_path / "draft.gguf", device="cpu")


def test_an_adapter_without_a_configuration_is_named(tmp_path):
    target = save(tmp_path / "target", tiny("llama"), word_tokenizer())
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    with pytest.raises(ValueError, match="draft: holds an adapter"):
        load_pair(target=target, draft=tmp_path / "draft", device="cpu")
