"""What a model can do, tried on the model itself rather than listed by name.

Each ability is probed when it is first asked for, and once: a probe is a handful of passes over a dozen tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from transformers import DynamicCache

from oracle.models import caches
from oracle.models.batches import left_padded, positions_of
from oracle.models.lengths import switch
from oracle.models.masks import additive, seeing_itself
from oracle.models.sources import Sourced
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
        self.error: Exception | None = None  # of the last probe that raised one
        self._longest = longest if longest is not None else view.context
        positions = _MOST if self._longest is None else min(_MOST, self._longest)
        # All different, as far as there are so many; a branch says two tokens after them.
        self._text = torch.linspace(0, view.vocabulary - 1, max(1, positions - 2), device=view.device).long()

    @cached_property
    def reads_left_to_right(self) -> bool:
        """What comes later in a text changes nothing about what it says before that."""
        return self._tried(_later_tokens_do_not_matter)

    @cached_property
    def goes_on(self) -> bool:
        """It keeps what it has read in the library's cache, and goes on from there as if it had read it all at once."""
        return self._tried(_going_on_agrees)

    @cached_property
    def reads_alike_at_any_length(self) -> bool:
        """What it says of a text does not change when another text of the batch stands at the longest's positions.

        Up to the first switch that its configuration tells of (``lengths.switch``): texts beyond are read apart.
        """
        limits = (self._longest and self._longest - 1, switch(self._view.model))  # the last token is never read
        far = min((one for one in limits if one is not None), default=0)
        if not self.takes_positions or far <= len(self._text):
            return True
        return self._tried(lambda view, text: _far_neighbour_agrees(view, text, far))

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
        return caches.remembered(self._view.model) if self._view.start is None else None

    @cached_property
    def obeys_masks(self) -> bool:
        """Several texts may go on from different places of one row of its cache, each seeing its own tokens only.

        Three branches of two tokens each must get the probabilities that recomputing each prefix gives.
        """
        if not self.takes_positions or self._view.model.config._attn_implementation not in ("sdpa", "eager"):
            return False
        if self._view.start is not None:
            return False  # T5 works distances out from the columns
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
        except _ERRORS as error:
            self.error = error
            return False


def check_able(view: View, can: Abilities) -> None:
    """Raise ValueError, naming the model and what it lacks, where it cannot take part in a pair at all."""
    lacks = None
    if not can.goes_on:
        lacks = "cannot go on from what it has read (it keeps no cache, or one of its own), which every token needs"
    elif not can.reads_left_to_right:
        lacks = "lets later tokens change what it says of earlier ones, so it does not write token by token"
    elif not can.reads_alike_at_any_length:
        lacks = "reads a short text in another way next to a long one, from a length on that its configuration hides"
    if lacks:
        because = f" ({' '.join(str(can.error).split())[:120]})" if can.error else ""
        raise ValueError(
            f"the {view.role} ({type(view.model).__name__}) {lacks}{because}; choose a causal language model with an "
            "ordinary cache of keys and values"
        )


def _later_tokens_do_not_matter(view: View, text: torch.Tensor) -> bool:
    mask, half = torch.ones_like(text, dtype=torch.bool)[None], len(text) // 2
    whole = view.logits(text[None], mask, positions_of(mask), _fresh(view), keep=len(text))[0]
    return _alike(view, whole[half], _after(view, text[: half + 1]), refusing=True)


def _going_on_agrees(view: View, text: torch.Tensor) -> bool:
    reader, half = Reader(view, _source(view)), len(text) // 2
    for piece in (text[:half], text[half:-1], text[-1:]):
        if len(piece):
            reader.read(piece, keep=1)
    return reader.last is not None and _alike(view, reader.last[0], _after(view, text), refusing=True)


def _far_neighbour_agrees(view: View, text: torch.Tensor, far: int) -> bool:
    ids = torch.stack([text, text.flip(0)])
    place = torch.arange(len(text), device=view.device)
    places = torch.stack([place, place + far - len(text)])
    mask = torch.ones_like(ids, dtype=torch.bool)
    ours = view.logits(ids, mask, places, _fresh(view, 2), keep=1)[0, -1]
    return _alike(view, ours, _after(view, text), refusing=True)


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
    reader, kept = Reader(view, _source(view)), len(text) // 2
    reader.read(text, keep=1)
    reader.forget(kept)
    other = text.flip(0)[: len(text) - kept]
    return _alike(view, reader.read(other, keep=1)[0], _after(view, torch.cat([text[:kept], other])))


def _neighbours_agree(view: View, text: torch.Tensor) -> bool:
    texts = [row.cpu().numpy() for row in (text, text.flip(0)[: 1 + len(text) // 3], text[-1:])]
    ids, mask = left_padded(texts, view.device)
    source = _source(view)
    prompts = [source[:2], source, source[:3]]  # an encoder's, of other lengths too
    together = view.logits(ids, mask, positions_of(mask), view.fresh(prompts), keep=1)[:, 0]
    alone = [view.after(torch.from_numpy(text), prompt) for text, prompt in zip(texts, prompts, strict=True)]
    return _alike(view, together, torch.stack(alone))


def _source(view: View) -> np.ndarray:
    """What an encoder reads while its decoder is tried; models without one are given the same and ignore it."""
    return np.linspace(view.vocabulary - 1, 0, 5).astype(np.int64)


def _fresh(view: View, rows: int = 1) -> DynamicCache | Sourced:
    return view.fresh([_source(view)] * rows)


def _after(view: View, ids: torch.Tensor) -> torch.Tensor:
    return view.after(ids, _source(view))


def _alike(view: View, ours: torch.Tensor, theirs: torch.Tensor, refusing: bool = False) -> bool:
    """Whether two computations give the same probabilities (logits [..., vocabulary]) but for rounding.

    Half precision rounds by how many tokens are read at once.  What only costs time is judged strictly there, what a
    model would be refused for (``refusing``) is not.
    """
    whole = view.model.dtype in (torch.float32, torch.float64)
    tolerance = 1e-3 if whole else (0.3 if refusing else 0.1)
    ours, theirs = ours.float().softmax(-1), theirs.float().softmax(-1)
    return torch.allclose(ours, theirs, rtol=0, atol=tolerance, equal_nan=True)  # NaN is somebody else's error
