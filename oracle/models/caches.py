"""The library's cache of keys and values: a fresh one, cutting it back, choosing rows, and how far it remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from oracle.models import compat
from oracle.models.sources import Sourced


def fresh(model: PreTrainedModel) -> DynamicCache:
    """An empty cache of the kind that the model's layers need."""
    return DynamicCache(config=model.config)


def rollback(cache: DynamicCache | Sourced, keep: int) -> None:
    """Cut ``cache`` to its first ``keep`` tokens.  Raises ValueError when it holds fewer."""
    length = cache.get_seq_length()
    if not 0 <= keep <= length:
        raise ValueError(f"keep={keep}: the cache holds {length} tokens; give 0 to {length}")
    if length:
        compat.remove_last(cache, length - keep)
    if cache.get_seq_length() != keep:
        raise RuntimeError(
            f"the cache holds {cache.get_seq_length()} tokens after a rollback to {keep}: it cannot roll back"
        )


def keep_rows(cache: DynamicCache | Sourced, rows: torch.Tensor) -> None:
    """Keep only these rows (int64 [kept]) of the batch, in this order."""
    rows = rows.cpu()  # layers may be on several devices
    if isinstance(cache, Sourced):
        cache.keep_rows(rows)
        return
    for layer in cache.layers:
        # "reorder" takes any rows: states of a convolution, and keys and values where a layer has both.
        getattr(layer, "reorder_cache" if compat.is_recurrent(layer) else "batch_select_indices")(rows)


def copy_rows(cache: DynamicCache, rows: Sequence[int]) -> DynamicCache:
    """Another cache that holds these rows of the batch; only for layers that remember everything."""
    return DynamicCache([(keys[rows], values[rows]) for keys, values in _contents(cache)])


def behind_zeros(cache: DynamicCache, columns: int) -> DynamicCache:
    """Another cache, with so many columns of zeros before what this one holds."""
    padding = (0, 0, columns, 0)  # keys and values are [rows, heads, columns, size]
    pad = torch.nn.functional.pad
    return DynamicCache([(pad(keys, padding), pad(values, padding)) for keys, values in _contents(cache)])


def _contents(cache: DynamicCache) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of each layer of a cache that has been read into."""
    layers: list[Any] = cache.layers  # of kinds that keep keys and values: others are never copied
    return [(layer.keys, layer.values) for layer in layers]


def remembered(model: PreTrainedModel) -> int | None:
    """Most positions that every layer of the model's cache keeps; None without a limit, 0 for recurrent states."""
    reaches = [_reach(layer) for layer in fresh(model).layers]
    return min((reach for reach in reaches if reach is not None), default=None)


def _reach(layer: object) -> int | None:
    if type(layer) is DynamicLayer:
        return None
    return layer.sliding_window - 1 if type(layer) is DynamicSlidingWindowLayer else 0
