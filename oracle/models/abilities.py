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

_TOKENS = 12  # of the text that a probe reads
_LONGEST = _TOKENS + 2  # positions that a probe needs
_ERRORS = (ValueError, TypeError, RuntimeError, IndexError, AttributeError)  # how models say that they cannot do it


class Abilities:
    """What the model of a view can do.  Ask inside ``decoding.neutral(pair)``: probes are passes like any other."""

    def __init__(self, view: View) -> None:
        self._view = view

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

    def shares_a_cache(self, longest: int) -> bool:
        """Whether all branches of a text may advance on one cache when texts have up to ``longest`` positions.

        Up to there, nothing may have fallen out of the cache.
        """
        enough = self.remembers is None or self.remembers >= longest
        return enough and self.obeys_masks

    @torch.inference_mode()
    def _tried(self, agrees: Callable[[View], bool]) -> bool:
        if self._view.context is not None and self._view.context < _LONGEST:
            return False  # no probe fits: the slower way is right for every model
        try:
            return agrees(self._view)
        except _ERRORS:
            return False


def _branches_agree(view: View) -> bool:
    text = _text(view)
    branch = text.flip(0)[:6].reshape(2, 3)  # [steps, branches]
    place = torch.tensor([[2, 7, 12]], device=view.device)
    cache = DynamicCache()
    mask = torch.ones_like(text, dtype=torch.bool)[None]
    view.logits(text[None], mask, positions_of(mask), cache, keep=1)
    visible = torch.arange(len(text), device=view.device) < place[:, :, None]
    for step in range(2):
        visible = seeing_itself(visible)
        ours = view.logits(branch[None, step], additive(visible, view.model.dtype), place + step, cache, keep=3)[0]
        prefixes = [torch.cat([text[:depth], branch[: step + 1, n]]) for n, depth in enumerate(place[0].tolist())]
        if not _alike(view, ours, torch.stack([view.after(prefix) for prefix in prefixes])):
            return False
    return True


def _forgetting_agrees(view: View) -> bool:
    text = _text(view)
    reader = Reader(view)
    reader.read(text[:9], keep=1)
    reader.forget(5)
    other = text.flip(0)[:3]
    return _alike(view, reader.read(other, keep=1)[0], view.after(torch.cat([text[:5], other])))


def _neighbours_agree(view: View) -> bool:
    texts = [row.cpu().numpy() for row in (_text(view), _text(view).flip(0)[:5], _text(view)[3:4])]
    ids, mask = left_padded(texts, view.device)
    together = view.logits(ids, mask, positions_of(mask), caches.fresh(view.model), keep=1)[:, 0]
    return _alike(view, together, torch.stack([view.after(torch.from_numpy(text)) for text in texts]))


def _text(view: View) -> torch.Tensor:
    """Ids that are all different, as far as there are so many; int64 [_TOKENS]."""
    return torch.linspace(0, view.vocabulary - 1, _TOKENS, device=view.device).long()


def _alike(view: View, ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two computations give the same probabilities (logits [..., vocabulary]) but for rounding."""
    tolerance = 1e-3 if view.model.dtype in (torch.float32, torch.float64) else 0.1
    ours, theirs = ours.float().softmax(-1), theirs.float().softmax(-1)
    return torch.allclose(ours, theirs, rtol=0, atol=tolerance, equal_nan=True)  # NaN is somebody else's error
