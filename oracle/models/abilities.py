"""What a model can do, tried on the model itself rather than listed by name.

Each ability is probed when it is first asked for, and once: a probe is a handful of passes over a dozen tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from transformers import DynamicCache

from oracle.models import caches
from oracle.models.batches import left_padded, positions_of
from oracle.models.masks import additive, seeing_itself
from oracle.models.view import Reader, View

_MOST = 14  # positions that a probe reads, where texts are as long
_SHORTEST = 4  # positions of a text with a branch: a prompt token, the draft's choice, one after it, the target's last
_HIDDEN = 2048  # columns in front of the tried branches: as many as the largest known table that counts columns has
_ERRORS = (ValueError, TypeError, RuntimeError, IndexError, AttributeError)  # how models say that they cannot do it


class Abilities:
    """What the model of a view can do.  Ask inside ``decoding.neutral(pair)``: probes are passes like any other.

    ``longest`` is the most positions that any text will have (default: what the model can read): no probe reads more.
    """

    def __init__(self, view: View, longest: int | None = None) -> None:
        self._view = view
        self._longest = longest if longest is not None else view.context
        positions = _MOST if self._longest is None else min(_MOST, self._longest)
        # All different, as far as there are so many; a branch says two tokens after them.
        self._text = torch.linspace(0, view.vocabulary - 1, max(1, positions - 2), device=view.device).long()

    @cached_property
    def takes_positions(self) -> bool:
        """It is told where each token stands, rather than working that out from the mask."""
        return self._view.takes("position_ids")

    @cached_property
    def limits_logits(self) -> bool:
        """It computes logits for the last columns only where no others are wanted."""
        return self._view.takes("logits_to_keep")

    @cached_property
    def remembers(self) -> int | None:
        """Most positions that every layer of its cache keeps; None without a limit, 0 for recurrent states."""
        return caches.remembered(self._view.model)

    @cached_property
    def obeys_masks(self) -> bool:
        """Several texts may go on from different places of one row of its cache, each seeing its own tokens only.

        Three branches of two tokens each must get the probabilities that recomputing each prefix gives.
        """
        if not self.takes_positions or self._view.model.config._attn_implementation not in ("sdpa", "eager"):
            return False
        return self._tried(_branches_agree)

    @cached_property
    def rolls_back(self) -> bool:
        """After forgetting its last tokens it reads on as if it had never seen them."""
        return self._tried(_forgetting_agrees)

    @cached_property
    def keeps_rows_apart(self) -> bool:
        """What it says of a text does not depend on the other texts of a batch, nor on padding on the left."""
        return self._tried(_neighbours_agree)

    @cached_property
    def shares_a_cache(self) -> bool:
        """Whether all branches of a text may advance on one cache: nothing fell out of it, and masks are obeyed."""
        if self._longest is not None and self._longest < _SHORTEST:
            return True  # there will be no branch
        kept = self.remembers
        return (kept is None or (self._longest is not None and kept >= self._longest)) and self.obeys_masks

    @torch.inference_mode()
    def _tried(self, agrees: Callable[[View, torch.Tensor], bool]) -> bool:
        try:
            return agrees(self._view, self._text)
        except _ERRORS:
            return False


def _branches_agree(view: View, text: torch.Tensor) -> bool:
    """Behind more columns than there are positions, as in a cache that many branches share."""
    depth = len(text)
    branch = (
        torch.linspace(view.vocabulary - 1, 0, _MOST - 2, device=view.device).long()[:6].reshape(2, 3)
    )  # [steps, n]
    place = torch.tensor([[max(1, depth // 6), 7 * depth // 12, depth]], device=view.device)
    cache = DynamicCache()
    mask = torch.ones_like(text, dtype=torch.bool)[None]
    view.logits(text[None], mask, positions_of(mask), cache, keep=1)
    cache = caches.behind_zeros(cache, _HIDDEN)
    column = torch.arange(-_HIDDEN, depth, device=view.device)
    visible = (column >= 0) & (column < place[:, :, None])
    for step in range(2):
        visible = seeing_itself(visible)
        ours = view.logits(branch[None, step], additive(visible, view.model.dtype), place + step, cache, keep=3)[0]
        prefixes = [torch.cat([text[:end], branch[: step + 1, n]]) for n, end in enumerate(place[0].tolist())]
        if not _alike(view, ours, torch.stack([view.after(prefix) for prefix in prefixes])):
            return False
    return True


def _forgetting_agrees(view: View, text: torch.Tensor) -> bool:
    reader, kept = Reader(view), len(text) // 2
    reader.read(text, keep=1)
    reader.forget(kept)
    other = text.flip(0)[: len(text) - kept]
    return _alike(view, reader.read(other, keep=1)[0], view.after(torch.cat([text[:kept], other])))


def _neighbours_agree(view: View, text: torch.Tensor) -> bool:
    texts = [row.cpu().numpy() for row in (text, text.flip(0)[: 1 + len(text) // 3], text[-1:])]
    ids, mask = left_padded(texts, view.device)
    together = view.logits(ids, mask, positions_of(mask), caches.fresh(view.model), keep=1)[:, 0]
    return _alike(view, together, torch.stack([view.after(torch.from_numpy(text)) for text in texts]))


def _alike(view: View, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two computations give the same probabilities (logits [..., vocabulary]) but for rounding."""
    tolerance = 1e-3 if view.model.dtype in (torch.float32, torch.float64) else 0.1
    ours, theirs = ours.float().softmax(-1), theirs.float().softmax(-1)
    return torch.allclose(ours, theirs, rtol=0, atol=tolerance, equal_nan=True)  # NaN is somebody else's error
