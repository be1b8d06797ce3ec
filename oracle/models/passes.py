"""Passes over a batch of texts: their greedy continuation, and what a model says all along given texts.

Rows of different length are padded on the left, with explicit positions, so that a row's tokens do not depend on its
neighbours.  Everything here works on one model; both models' roles are in ``oracle.record``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import DynamicCache

from oracle.models import caches, configs
from oracle.models.batches import MOST_LOGITS, Collected, Columns, left_padded, positions_of, right_padded
from oracle.models.sources import Sourced
from oracle.models.view import View

Score = Callable[[torch.Tensor], dict[str, torch.Tensor]]  # logits [..., V] -> the columns that are kept, [...] each


@dataclass(frozen=True)
class Context:
    """A model's keys and values of a batch, and which cached column holds which position of its row."""

    cache: DynamicCache | Sourced
    mask: torch.Tensor  # bool [rows, columns], false on padding
    positions: torch.Tensor  # int64 [rows, columns]
    lengths: np.ndarray  # int64 [rows], positions before the text: prompt tokens, or a decoder's start token


def speak(
    view: View,
    prompts: Sequence[np.ndarray],
    limits: Sequence[int],
    score: Score,
    given: Sequence[np.ndarray] | None = None,
) -> list[Columns]:
    """Each prompt's greedy continuation: at most ``limits[n]`` (>= 1) tokens, a stop id kept as the last one.

    ``score`` gives "tokens" among its columns: they are what is said.  ``given`` are the first tokens of each text,
    where it has some already (int [columns]).
    """
    begun = given or [np.zeros(0, np.int64)] * len(prompts)
    texts = [np.concatenate([view.opening(prompt), text]) for prompt, text in zip(prompts, begun, strict=True)]
    ids, mask = left_padded(texts, view.device)
    cache = view.fresh(prompts)
    positions = positions_of(mask)
    alive = torch.arange(len(prompts), device=view.device)
    room = torch.tensor(limits, device=view.device)
    ends = torch.tensor(view.stop, dtype=torch.long, device=view.device)
    said = Collected()
    while len(alive):
        values = score(view.logits(ids, mask, positions, cache, keep=1)[:, -1])
        said.add(alive, values)
        room = room - 1
        going = (room > 0) & ~torch.isin(values["tokens"], ends)
        rows = going.nonzero().flatten()
        if len(rows) < len(alive):  # finished rows leave, so that the longest text is not paid for by all
            alive, room, mask, positions = alive[rows], room[rows], mask[rows], positions[rows]
            if len(rows):
                caches.keep_rows(cache, rows)
        ids = values["tokens"][rows, None]
        positions = positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
    return said.split(len(prompts))


def listen(
    view: View, prompts: Sequence[np.ndarray], texts: Sequence[np.ndarray], score: Score
) -> tuple[list[Columns], Context]:
    """What ``score`` reads from a model's logits at every position of every text, given what comes before it.

    Prompts end and texts begin in the same column, so that one range of columns holds every position that is asked for;
    it is walked in pieces, because the logits of a whole batch over a large vocabulary do not fit into memory.
    """
    longest = max(len(text) for text in texts)
    openings = [view.opening(prompt) for prompt in prompts]
    head, tail = (
        left_padded(openings, view.device),
        right_padded([text[:-1] for text in texts], longest - 1, view.device),
    )
    ids, mask = (torch.cat(halves, dim=1) for halves in zip(head, tail, strict=True))
    positions = positions_of(mask)
    cache = view.fresh(prompts)
    before = ids.shape[1] - longest  # columns before the last prompt token, whose logits are the first that count
    width = max(1, MOST_LOGITS // (len(texts) * configs.rows(view.model)))
    pieces = []
    for first in range(0, longest, width):
        last = min(first + width, longest)
        columns = slice(before + first if first else 0, before + last)
        logits = view.logits(ids[:, columns], mask[:, : columns.stop], positions[:, columns], cache, last - first)
        pieces.append({name: value.cpu() for name, value in score(logits).items()})
    whole = {name: torch.cat([piece[name] for piece in pieces], dim=1).numpy() for name in pieces[0]}  # [rows, longest]
    columns = [{name: value[row, : len(text)] for name, value in whole.items()} for row, text in enumerate(texts)]
    return columns, Context(cache, mask, positions, np.array([len(opening) for opening in openings]))
