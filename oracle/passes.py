"""Forward passes over a batch of token rows, and what is read from a next-token distribution.

Rows of different length are padded on the left, with explicit positions, so that a row's tokens do not depend on its
neighbours.  Everything here works on one model; both models' roles are in ``record.py``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

Columns = dict[str, np.ndarray]  # name -> one value a token
MOST_LOGITS = 2**25  # held at once: 128 MB in float32, and a few temporary copies of that


def best(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """The most likely token and its lead over the second in logits; float [..., V] -> [...] each."""
    first, second = logits.float().topk(2, dim=-1).values.unbind(-1)
    return {"tokens": logits.argmax(-1), "lead": first - second}


def distribution(logits: torch.Tensor) -> dict[str, torch.Tensor]:
    """The most likely token, its probability, the entropy (nats) and the margin; float [..., V] -> [...] each."""
    tokens = logits.argmax(-1)
    likelihood = logits.float().log_softmax(-1)
    probability = likelihood.exp()
    # Clamped so that an impossible token (log 0) adds 0 x a number rather than 0 x infinity.  In place where nothing
    # needs the old values: temporary copies of a large vocabulary cost more than the arithmetic.
    entropy = -(probability * likelihood.clamp_(min=torch.finfo(torch.float32).min)).sum(-1)
    first = probability.gather(-1, tokens[..., None])[..., 0]
    second = probability.scatter_(-1, tokens[..., None], 0).amax(-1)
    return {"tokens": tokens, "confidence": first, "entropy": entropy, "margin": first - second}


def device_of(model: PreTrainedModel) -> torch.device:
    """Where the model wants its token ids; models spread over devices move the rest themselves."""
    return model.get_input_embeddings().weight.device


def takes(model: PreTrainedModel, argument: str) -> bool:
    """Whether the model's forward names this argument."""
    return argument in _arguments(type(model))


@functools.cache
def _arguments(kind: type) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)


def forward(
    model: PreTrainedModel,
    ids: torch.Tensor,
    mask: torch.Tensor,
    positions: torch.Tensor,
    cache: DynamicCache,
    keep: int,
) -> torch.Tensor:
    """Logits of the last ``keep`` columns of ``ids`` (int64 [rows, columns]), [rows, keep, V]; ``cache`` grows by all.

    ``mask`` is 2-D (bool [rows, cached + columns]) or 4-D and additive; ``positions`` is like ``ids``.
    """
    wanted = {"position_ids": positions, "logits_to_keep": keep}
    extra = {name: value for name, value in wanted.items() if takes(model, name)}
    mask = mask.long() if mask.dim() == 2 else mask
    output = model(input_ids=ids, attention_mask=mask, cache=cache, use_cache=True, return_dict=True, **extra)
    return output.logits[:, -keep:].to(ids.device)


def narrow(lengths: Sequence[int], more: Sequence[int], most: int | None) -> list[list[int]]:
    """Row numbers in groups: the longest of ``lengths`` and the most of ``more`` in a group are ``most`` together.

    Padding must not make a batch wider than any row of it may become: some models have tables with a place for every
    column, not only for every position.  A row that is too long by itself makes a group by itself.
    """
    if most is None or max(lengths) + max(more) <= most:
        return [list(range(len(lengths)))]
    groups: list[list[int]] = []
    room = 0  # for what follows, in the last group
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if groups and more[row] <= room:
            groups[-1].append(row)
        else:
            groups.append([row])
            room = most - lengths[row]
    return [sorted(group) for group in groups]


def left_padded(rows: Sequence[np.ndarray], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids int64 and mask bool, both [rows, longest]."""
    width = max(len(row) for row in rows)
    return _padded(rows, [slice(width - len(row), width) for row in rows], width, device)


def right_padded(rows: Sequence[np.ndarray], width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids int64 and mask bool, both [rows, width]."""
    return _padded(rows, [slice(len(row)) for row in rows], width, device)


def _padded(
    rows: Sequence[np.ndarray], places: Sequence[slice], width: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    ids = np.zeros((len(rows), width), np.int64)
    mask = np.zeros((len(rows), width), bool)
    for number, (row, place) in enumerate(zip(rows, places, strict=True)):
        ids[number, place] = row
        mask[number, place] = True
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    """Position of every column within its own row, int64 like ``mask``; 0 under left padding."""
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def speak(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    limits: Sequence[int],
    stop: Sequence[int],
    score: Callable[[torch.Tensor], dict[str, torch.Tensor]],
) -> list[Columns]:
    """Each prompt's greedy continuation: at most ``limits[n]`` (>= 1) tokens, a stop id kept as the last one.

    ``score`` maps logits [rows, V] to the columns that are kept, "tokens" among them; it also cuts the vocabulary.
    """
    device = device_of(model)
    ids, mask = left_padded(prompts, device)
    cache = DynamicCache(config=model.config)
    positions = positions_of(mask)
    alive = torch.arange(len(prompts), device=device)
    room = torch.tensor(limits, device=device)
    ends = torch.tensor(stop, dtype=torch.long, device=device)
    said = Collected()
    while len(alive):
        values = score(forward(model, ids, mask, positions, cache, keep=1)[:, -1])
        said.add(alive, values)
        room = room - 1
        going = (room > 0) & ~torch.isin(values["tokens"], ends)
        rows = going.nonzero().flatten()
        if len(rows) < len(alive):  # finished rows leave, so that the longest text is not paid for by all
            alive, room, mask, positions = alive[rows], room[rows], mask[rows], positions[rows]
            if len(rows):
                cache.batch_select_indices(rows.cpu())  # layers may be on several devices
        ids = values["tokens"][rows, None]
        positions = positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
    return said.split(len(prompts))


class Collected:
    """Values that arrive step by step for changing sets of rows, put back together row by row."""

    def __init__(self) -> None:
        self._owners: list[np.ndarray] = []
        self._values: dict[str, list[np.ndarray]] = {}

    def add(self, owners: torch.Tensor, values: dict[str, torch.Tensor]) -> None:
        """One step: the row numbers (int64 [A]) and a value for each of them in every column."""
        self._owners.append(owners.cpu().numpy())
        for name, column in values.items():
            self._values.setdefault(name, []).append(column.cpu().numpy())

    def split(self, rows: int) -> list[Columns]:
        """For each row its columns in order of arrival; rows that nothing was added for have no columns."""
        if not self._owners:
            return [{} for _ in range(rows)]
        owners = np.concatenate(self._owners)
        order = np.argsort(owners, kind="stable")
        ends = np.cumsum(np.bincount(owners, minlength=rows))[:-1]
        columns = {name: np.split(np.concatenate(parts)[order], ends) for name, parts in self._values.items()}
        return [{name: column[row] for name, column in columns.items()} for row in range(rows)]
