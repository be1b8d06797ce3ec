"""Architectures beyond those of ``builders.pairs``: tiny configurations of what else people load, or cannot.

Each holds what is unusual about its kind, at a size where texts of a few dozen tokens meet it.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from builders.pairs import SPECIAL, VOCABULARY
from oracle.models.compat import seeing_models

SWITCH = 16  # positions from which on longrope and dynamic scaling read in another way
SIZES = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=256, **SPECIAL,
)  # fmt: skip
EYES = dict(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4
)
WINDOWED = dict(head_dim=16, sliding_window=8, layer_types=["sliding_attention", "full_attention"])
BOTH = ["conv", "full_attention"]


def _sized(kind, **options):
    return lambda: getattr(hf, kind)(**(SIZES | options))


def _rope(kind, **options):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4} | options}


_FACTORS = dict(short_factor=[1.0] * 8, long_factor=[4.0] * 8, original_max_position_embeddings=SWITCH)
LONG = _rope("longrope", **_FACTORS)
PICTURES = _rope("default", mrope_section=[2, 3, 3])

READ = {
    "lfm2": _sized("Lfm2Config", layer_types=BOTH),  # the state of a convolution
    "phi3, two ropes": _sized("Phi3Config", original_max_position_embeddings=SWITCH, **LONG),
    "llama, dynamic rope": _sized("LlamaConfig", max_position_embeddings=SWITCH, **_rope("dynamic", factor=4.0)),
    "llama, yarn": _sized("LlamaConfig", **_rope("yarn", factor=4.0, original_max_position_embeddings=SWITCH)),
    "gemma2": _sized("Gemma2Config", **WINDOWED),
    "gemma3": _sized("Gemma3TextConfig", **WINDOWED),
    "qwen3": _sized("Qwen3Config", head_dim=16),
    "gpt-oss": _sized("GptOssConfig", head_dim=16, num_local_experts=4, sliding_window=8),
    "llama4": _sized(
        "Llama4TextConfig", head_dim=16, num_local_experts=2, intermediate_size_mlp=64, attention_chunk_size=8,
        layer_types=["chunked_attention", "full_attention"],
    ),
    "mixtral": _sized("MixtralConfig", num_local_experts=4),
    "falcon, alibi": lambda: hf.FalconConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, alibi=True,
        bos_token_id=1, eos_token_id=None,
    ),
    "gpt-neo": lambda: hf.GPTNeoConfig(
        vocab_size=VOCABULARY, max_position_embeddings=256, hidden_size=32, num_layers=2, num_heads=2, window_size=8,
        attention_types=[[["global", "local"], 1]], bos_token_id=1, eos_token_id=None,
    ),
    "mistral3": lambda: hf.Mistral3Config(
        text_config=hf.MistralConfig(**SIZES, sliding_window=None).to_dict(),
        vision_config=dict(model_type="pixtral", **EYES), image_token_index=10,
    ),
    "qwen2.5-vl": lambda: hf.Qwen2_5_VLConfig(
        text_config=SIZES | PICTURES,
        vision_config=dict(
            depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, patch_size=4
        ),
    ),
    "gemma3, pictures": lambda: hf.Gemma3Config(
        text_config=dict(**SIZES, head_dim=16, sliding_window=8), mm_tokens_per_image=4, image_token_index=10,
        vision_config=dict(model_type="siglip_vision_model", **EYES),
    ),
    "llava": lambda: hf.LlavaConfig(
        text_config=hf.LlamaConfig(**SIZES).to_dict(), image_token_index=10,
        vision_config=dict(model_type="clip_vision_model", **EYES),
    ),
}  # fmt: skip

REFUSED = {
    "openai-gpt": lambda: hf.OpenAIGPTConfig(vocab_size=VOCABULARY, n_positions=256, n_embd=32, n_layer=2, n_head=2),
    "xlnet": lambda: hf.XLNetConfig(vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=2, d_inner=64),
    "minimax": _sized(
        "MiniMaxConfig", head_dim=16, layer_types=["linear_attention", "full_attention"], num_local_experts=2
    ),
    "paligemma": lambda: hf.PaliGemmaConfig(
        text_config=dict(model_type="gemma", **SIZES, head_dim=16), projection_dim=32, image_token_index=10,
        vision_config=dict(model_type="siglip_vision_model", **EYES),
    ),
    "mamba": lambda: hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4),
    "jamba": _sized(
        "JambaConfig", attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, num_experts=2,
        mamba_d_state=4, use_mamba_kernels=False,
    ),
    "recurrent-gemma": _sized("RecurrentGemmaConfig", num_hidden_layers=3, attention_window_size=8, lru_width=32),
    "rwkv": lambda: hf.RwkvConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, context_length=256),
}  # fmt: skip


def built(config: Any, seed: int = 3) -> hf.PreTrainedModel:
    """A random model of that configuration, whose texts do not end."""
    torch.manual_seed(seed)
    causal = type(config) in hf.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    model = (hf.AutoModelForCausalLM if causal else seeing_models()[0]).from_config(config).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.mul_(3)
    model.generation_config.eos_token_id = model.config.get_text_config().eos_token_id = None
    return model
