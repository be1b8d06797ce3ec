"""What differs between the releases of transformers that the toolkit runs with, each difference one function.

A difference is found on the library itself, never by its version number, so that releases between those that were run
get what they need too.  Each function says where it was run (transformers 4.57.1 and 5.24.0), older rule first.
Rules of assisted generation that differ are data: ``oracle.policies.semantics``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel


def cache_argument(arguments: frozenset[str]) -> str:
    """The name of the cache among the arguments of a model's forward: ``past_key_values`` (4.57), ``cache`` (5.24)."""
    return "past_key_values" if "past_key_values" in arguments and "cache" not in arguments else "cache"


def cache_of(output: Any) -> DynamicCache:
    """The cache that a model's forward gives back, under the name that it takes one (`cache_argument`)."""
    return output.cache if hasattr(output, "cache") else output.past_key_values


def config_class() -> Any:
    """The base class of configurations: ``PretrainedConfig`` (4.57), ``PreTrainedConfig`` (5.24)."""
    import transformers

    return getattr(transformers, "PreTrainedConfig", None) or transformers.PretrainedConfig


def seeing_models() -> tuple[Any, Any]:
    """Loader and kinds of models that write text and may see: ``AutoModelForImageTextToText`` (4.57),
    ``AutoModelForMultimodalLM``, which knows models that hear as well (5.24)."""
    import transformers
    from transformers.models.auto import modeling_auto

    if hasattr(transformers, "AutoModelForMultimodalLM"):
        return transformers.AutoModelForMultimodalLM, modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING
    return transformers.AutoModelForImageTextToText, modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING


def rope_settings(config: Any) -> Any:
    """Settings of the rotary positions, or None: ``rope_scaling`` (4.57), ``rope_parameters`` (5.24)."""
    found = getattr(config, "rope_parameters", None)
    return getattr(config, "rope_scaling", None) if found is None else found


def told_rope(config: Any) -> Any:
    """A configuration just read, told of the rotary positions that it holds under the other release's name.

    4.57 keeps the ``rope_parameters`` of a checkpoint that was saved by 5.x as an unknown field, and would take its own
    base for theirs.  5.24 reads both names.  Raises ValueError where 4.57 has no place for them.
    """
    written = getattr(config, "rope_parameters", None)
    if not isinstance(written, Mapping) or "rope_theta" not in inspect.signature(type(config).__init__).parameters:
        return config
    if "rope_theta" not in written:
        raise ValueError(
            "its config.json has rope_parameters for each type of layer, which this release of transformers does not "
            "read; install transformers 5"
        )
    rest = {name: value for name, value in written.items() if name != "rope_theta"}
    config.rope_theta = written["rope_theta"]
    config.rope_scaling = None if rope_kind(rest) in (None, "default") else rest
    return config


def tokenizer_loader(named: object) -> Any:
    """Loader of a tokenizer whose files name that class.

    4.57 does not know ``TokenizersBackend``, which is what 5.x calls ``PreTrainedTokenizerFast`` when it saves one.
    """
    import transformers

    if named == "TokenizersBackend" and not hasattr(transformers, "TokenizersBackend"):
        return transformers.PreTrainedTokenizerFast
    return transformers.AutoTokenizer


def rope_kind(rope: Mapping[str, Any]) -> Any:
    """Kind of rotary positions: ``type`` in checkpoints as 4.57 may hand them on, ``rope_type`` (4.57 and 5.24)."""
    return rope.get("rope_type", rope.get("type"))


def forgetting_cache(model: PreTrainedModel) -> DynamicCache:
    """An empty cache that can be cut back wherever it stands.

    4.57: one that keeps everything, because a layer with a window cannot be cut back once it is past its window.
    5.24: one of the layers that the model needs, which are told to keep what they will be cut back to.
    """
    from transformers import DynamicCache

    if not hasattr(DynamicCache, "activate_past_recording"):
        return DynamicCache()
    cache = DynamicCache(config=model.config)
    cache.activate_past_recording()
    return cache


def remove_last(cache: DynamicCache | EncoderDecoderCache, count: int) -> None:
    """Cut the last ``count`` (>= 0) tokens off a cache that holds some.

    4.57: ``crop`` of 0 would empty it.  5.24: ``crop`` of 0 lets a layer with a window shrink back to its window.
    """
    from transformers.cache_utils import DynamicLayer

    if count or "tokens_to_remove" in inspect.signature(DynamicLayer.crop).parameters:
        cache.crop(-count)


def is_recurrent(layer: object) -> bool:
    """Whether a layer of a cache keeps a state beside keys and values.

    4.57: no layer of the library's cache does, such models bring caches of their own; 5.24: a class says so.
    """
    from transformers import cache_utils

    kind = getattr(cache_utils, "LinearAttentionCacheLayerMixin", None)
    return kind is not None and isinstance(layer, kind)


def hold_threshold(generator: Any) -> None:
    """Keep the library from refitting a call's threshold: it does while a field is not 0 that stops no draft.

    4.57: the field is the live one of the draft's own config, which from 4.50 on also replaces a threshold that equals
    the library's default (0.4) in every draft, unless the config is of an earlier release: so that is what it says.
    5.24: the field is that of the generator's own copy.
    """
    own = getattr(generator, "assistant_generation_config", None)
    if own is None:
        own = generator.assistant_model.generation_config
        own.transformers_version = "4.49.0"
    own.assistant_confidence_threshold = 0.0


def threshold_in_force(generator: Any) -> float:
    """The threshold of the next draft of a call.

    4.57: the generator's own, unless it equals the library's default: then the live one of the draft's config, if that
    is of 4.50 or later.  5.24: the generator's own.
    """
    own = generator.generation_config.assistant_confidence_threshold
    if hasattr(generator, "assistant_generation_config"):
        return float(own)
    live = generator.assistant_model.generation_config
    falls_back = own == type(live)().assistant_confidence_threshold and _release(live.transformers_version) >= (4, 50)
    return float(live.assistant_confidence_threshold if falls_back else own)


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
