"""Tiny random pairs: a peaky target and a noised copy of it that agrees often but not always."""

from __future__ import annotations

import copy

import torch
import transformers as hf

from oracle.models.pair import Pair

VOCABULARY = 97
SPECIAL = dict(bos_token_id=1, eos_token_id=None, pad_token_id=0, tie_word_embeddings=False)
CONFIGS = {
    "llama": lambda vocab, pos: hf.LlamaConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=pos, **SPECIAL,
    ),
    "qwen2": lambda vocab, pos: hf.Qwen2Config(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=pos, **SPECIAL,
    ),
    "opt": lambda vocab, pos: hf.OPTConfig(
        vocab_size=vocab, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2,
        word_embed_proj_dim=32, max_position_embeddings=pos, **SPECIAL,
    ),
    "gpt_neox": lambda vocab, pos: hf.GPTNeoXConfig(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=pos, **SPECIAL,
    ),
    "codegen": lambda vocab, pos: hf.CodeGenConfig(
        vocab_size=vocab, n_positions=pos, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, **SPECIAL,
    ),
    "gpt2": lambda vocab, pos: hf.GPT2Config(
        vocab_size=vocab, n_positions=pos, n_embd=32, n_layer=2, n_head=2, **SPECIAL,
    ),
    "gpt_bigcode": lambda vocab, pos: hf.GPTBigCodeConfig(
        vocab_size=vocab, n_positions=pos, n_embd=32, n_layer=2, n_head=2, **SPECIAL,
    ),
    "mistral": lambda vocab, pos: hf.MistralConfig(  # its window is shorter than the texts of the tests
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=8, max_position_embeddings=pos, **SPECIAL,
    ),
    "bloom": lambda vocab, pos: hf.BloomConfig(vocab_size=vocab, hidden_size=32, n_layer=2, n_head=2, **SPECIAL),
}  # fmt: skip
SEEDS = {"qwen2": 5, "opt": 5, "codegen": 5, "bloom": 2}  # of models whose texts do not run in circles at once


def tiny(kind: str = "llama", vocab: int = VOCABULARY, pos: int = 256, seed: int | None = None) -> hf.PreTrainedModel:
    """A random model whose distributions range from flat to peaky."""
    torch.manual_seed(SEEDS.get(kind, 0) if seed is None else seed)
    model = hf.AutoModelForCausalLM.from_config(CONFIGS[kind](vocab, pos)).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.mul_(4)
    model.get_output_embeddings().weight.data.mul_(6)
    return model


def noisy(model: hf.PreTrainedModel, amount: float = 0.06, seed: int = 1) -> hf.PreTrainedModel:
    """A copy that agrees with the model often, but not always; ``amount`` is relative to each weight's spread."""
    torch.manual_seed(seed)
    draft = copy.deepcopy(model)
    for weight in draft.parameters():
        if weight.dim() > 1:
            weight.data.add_(torch.randn_like(weight) * weight.std() * amount)
    return draft


def tiny_pair(kind: str = "llama", **options) -> Pair:
    """A pair without a tokenizer: prompts are token ids."""
    target = tiny(kind, **options)
    return Pair(target, noisy(target), None, name=f"tiny-{kind}")


def set_eos(pair: Pair, *tokens: int) -> None:
    """Declare ids that end a text, on the target as a checkpoint would."""
    pair.target.generation_config.eos_token_id = list(tokens)
