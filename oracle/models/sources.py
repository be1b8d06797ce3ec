"""What an encoder-decoder has read: its encoder's output for each prompt of a batch, beside its decoder's cache.

Encoder inputs are padded on the right: that is right for positions counted from the left (BART) and for distances (T5).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import EncoderDecoderCache

from oracle.models.batches import right_padded


class Sourced(EncoderDecoderCache):
    """An empty cache of a decoder's text, with the encoded prompts that the text belongs to.

    Rolling back forgets text alone: the keys and values of the prompts stay.
    """

    def __init__(self, states: torch.Tensor, mask: torch.Tensor) -> None:
        # Layers come as they are read: sized by a config, the library's cache has as many as T5's *encoder* has.
        super().__init__(DynamicCache(), DynamicCache())
        self.states = states  # float [rows, columns, width], of the encoder's last layer
        self.mask = mask  # bool [rows, columns], false on padding

    def keep_rows(self, rows: torch.Tensor) -> None:
        """Keep only these rows (int64 [kept], on the CPU) of the batch, in this order."""
        self.batch_select_indices(rows)
        self.states, self.mask = self.states[rows], self.mask[rows]


def encode(model: PreTrainedModel, prompts: Sequence[np.ndarray], device: torch.device) -> Sourced:
    """A cache for texts that answer these prompts (int [P] each, P >= 1), of which each is read once.

    The same prompt may come several times, as it does for the branches of one text.
    """
    places: dict[int, int] = {}
    for prompt in prompts:
        places.setdefault(id(prompt), len(places))
    each = {places[id(prompt)]: prompt for prompt in prompts}
    rows = [each[place] for place in range(len(each))]
    ids, mask = right_padded(rows, max(map(len, rows)), device)
    states = model.get_encoder()(input_ids=ids, attention_mask=mask.long(), return_dict=True).last_hidden_state
    chosen = torch.tensor([places[id(prompt)] for prompt in prompts])
    return Sourced(states[chosen.to(states.device)], mask[chosen.to(device)])
