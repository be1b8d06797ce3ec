"""Overruns: what the draft would have gone on to say after each of its disagreements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from oracle.pairs import most_positions, rows
from oracle.passes import (
    MOST_LOGITS,
    Collected,
    Columns,
    device_of,
    distribution,
    forward,
    narrow,
    positions_of,
    speak,
    takes,
)

_MOST_QUERIES = 512  # branches that advance in one pass, whatever the vocabulary
_HIDDEN = 2048  # columns in front of the tried branches: as many as the largest known table that counts columns has


_SHORTEST = 4  # positions of a row with a branch: a prompt token, the draft's choice, one after it, the target's last


@dataclass(frozen=True)
class Branch:
    """A position where the draft disagrees, and how far its own text after that is wanted."""

    row: int  # prompt within the batch
    position: int  # within the text
    token: int  # the draft's choice there
    limit: int  # tokens wanted after it, >= 1


@dataclass(frozen=True)
class Context:
    """The draft's keys and values of a batch, and which cached column holds which position of its row."""

    cache: DynamicCache
    mask: torch.Tensor  # bool [rows, columns], false on padding
    positions: torch.Tensor  # int64 [rows, columns]
    lengths: np.ndarray  # int64 [rows], prompt tokens


def overruns_together(
    model: PreTrainedModel, context: Context, branches: Sequence[Branch], stop: Sequence[int], vocabulary: int
) -> list[Columns]:
    """Each branch's continuation, one token of all of them a pass, on the cache that they share."""
    said: list[Columns] = [{} for _ in branches]
    for group in _groups(branches, max(16, min(_MOST_QUERIES, MOST_LOGITS // vocabulary))):
        found = _advance(model, context, [branches[number] for number in group], stop, vocabulary)
        for number, columns in zip(group, found, strict=True):
            said[number] = columns
    return said


def overruns_apart(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    texts: Sequence[np.ndarray],
    branches: Sequence[Branch],
    stop: Sequence[int],
    vocabulary: int,
) -> list[Columns]:
    """As ``overruns_together``, each branch computed from its own prefix: slower, and right for every architecture."""
    said: list[Columns] = [{} for _ in branches]
    most = max(1, min(32, MOST_LOGITS // vocabulary))
    for at in range(0, len(branches), most):
        piece = branches[at : at + most]
        prefixes = [np.concatenate([prompts[one.row], texts[one.row][: one.position], [one.token]]) for one in piece]
        limits = [branch.limit for branch in piece]
        for group in narrow([len(prefix) for prefix in prefixes], limits, most_positions(model)):
            begun, left = [prefixes[n] for n in group], [limits[n] for n in group]
            found = speak(model, begun, left, stop, lambda logits: distribution(logits[..., :vocabulary]))
            for number, columns in zip(group, found, strict=True):
                said[at + number] = columns
    return said


@torch.inference_mode()
def can_share(model: PreTrainedModel, longest: int) -> bool:
    """Whether branches may advance on one cache: the model takes positions and a 4-D mask, and obeys both.

    Tried on the model itself rather than listed by name: three branches of two tokens each must get the probabilities
    that recomputing each prefix gives, behind more columns than there are positions, as in a cache that many share.
    ``longest`` is the most positions that any row will have: up to there, nothing may have fallen out of the cache, and
    no more of them are tried.
    """
    if longest < _SHORTEST:
        return True  # there will be no branch
    if not takes(model, "position_ids") or model.config._attn_implementation not in ("sdpa", "eager"):
        return False
    if not all(_remembers(layer, longest) for layer in DynamicCache(config=model.config).layers):
        return False
    try:
        return _agree(model, longest)
    except (ValueError, TypeError, RuntimeError, IndexError, AttributeError):
        return False  # a model that cannot read such a mask says so in its own way


def _agree(model: PreTrainedModel, longest: int) -> bool:
    """Whether three branches on one cache get what recomputation gives; ``longest`` (>= 4) positions are legal."""
    device = device_of(model)
    depth = min(12, longest - 2)  # the deepest branch says two tokens after it
    tokens = torch.linspace(0, rows(model) - 1, 12, device=device).long()  # all different, as far as there are so many
    context, branch = tokens[:depth], tokens.flip(0)[:6].reshape(2, 3)  # [depth], [steps, branches]
    place = torch.tensor([[max(1, depth // 6), 7 * depth // 12, depth]], device=device)
    cache = DynamicCache()
    _plain(model, context, cache)
    cache = DynamicCache([(_behind_zeros(layer.keys), _behind_zeros(layer.values)) for layer in cache.layers])
    column = torch.arange(-_HIDDEN, depth, device=device)
    visible = (column >= 0) & (column < place[:, :, None])
    tolerance = 1e-3 if model.dtype in (torch.float32, torch.float64) else 0.1
    for step in range(2):
        visible = _seeing_itself(visible)
        ours = forward(model, branch[None, step], additive(visible, model.dtype), place + step, cache, keep=3)[0]
        prefixes = [torch.cat([context[:depth], branch[: step + 1, n]]) for n, depth in enumerate(place[0].tolist())]
        theirs = torch.stack([_plain(model, prefix, DynamicCache(config=model.config)) for prefix in prefixes])
        ours, theirs = ours.float().softmax(-1), theirs.float().softmax(-1)
        if not torch.allclose(ours, theirs, rtol=0, atol=tolerance, equal_nan=True):  # NaN is somebody else's error
            return False
    return True


def _behind_zeros(states: torch.Tensor) -> torch.Tensor:
    """Keys or values [rows, heads, columns, size] behind ``_HIDDEN`` columns of zeros."""
    return torch.nn.functional.pad(states, (0, 0, _HIDDEN, 0))


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Attention mask [R, 1, M, columns]: 0 where ``visible`` (bool [R, M, columns]), else the lowest number."""
    blocked = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=visible.device)
    return torch.where(visible, torch.zeros_like(blocked), blocked)[:, None]


def _remembers(layer: object, longest: int) -> bool:
    """Whether a layer of a cache keeps every position up to ``longest``; recurrent states and narrow windows do not."""
    return type(layer) is DynamicLayer or (type(layer) is DynamicSlidingWindowLayer and layer.sliding_window > longest)


def _plain(model: PreTrainedModel, ids: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
    """Logits [V] after one row of ids [columns], the ordinary way."""
    mask = torch.ones_like(ids, dtype=torch.bool)[None]
    return forward(model, ids[None], mask, positions_of(mask), cache, keep=1)[0, 0]


def _seeing_itself(visible: torch.Tensor) -> torch.Tensor:
    """``visible`` (bool [R, M, columns]) with M columns more: each branch's newest token, seen by that branch alone."""
    newest = torch.eye(visible.shape[1], dtype=torch.bool, device=visible.device)
    return torch.cat([visible, newest.expand(len(visible), -1, -1)], dim=-1)


def _groups(branches: Sequence[Branch], most: int) -> list[list[int]]:
    """Branch numbers in groups for one pass: rows with alike many branches, because rows are padded to the longest."""
    pieces = [numbers[at : at + most] for numbers in _by_row(branches).values() for at in range(0, len(numbers), most)]
    groups: list[list[list[int]]] = []
    for piece in sorted(pieces, key=len, reverse=True):
        widest = len(groups[-1][0]) if groups else 0
        if groups and widest * (len(groups[-1]) + 1) <= most and 2 * len(piece) >= widest:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [[number for piece in group for number in piece] for group in groups]


def _by_row(branches: Sequence[Branch]) -> dict[int, list[int]]:
    numbers: dict[int, list[int]] = {}
    for number, branch in enumerate(branches):
        numbers.setdefault(branch.row, []).append(number)
    return numbers


def _advance(
    model: PreTrainedModel, context: Context, branches: Sequence[Branch], stop: Sequence[int], vocabulary: int
) -> list[Columns]:
    """One group's continuations.  Every branch is a query of its row; the mask shows it its prefix and own tokens."""
    device = device_of(model)
    lines = list(_by_row(branches))
    number = _grid(branches)
    depth = np.array([context.lengths[branch.row] + branch.position for branch in branches])

    def spread(values: Sequence[int]) -> torch.Tensor:  # one value a branch -> [R, M], 0 where there is no branch
        return torch.from_numpy(np.where(number >= 0, np.asarray(values, np.int64)[number], 0)).to(device)

    owner, place = torch.from_numpy(number).to(device), spread(depth)
    ids, room = spread([branch.token for branch in branches]), spread([branch.limit for branch in branches])
    ends = torch.tensor(stop, dtype=torch.long, device=device)
    visible = context.mask[lines, None, :] & (context.positions[lines, None, :] < place[:, :, None])  # [R, M, columns]
    cache = DynamicCache([(layer.keys[lines], layer.values[lines]) for layer in context.cache.layers])
    said = Collected()
    going = owner >= 0
    while ids.shape[1]:
        visible = _seeing_itself(visible)
        logits = forward(model, ids, additive(visible, model.dtype), place, cache, keep=ids.shape[1])
        values = distribution(logits[..., :vocabulary])
        said.add(owner[going], {name: value[going] for name, value in values.items()})
        ids, place, room = values["tokens"], place + 1, room - 1
        going = going & (room > 0) & ~torch.isin(ids, ends)
        most = int(going.sum(-1).max())
        if most < ids.shape[1]:
            front = (~going).long().argsort(dim=-1, stable=True)[:, :most]  # branches that go on first, in order
            ids, place, room, owner, going = (one.gather(1, front) for one in (ids, place, room, owner, going))
            visible = visible.gather(1, front[:, :, None].expand(-1, -1, visible.shape[-1]))
        # The model reads what has ended too, as long as a longer row keeps it in the grid: nothing there may lie outside
        # its tables, and token and position 0 never do.
        ids, place = (torch.where(going, one, 0) for one in (ids, place))
    return said.split(len(branches))


def _grid(branches: Sequence[Branch]) -> np.ndarray:
    """Branch numbers of each row that occurs, -1 behind the last one; int64 [R, M]."""
    by_row = _by_row(branches)
    grid = np.full((len(by_row), max(map(len, by_row.values()))), -1, np.int64)
    for line, numbers in zip(grid, by_row.values(), strict=True):
        line[: len(numbers)] = numbers
    return grid
