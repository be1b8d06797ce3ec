"""One view of a model: token ids in, logits over the ids that the pair shares out, a cache between the passes.

Whatever runs a model reads it through a view: what collects, what drafts and verifies, what measures a margin.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from oracle.models import caches, compat, configs, sources
from oracle.models.pair import Pair
from oracle.models.sources import Sourced


@dataclass(frozen=True)
class View:
    """A causal language model, or an encoder-decoder, as one of a pair.

    What is said of ids, text, positions and cache is the decoder's; the prompt is part of it, or what an encoder reads.
    """

    model: PreTrainedModel
    role: str  # "target" or "draft", for what is said about it
    vocabulary: int  # ids 0 .. vocabulary - 1, which both models of the pair know
    stop: tuple[int, ...]  # ids that end a text, ascending
    start: int | None = None  # what a decoder's text begins with, where an encoder reads the prompt

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

    def opening(self, prompt: np.ndarray) -> np.ndarray:
        """The ids (int [columns], columns >= 1) that a text goes on from: its prompt, or a decoder's start token."""
        return prompt if self.start is None else np.array([self.start], np.int64)

    def fresh(self, prompts: Sequence[np.ndarray]) -> DynamicCache | Sourced:
        """An empty cache for the texts of these prompts (int [P] each); an encoder has read them."""
        if self.start is None:
            return caches.fresh(self.model)
        return sources.encode(self.model, prompts, self.device)

    def forgetting(self, prompts: Sequence[np.ndarray]) -> DynamicCache | Sourced:
        """`fresh`, and it can be cut back wherever it stands."""
        return compat.forgetting_cache(self.model) if self.start is None else self.fresh(prompts)

    def logits(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache | Sourced, keep: int
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
        read: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if isinstance(cache, Sourced):
            read = {f"decoder_{name}": value for name, value in read.items()}
            read |= {"encoder_outputs": BaseModelOutput(cache.states), "attention_mask": cache.mask.long()}
        output = self.model(**read, use_cache=True, return_dict=True, **extra)
        return output.logits[:, -keep:, : self.vocabulary].to(ids.device)

    def after(self, ids: torch.Tensor, prompt: np.ndarray | None = None) -> torch.Tensor:
        """Logits [vocabulary] after one row of ids (int64 [columns], columns >= 1), read at once.

        ``prompt`` is what an encoder reads, where there is one.
        """
        return Reader(self, prompt).read(ids, keep=1)[0]


class Reader:
    """A model that reads one text piece by piece, and can forget the end of what it has read.

    ``prompt`` (int [P]) is what an encoder reads, where there is one; what is read and forgotten is the decoder's text.
    """

    def __init__(self, view: View, prompt: np.ndarray | None = None) -> None:
        self._view = view
        if prompt is None and view.start is not None:
            raise ValueError(f"the {view.role} has an encoder: give it the prompt that it reads")
        self._cache = view.forgetting([] if prompt is None else [prompt])
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
    start = configs.start_token_id(pair)
    return View(pair.target, "target", vocabulary, stop, start), View(pair.draft, "draft", ids, stop, start)


@functools.cache
def _arguments(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)
