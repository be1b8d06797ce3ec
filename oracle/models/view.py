"""One view of a model: token ids in, logits over the ids that the pair shares out, a cache between the passes.

Whatever runs a model reads it through a view: what collects, what drafts and verifies, what measures a margin.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from oracle.models import caches, compat, configs
from oracle.models.pair import Pair


@dataclass(frozen=True)
class View:
    """A causal language model as one of a pair."""

    model: PreTrainedModel
    role: str  # "target" or "draft", for what is said about it
    vocabulary: int  # ids 0 .. vocabulary - 1, which both models of the pair know
    stop: tuple[int, ...]  # ids that end a text, ascending

    @property
    def device(self) -> torch.device:
        """Where the model wants its token ids; models spread over devices move the rest themselves."""
        weight = self.model.get_input_embeddings().weight
        assert isinstance(weight, torch.Tensor)  # an embedding's table
        return weight.device

    @property
    def context(self) -> int | None:
        """Most positions that it can read; None without a limit."""
        return configs.positions(self.model)

    def takes(self, argument: str) -> bool:
        """Whether the model's forward names this argument."""
        return argument in _arguments(type(self.model))

    def logits(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache, keep: int
    ) -> torch.Tensor:
        """Logits after the last ``keep`` columns of ``ids`` (int64 [rows, columns]), [rows, keep, vocabulary].

        ``cache`` grows by all columns.  ``mask`` is 2-D (bool [rows, cached + columns]) or 4-D and additive;
        ``positions`` is like ``ids``.  Rows of the embedding that the other model lacks are cut off, before a softmax
        or anything else is made of them.
        """
        wanted = {"position_ids": positions, "logits_to_keep": keep}
        extra: dict[str, Any] = {name: value for name, value in wanted.items() if self.takes(name)}
        mask = mask.long() if mask.dim() == 2 else mask
        extra[compat.cache_argument(_arguments(type(self.model)))] = cache
        output = self.model(input_ids=ids, attention_mask=mask, use_cache=True, return_dict=True, **extra)
        return output.logits[:, -keep:, : self.vocabulary].to(ids.device)

    def after(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [vocabulary] after one row of ids (int64 [columns], columns >= 1), read at once."""
        return Reader(self).read(ids, keep=1)[0]


class Reader:
    """A model that reads one text piece by piece, and can forget the end of what it has read."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._cache = compat.forgetting_cache(view.model)
        self.last: torch.Tensor | None = None  # logits of the last pass, float [keep, vocabulary]

    @property
    def length(self) -> int:
        """Tokens that it has read and not forgotten."""
        return self._cache.get_seq_length()

    def read(self, ids: torch.Tensor, keep: int) -> torch.Tensor:
        """Logits after each of the last ``keep`` of these ids (int64 [columns]), float [keep, vocabulary]."""
        ids = ids.to(self._view.device)[None]
        mask = torch.ones(1, self.length + ids.shape[1], dtype=torch.bool, device=ids.device)
        positions = torch.arange(self.length, mask.shape[1], device=ids.device)[None]
        self.last = self._view.logits(ids, mask, positions, self._cache, keep)[0]
        return self.last

    def forget(self, length: int) -> None:
        """Forget everything after the first ``length`` tokens, if that much was read."""
        caches.rollback(self._cache, min(length, self.length))


def views(pair: Pair) -> tuple[View, View]:
    """Target and draft.  Raises ValueError where a configuration cannot be understood."""
    vocabulary, stop = configs.known_rows(pair), configs.eos_token_ids(pair)
    ids = vocabulary if pair.drafting.shares_ids else configs.rows(pair.draft)
    return View(pair.target, "target", vocabulary, stop), View(pair.draft, "draft", ids, stop)


@functools.cache
def _arguments(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)
