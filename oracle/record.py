"""The oracle for one batch: the target's text, the draft's choice at every position of it, and the draft's overruns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from oracle.decoding import eos_token_ids
from oracle.encode import Encoded
from oracle.pairs import Pair, shared_rows
from oracle.passes import (
    Collected,
    Columns,
    best,
    device_of,
    distribution,
    forward,
    left_padded,
    positions_of,
    speak,
    takes,
)
from oracle.trace import SIGNALS, Record

_LOGITS = 2**25  # most logits held at once: 128 MB in float32, and a few temporary copies of that
_QUERIES = 512  # most branches that advance in one pass, whatever the vocabulary


@dataclass(frozen=True)
class Branch:
    """Where the draft disagrees, and how far its own text after that is wanted."""

    row: int  # prompt within the batch
    position: int  # within the text
    token: int  # the draft's choice there
    limit: int  # tokens wanted after it, >= 1


@dataclass(frozen=True)
class Context:
    """The draft's keys and values of a batch, and which cached column holds which position of which row."""

    cache: DynamicCache
    mask: torch.Tensor  # bool [rows, columns], false on padding
    positions: torch.Tensor  # int64 [rows, columns]
    lengths: np.ndarray  # int64 [rows], prompt tokens


@torch.inference_mode()
def record_batch(pair: Pair, batch: Sequence[Encoded], max_overrun: int, shared: bool) -> list[Record]:
    """One Record a prompt, in order.

    ``shared`` lets all overruns of the batch advance together on one cache (``can_share``); otherwise each is recomputed
    from its own prefix.  Raises RuntimeError where a model's logits are not numbers.
    """
    stop = eos_token_ids(pair)
    vocabulary = shared_rows(pair)
    prompts = [item.tokens for item in batch]
    limits = [item.max_new_tokens for item in batch]
    spoken = speak(pair.target, prompts, limits, stop, lambda logits: best(logits[..., :vocabulary]))
    _expect_numbers(spoken, "lead", "target")
    texts = [columns["tokens"] for columns in spoken]
    choices, context = listen(pair.draft, prompts, texts, vocabulary)
    _expect_numbers(choices, "confidence", "draft")
    branches = [
        branch
        for row, (text, choice) in enumerate(zip(texts, choices, strict=True))
        for branch in _branches(row, text, choice["tokens"], min(max_overrun, 10**9), limits[row], stop)
    ]
    if shared:
        said = overruns(pair.draft, context, branches, stop, vocabulary)
    else:
        del context
        said = overruns_apart(pair.draft, prompts, texts, branches, stop, vocabulary)
    _expect_numbers([columns for columns in said if columns], "confidence", "draft")
    found = {(branch.row, branch.position): columns for branch, columns in zip(branches, said, strict=True)}
    return [
        _record(item, text, choice, {m: found[r, m] for r, m in found if r == row}, stop)
        for row, (item, text, choice) in enumerate(zip(batch, spoken, choices, strict=True))
    ]


def _branches(
    row: int, text: np.ndarray, choice: np.ndarray, max_overrun: int, limit: int, stop: tuple[int, ...]
) -> list[Branch]:
    """The disagreements of one text that any drafter could run past.

    From position i a drafter proposes at most limit - i - 1 tokens, so after a wrong one at m >= i at most limit - m - 2
    follow; an end-of-text token is never followed.
    """
    wrong = np.flatnonzero(text != choice).tolist()
    wanted = [Branch(row, m, int(choice[m]), min(max_overrun, limit - m - 2)) for m in wrong if choice[m] not in stop]
    return [branch for branch in wanted if branch.limit >= 1]


