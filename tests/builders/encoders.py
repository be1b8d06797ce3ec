"""Tiny random encoder-decoder pairs, without a tokenizer: an encoder reads the prompt's ids."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

from builders.pairs import VOCABULARY, noisy
from oracle.models.pair import Pair

SPECIAL: dict[str, Any] = dict(eos_token_id=None, pad_token_id=0, decoder_start_token_id=0)
PLAIN: dict[str, Any] = dict(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, forced_eos_token_id=None)


def t5(width: int = 32, encoder: int = 2, decoder: int = 2, seed: int = 3) -> hf.PreTrainedModel:
    """A T5 whose distributions range from flat to peaky, and whose choice depends on where it stands."""
    torch.manual_seed(seed)
    model = hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=VOCABULARY, d_model=width, d_kv=8, d_ff=32, num_layers=encoder, num_decoder_layers=decoder,
            num_heads=2, dropout_rate=0.0, tie_word_embeddings=False, **SPECIAL,
        )
    )  # fmt: skip
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and "shared" not in name and "lm_head" not in name:
            weight.data.mul_(10 if "relative_attention_bias" in name else 2)
    model.lm_head.weight.data = torch.randn_like(model.lm_head.weight) * 0.6
    return model.eval()


def bart(width: int = 32, encoder: int = 2, decoder: int = 2, seed: int = 2) -> hf.PreTrainedModel:
    """A BART: learned positions, counted from the first column of its cache."""
    torch.manual_seed(seed)
    model = hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=VOCABULARY, d_model=width, encoder_layers=encoder, decoder_layers=decoder, encoder_ffn_dim=64,
            decoder_ffn_dim=64, encoder_attention_heads=2, decoder_attention_heads=2, max_position_embeddings=128,
            init_std=0.1, tie_word_embeddings=False, **PLAIN, **SPECIAL,
        )
    )  # fmt: skip
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.5)  # tied, it repeats
    return model.eval()


MODELS = {"t5": (t5, 0.03), "bart": (bart, 0.06)}


def tiny_encoder_pair(kind: str = "t5") -> Pair:
    """A target and a noised copy of it, each with an encoder of its own."""
    make, amount = MODELS[kind]
    target = make()
    return Pair(target, noisy(target, amount), None, name=f"tiny-{kind}")
