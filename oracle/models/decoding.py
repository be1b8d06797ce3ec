"""Pure greedy decoding: what ends a text, and settings that no checkpoint's own defaults can change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from transformers import GenerationConfig, PreTrainedModel

from oracle.models.configs import SETTLED, eos_token_ids, start_token_id
from oracle.models.pair import Pair

# Settings of a generation config that say nothing about which token is chosen, or that every call here sets itself.
_NO_MATTER = {
    "bos_token_id", "eos_token_id", "pad_token_id", "transformers_version", "_from_model_config", "use_cache",
    "cache_implementation", "max_length", "max_new_tokens", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "assistant_confidence_threshold", "compile_config", "disable_compile",
    "decoder_start_token_id",
}  # fmt: skip
_SAMPLING = {"temperature", "top_p", "top_k", "min_p", "typical_p"}


def greedy_config(pair: Pair, max_new_tokens: int) -> GenerationConfig:
    """Settings of plain greedy decoding, in full.

    The library fills whatever is None here from the model's own generation config, so use it inside ``neutral(pair)``.
    The pad id is an EOS id: with any other, assisted generation hides text that contains the pad id from the draft.
    """
    return _plain(eos_token_ids(pair), start_token_id(pair), max_new_tokens=max_new_tokens)


def switched_off(model: PreTrainedModel) -> dict[str, object]:
    """What the model's own generation config asks for that greedy decoding leaves out: name -> value."""
    config = getattr(model, "generation_config", None)
    if config is None:
        return {}
    usual = GenerationConfig().to_dict()
    asked = {name: value for name, value in config.to_dict().items() if name not in _NO_MATTER}
    sampled = bool(asked.get("do_sample"))
    return {
        name: value
        for name, value in asked.items()
        if not _equals_any(value, None, False, usual.get(name)) and (sampled or name not in _SAMPLING)
    }


def _equals_any(value: object, *others: object) -> bool:
    """Whether a setting of any type is one of ``others``; an array or a tensor (which compares by element) is none."""
    return not hasattr(value, "tolist") and value in others


@contextlib.contextmanager
def neutral(pair: Pair) -> Iterator[None]:
    """Both models in evaluation mode and without generation defaults of their own; restored on leaving.

    Inside, each model carries a fresh generation config that may be changed freely.
    """
    stop, start = eos_token_ids(pair), start_token_id(pair)
    models = [pair.target] if pair.draft is pair.target else [pair.target, pair.draft]
    before = [(model.generation_config, [part for part in model.modules() if part.training]) for model in models]
    try:
        for model in models:
            model.generation_config = _plain(stop, start)
            setattr(model.generation_config, SETTLED, stop)  # else None would be looked up in the config again
            model.eval()
        yield
    finally:
        for model, (config, training) in zip(models, before, strict=True):
            model.generation_config = config
            for part in training:  # one by one: a frozen part of a training model stays frozen
                part.training = True


def _plain(stop: tuple[int, ...], start: int | None, **limits: int) -> GenerationConfig:
    return GenerationConfig(
        do_sample=False,
        num_beams=1,
        num_return_sequences=1,
        repetition_penalty=1.0,
        use_cache=True,
        eos_token_id=list(stop) or None,
        pad_token_id=stop[0] if stop else None,
        decoder_start_token_id=start,
        **limits,
    )
