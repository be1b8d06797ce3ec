"""The target's own first layers as a draft: a model that shares its weights and stops earlier."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel

from oracle.drafts.kinds import FirstLayers
from oracle.models import caches
from oracle.models.identity import name_of
from oracle.models.pair import Pair


def with_first_layers(pair: Pair, layers: int) -> Pair:
    """The target of ``pair`` with its own first ``layers`` as the draft.

    Raises ValueError for a number that is not from 1 to one less than it has, and for a model that runs all its layers
    whatever its configuration says: the library cannot leave it early.
    """
    total, name = _config(pair.target).num_hidden_layers, name_of(pair.target)
    if isinstance(layers, bool) or not isinstance(layers, int) or not 1 <= layers < total:
        raise ValueError(
            f"draft_layers={layers!r}: {name} has {total} layers, of which a draft may be the first 1 to {total - 1}"
        )
    draft = _sharing(pair.target)
    _config(draft).num_hidden_layers = layers
    draft.config.name_or_path = f"{name}, first {layers} of {total} layers"
    if _layers_run(draft) != layers:
        raise ValueError(
            f"{type(pair.target).__name__} runs all its {total} layers whatever its configuration says, so that the "
            "library cannot leave it early (assistant_early_exit); choose a target that can (Llama, Qwen, Mistral, "
            "Gemma, Phi), or a draft model (--draft)"
        )
    return replace(pair, draft=draft, drafting=FirstLayers(layers))


@contextlib.contextmanager
def restored(target: PreTrainedModel) -> Iterator[None]:
    """Give the target its layers back: the library lowers their number while it drafts, and leaves it so on an error."""
    config = _config(target)
    before = config.num_hidden_layers
    try:
        yield
    finally:
        config.num_hidden_layers = before


def _config(model: PreTrainedModel) -> Any:
    """Where the library sets the number of layers."""
    return getattr(model, model.base_model_prefix, model).config


def _sharing(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the modules and the configuration around the very same weights."""
    shared = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(each): each for each in shared})


@torch.inference_mode()
def _layers_run(model: PreTrainedModel) -> int:
    """How many layers a pass runs, told by the cache; 0 where the model cannot run so few."""
    cache, weight = caches.fresh(model), model.get_input_embeddings().weight
    assert isinstance(weight, torch.Tensor)
    try:
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=weight.device), cache=cache, use_cache=True)
    except (IndexError, ValueError, RuntimeError, AttributeError):
        return 0
    return sum(bool(getattr(layer, "is_initialized", False)) for layer in cache.layers)
