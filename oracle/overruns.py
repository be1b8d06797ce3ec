"""Overruns: what the draft would have gone on to say after each of its disagreements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from oracle.models import caches
from oracle.models.batches import MOST_LOGITS, Collected, Columns, narrow
from oracle.models.masks import additive, seeing_itself
from oracle.models.passes import Context, Score, speak
from oracle.models.scores import distribution
from oracle.models.sources import Sourced
from oracle.models.view import View

_MOST_QUERIES = 512  # branches that advance in one pass, whatever the vocabulary


@dataclass(frozen=True)
class Branch:
    """A position where the draft disagrees, and how far its own text after that is wanted."""

    row: int  # prompt within the batch
    position: int  # within the text
    token: int  # the draft's choice there
    limit: int  # tokens wanted after it, >= 1


def overruns_together(
    view: View, context: Context, branches: Sequence[Branch], score: Score = distribution
) -> list[Columns]:
    """Each branch's continuation, one token of all of them a pass, on the cache that they share.

    Only for a model that can: see ``Abilities.shares_a_cache``.
    """
    said: list[Columns] = [{} for _ in branches]
    for group in _groups(branches, max(16, min(_MOST_QUERIES, MOST_LOGITS // view.vocabulary))):
        found = _advance(view, context, [branches[number] for number in group], score)
        for number, columns in zip(group, found, strict=True):
            said[number] = columns
    return said


def overruns_apart(
    view: View,
    prompts: Sequence[np.ndarray],
    texts: Sequence[np.ndarray],
    branches: Sequence[Branch],
    score: Score = distribution,
    most: int = 32,
) -> list[Columns]:
    """As ``overruns_together``, each branch computed from its own prefix: slower, and right for every architecture.

    ``most`` branches are computed at once.
    """
    said: list[Columns] = [{} for _ in branches]
    most = max(1, min(most, MOST_LOGITS // view.vocabulary))
    for at in range(0, len(branches), most):
        piece = branches[at : at + most]
        given = [np.append(texts[one.row][: one.position], one.token) for one in piece]
        read, limits = [prompts[branch.row] for branch in piece], [branch.limit for branch in piece]
        lengths = [len(view.opening(prompt)) + len(text) for prompt, text in zip(read, given, strict=True)]
        for group in narrow(lengths, limits, view.context):
            rows = [read[n] for n in group]
            found = speak(view, rows, [limits[n] for n in group], score, [given[n] for n in group])
            for number, columns in zip(group, found, strict=True):
                said[at + number] = columns
    return said


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


def _advance(view: View, context: Context, branches: Sequence[Branch], score: Score) -> list[Columns]:
    """One group's continuations.  Every branch is a query of its row; the mask shows it its prefix and own tokens."""
    lines = list(_by_row(branches))
    number = _grid(branches)
    depth = np.array([context.lengths[branch.row] + branch.position for branch in branches])

    def spread(
        values: Sequence[int] | np.ndarray,
    ) -> torch.Tensor:  # one value a branch -> [R, M], 0 where there is no branch
        return torch.from_numpy(np.where(number >= 0, np.asarray(values, np.int64)[number], 0)).to(view.device)

    owner, place = torch.from_numpy(number).to(view.device), spread(depth)
    ids, room = spread([branch.token for branch in branches]), spread([branch.limit for branch in branches])
    ends = torch.tensor(view.stop, dtype=torch.long, device=view.device)
    visible = context.mask[lines, None, :] & (context.positions[lines, None, :] < place[:, :, None])  # [R, M, columns]
    assert not isinstance(context.cache, Sourced)  # decoders beside an encoder are not told positions
    cache = caches.copy_rows(context.cache, lines)
    said = Collected()
    going = owner >= 0
    while ids.shape[1]:
        visible = seeing_itself(visible)
        logits = view.logits(ids, additive(visible, view.model.dtype), place, cache, keep=ids.shape[1])
        values = score(logits)
        said.add(owner[going], {name: value[going] for name, value in values.items()})
        ids, place, room = values["tokens"], place + 1, room - 1
        going = going & (room > 0) & ~torch.isin(ids, ends)
        most = int(going.sum(-1).max())
        if most < ids.shape[1]:
            front = (~going).long().argsort(dim=-1, stable=True)[:, :most]  # branches that go on first, in order
            ids, place, room, owner, going = (one.gather(1, front) for one in (ids, place, room, owner, going))
            visible = visible.gather(1, front[:, :, None].expand(-1, -1, visible.shape[-1]))
        # The model reads what has ended too, as long as a longer row keeps it in the grid: nothing there may lie
        # outside its tables, and token and position 0 never do.
        ids, place = (torch.where(going, one, 0) for one in (ids, place))
    return said.split(len(branches))


def _grid(branches: Sequence[Branch]) -> np.ndarray:
    """Branch numbers of each row that occurs, -1 behind the last one; int64 [R, M]."""
    by_row = _by_row(branches)
    grid = np.full((len(by_row), max(map(len, by_row.values()))), -1, np.int64)
    for line, numbers in zip(grid, by_row.values(), strict=True):
        line[: len(numbers)] = numbers
    return grid