def listen(
    model: PreTrainedModel, prompts: Sequence[np.ndarray], texts: Sequence[np.ndarray], vocabulary: int
) -> tuple[list[Columns], Context]:
    """The draft's distribution at every position of every text, given the prompt and the text before it.

    Prompts end and texts begin in the same column, so that one range of columns holds every position that is asked for;
    it is walked in pieces, because a whole batch of large vocabularies does not fit into memory.
    """
    device = device_of(model)
    ids, mask = left_padded(prompts, device)
    longest = max(len(text) for text in texts)
    tail, known = _right_padded([text[:-1] for text in texts], longest - 1, device)
    ids, mask = torch.cat([ids, tail], dim=1), torch.cat([mask, known], dim=1)
    positions = positions_of(mask)
    cache = DynamicCache(config=model.config)
    width = ids.shape[1] - longest + 1
    piece = max(1, _LOGITS // (len(texts) * vocabulary))
    parts = []
    for first in range(0, longest, piece):
        last = min(first + piece, longest)
        columns = slice(width + first - 1 if first else 0, width + last - 1)
        logits = forward(model, ids[:, columns], mask[:, : columns.stop], positions[:, columns], cache, last - first)
        parts.append({name: value.cpu() for name, value in distribution(logits[..., :vocabulary]).items()})
    whole = {name: torch.cat([part[name] for part in parts], dim=1).numpy() for name in parts[0]}  # [rows, longest]
    choices = [{name: value[row, : len(text)] for name, value in whole.items()} for row, text in enumerate(texts)]
    return choices, Context(cache, mask, positions, np.array([len(prompt) for prompt in prompts]))


def overruns(
    model: PreTrainedModel, context: Context, branches: Sequence[Branch], stop: Sequence[int], vocabulary: int
) -> list[Columns]:
    """Each branch's continuation, all of them advancing together; one token of every branch a pass."""
    said: list[Columns] = [{} for _ in branches]
    for group in _groups(branches, max(16, min(_QUERIES, _LOGITS // vocabulary))):
        for number, columns in zip(group, _advance(model, context, [branches[n] for n in group], stop, vocabulary)):
            said[number] = columns
    return said


def _groups(branches: Sequence[Branch], most: int) -> list[list[int]]:
    """Branch numbers in groups of rows with alike many branches: padding a row with few to one with many is wasted work."""
    by_row: dict[int, list[int]] = {}
    for number, branch in enumerate(branches):
        by_row.setdefault(branch.row, []).append(number)
    pieces = [numbers[at : at + most] for numbers in by_row.values() for at in range(0, len(numbers), most)]
    groups: list[list[list[int]]] = []
    for piece in sorted(pieces, key=len, reverse=True):
        if groups and len(groups[-1][0]) * (len(groups[-1]) + 1) <= most and 2 * len(piece) >= len(groups[-1][0]):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [[number for piece in group for number in piece] for group in groups]


def _advance(
    model: PreTrainedModel, context: Context, branches: Sequence[Branch], stop: Sequence[int], vocabulary: int
) -> list[Columns]:
    """One group's continuations.  Every branch is a query column of its row; the mask shows it its prefix and itself."""
    device = device_of(model)
    rows, number = _grid(branches)  # number: int64 [R, M], branch number or -1
    real = torch.from_numpy(number >= 0).to(device)
    depth = np.array([context.lengths[branch.row] + branch.position for branch in branches])
    place = torch.from_numpy(np.where(number >= 0, depth[number], 0)).to(device)
    ids = torch.from_numpy(np.where(number >= 0, np.array([b.token for b in branches])[number], 0)).to(device)
    room = torch.from_numpy(np.where(number >= 0, np.array([b.limit for b in branches])[number], 0)).to(device)
    owner = torch.from_numpy(number).to(device)
    ends = torch.tensor(stop, dtype=torch.long, device=device)
    visible = context.mask[rows, None, :] & (context.positions[rows, None, :] < place[:, :, None])  # [R, M, columns]
    cache = DynamicCache([(layer.keys[rows], layer.values[rows]) for layer in context.cache.layers])
    said = Collected()
    while ids.shape[1]:
        itself = torch.eye(ids.shape[1], dtype=torch.bool, device=device).expand(len(rows), -1, -1)
        visible = torch.cat([visible, itself], dim=-1)
        logits = forward(model, ids, additive(visible, model.dtype), place, cache, ids.shape[1])
        values = distribution(logits[..., :vocabulary])
        said.add(owner[real], {name: value[real] for name, value in values.items()})
        room, place = room - 1, place + 1
        real = real & (room > 0) & ~torch.isin(values["tokens"], ends)
        ids = values["tokens"]
        most = int(real.sum(-1).max())
        if most < ids.shape[1]:
            front = (~real).long().argsort(dim=-1, stable=True)[:, :most]  # the branches that go on, in order
            ids, room, place, owner, real = (item.gather(1, front) for item in (ids, room, place, owner, real))
            visible = visible.gather(1, front[:, :, None].expand(-1, -1, visible.shape[-1]))
    return said.split(len(branches))


def _grid(branches: Sequence[Branch]) -> tuple[list[int], np.ndarray]:
    """Rows of the batch that occur, and for each of them its branch numbers, -1 behind; int64 [R, M]."""
    by_row: dict[int, list[int]] = {}
    for number, branch in enumerate(branches):
        by_row.setdefault(branch.row, []).append(number)
    grid = np.full((len(by_row), max(len(numbers) for numbers in by_row.values())), -1, np.int64)
    for line, numbers in zip(grid, by_row.values(), strict=True):
        line[: len(numbers)] = numbers
    return list(by_row), grid


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Attention mask [R, 1, M, columns] that adds nothing where ``visible`` (bool [R, M, columns]), else the lowest number."""
    blocked = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=visible.device)
    return torch.where(visible, torch.zeros_like(blocked), blocked)[:, None]


def overruns_apart(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    texts: Sequence[np.ndarray],
    branches: Sequence[Branch],
    stop: Sequence[int],
    vocabulary: int,
) -> list[Columns]:
    """As ``overruns``, each branch computed from its own prefix: slower, and right for every architecture."""
    said: list[Columns] = []
    most = max(1, min(32, _LOGITS // vocabulary))
    for at in range(0, len(branches), most):
        piece = branches[at : at + most]
        prefixes = [np.concatenate([prompts[b.row], texts[b.row][: b.position], [b.token]]) for b in piece]
        limits = [branch.limit for branch in piece]
        said += speak(model, prefixes, limits, stop, lambda logits: distribution(logits[..., :vocabulary]))
    return said


@torch.inference_mode()
def can_share(model: PreTrainedModel, tokens: np.ndarray) -> bool:
    """Whether branches may advance on one shared cache: the model takes positions and a 4-D mask, and obeys both.

    Tried on the model itself: three branches of two tokens on the given tokens (int [>= 1]) must get the probabilities that
    recomputing each prefix gives.
    """
    if not takes(model, "position_ids") or model.config._attn_implementation not in ("sdpa", "eager"):
        return False
    device = device_of(model)
    context = torch.from_numpy(np.resize(tokens, 12).astype(np.int64)).to(device)
    cache = DynamicCache(config=model.config)
    if any(layer.is_sliding for layer in cache.layers):
        return False
    every = torch.ones(1, len(context), dtype=torch.bool, device=device)
    forward(model, context[None], every, positions_of(every), cache, keep=1)
    place = torch.tensor([[2, 7, 12]], device=device)
    visible = torch.arange(len(context), device=device) < place[:, :, None]
    branch = context.flip(0)[:6].reshape(2, 3)
    tolerance = 1e-3 if model.dtype in (torch.float32, torch.float64) else 0.1
    for step in range(2):
        visible = torch.cat([visible, torch.eye(3, dtype=torch.bool, device=device)[None]], dim=-1)
        ours = forward(model, branch[None, step], additive(visible, model.dtype), place + step, cache, keep=3)[0]
        for number, depth in enumerate(place[0].tolist()):
            prefix = torch.cat([context[:depth], branch[: step + 1, number]])[None]
            whole = torch.ones_like(prefix, dtype=torch.bool)
            theirs = forward(model, prefix, whole, positions_of(whole), DynamicCache(config=model.config), keep=1)[0, 0]
            if not torch.allclose(ours[number].float().softmax(-1), theirs.float().softmax(-1), atol=tolerance):
                return False
    return True


def _right_padded(rows: Sequence[np.ndarray], width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    ids = np.zeros((len(rows), width), np.int64)
    mask = np.zeros((len(rows), width), bool)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = True
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def _expect_numbers(rows: Sequence[Columns], name: str, role: str) -> None:
    if any(np.isnan(columns[name]).any() for columns in rows):
        raise RuntimeError(f"the {role} model's logits are not numbers (NaN); try another dtype, for example float32")


def _record(item: Encoded, text: Columns, choice: Columns, said: dict[int, Columns], stop: tuple[int, ...]) -> Record:
    wrong = np.flatnonzero(text["tokens"] != choice["tokens"]).astype(np.int32)
    nothing = {"tokens": np.zeros(0, np.int32)} | {name: np.zeros(0, np.float32) for name in SIGNALS}
    rows = [said.get(int(m)) or nothing for m in wrong]
    return Record(
        id=item.id,
        index=item.index,
        finish="eos" if int(text["tokens"][-1]) in stop else "length",
        max_new_tokens=item.max_new_tokens,
        prompt_tokens=item.tokens,
        target_tokens=text["tokens"].astype(np.int32),
        draft_tokens=choice["tokens"].astype(np.int32),
        target_margin=text["lead"],
        overrun_position=wrong,
        **{name: choice[name] for name in SIGNALS},
        **{f"overrun_{name}": [row[name] for row in rows] for name in ("tokens", *SIGNALS)},
    )
