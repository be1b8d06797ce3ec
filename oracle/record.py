"""The oracle for one batch: the target's text, the draft's choice at every position of it, and the draft's overruns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from oracle.decoding import eos_token_ids
from oracle.encode import Encoded, context_limit
from oracle.generate import Settings, assisted
from oracle.overruns import Branch, Context, overruns_apart, overruns_together
from oracle.pairs import Pair, rows, shared_rows
from oracle.passes import (
    MOST_LOGITS,
    Columns,
    best,
    device_of,
    distribution,
    forward,
    left_padded,
    narrow,
    positions_of,
    right_padded,
    speak,
)
from oracle.timing import Clock
from oracle.trace import SIGNALS, Record

_NOTHING = {"tokens": np.zeros(0, np.int32)} | {name: np.zeros(0, np.float32) for name in SIGNALS}


@torch.inference_mode()
def record_batch(
    pair: Pair, batch: Sequence[Encoded], max_overrun: int, together: bool, reference: str = "plain"
) -> list[Record]:
    """One Record a prompt, in order.  Call it inside ``decoding.neutral(pair)``.

    ``reference`` is one of ``REFERENCES``: where the text comes from.  ``together`` lets all overruns of the batch
    advance on one cache (if ``overruns.can_share``), else each is computed from its own prefix.  Prompts that would pad
    one another beyond the models' context are recorded one group after the other.  Raises RuntimeError where a model's
    logits are not numbers.
    """
    lengths, limits = [len(item.tokens) for item in batch], [item.max_new_tokens for item in batch]
    groups = narrow(lengths, limits, context_limit(pair))
    found = {}
    for group in groups:
        found |= zip(
            group, _record_group(pair, [batch[n] for n in group], max_overrun, together, reference), strict=True
        )
    return [found[n] for n in range(len(batch))]


def _record_group(
    pair: Pair, batch: Sequence[Encoded], max_overrun: int, together: bool, reference: str
) -> list[Record]:
    """One Record a prompt of those that are padded to one length."""
    stop, vocabulary = eos_token_ids(pair), shared_rows(pair)
    prompts = [item.tokens for item in batch]
    limits = [item.max_new_tokens for item in batch]
    spoken = REFERENCES[reference](pair, prompts, limits, stop, vocabulary)
    _expect_numbers(spoken, "lead", "target")
    texts = [columns["tokens"] for columns in spoken]
    choices, context = listen(pair.draft, prompts, texts, lambda logits: distribution(logits[..., :vocabulary]))
    _expect_numbers(choices, "confidence", "draft")
    branches = [
        branch
        for row in range(len(batch))
        for branch in _branches(row, texts[row], choices[row]["tokens"], limits[row], max_overrun)
        if branch.token not in stop
    ]
    if together:
        said = overruns_together(pair.draft, context, branches, stop, vocabulary)
    else:
        del context  # before the caches of the next step are made
        said = overruns_apart(pair.draft, prompts, texts, branches, stop, vocabulary)
    _expect_numbers(said, "confidence", "draft")
    after: list[dict[int, Columns]] = [{} for _ in batch]
    for branch, columns in zip(branches, said, strict=True):
        after[branch.row][branch.position] = columns
    return [_record(*each, stop) for each in zip(batch, spoken, choices, after, strict=True)]


def spoken_plainly(
    pair: Pair, prompts: Sequence[np.ndarray], limits: Sequence[int], stop: Sequence[int], vocabulary: int
) -> list[Columns]:
    """The target's greedy texts, token by token, and its lead at each of them."""
    return speak(pair.target, prompts, limits, stop, lambda logits: best(logits[..., :vocabulary]))


def spoken_assisted(
    pair: Pair, prompts: Sequence[np.ndarray], limits: Sequence[int], stop: Sequence[int], vocabulary: int
) -> list[Columns]:
    """The texts of the library's assisted generation, prompt by prompt, and the target's lead at each token.

    In half precision a pass over several tokens rounds differently from a pass over one, so near-ties may turn: the
    text of a run with a draft is recorded from such a run.  Raises ValueError for a pair that the library refuses.
    """
    texts = [
        assisted(pair, prompt, ASSISTED, max_new_tokens=limit, clock=Clock()).tokens
        for prompt, limit in zip(prompts, limits, strict=True)
    ]
    heard, _ = listen(pair.target, prompts, texts, lambda logits: best(logits[..., :vocabulary]))
    return [{"tokens": text, "lead": columns["lead"]} for text, columns in zip(texts, heard, strict=True)]


ASSISTED = Settings(tokens=5)
REFERENCES = {"plain": spoken_plainly, "assisted": spoken_assisted}


def listen(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    texts: Sequence[np.ndarray],
    score: Callable[[torch.Tensor], dict[str, torch.Tensor]],
) -> tuple[list[Columns], Context]:
    """What ``score`` reads from a model's logits [..., V] at every position of every text, given what comes before it.

    Prompts end and texts begin in the same column, so that one range of columns holds every position that is asked for;
    it is walked in pieces, because the logits of a whole batch over a large vocabulary do not fit into memory.
    """
    device, vocabulary = device_of(model), rows(model)
    longest = max(len(text) for text in texts)
    head, tail = left_padded(prompts, device), right_padded([text[:-1] for text in texts], longest - 1, device)
    ids, mask = (torch.cat(halves, dim=1) for halves in zip(head, tail, strict=True))
    positions = positions_of(mask)
    cache = DynamicCache(config=model.config)
    before = ids.shape[1] - longest  # columns before the last prompt token, whose logits are the first that count
    width = max(1, MOST_LOGITS // (len(texts) * vocabulary))
    pieces = []
    for first in range(0, longest, width):
        last = min(first + width, longest)
        columns = slice(before + first if first else 0, before + last)
        logits = forward(model, ids[:, columns], mask[:, : columns.stop], positions[:, columns], cache, last - first)
        pieces.append({name: value.cpu() for name, value in score(logits).items()})
    whole = {name: torch.cat([piece[name] for piece in pieces], dim=1).numpy() for name in pieces[0]}  # [rows, longest]
    choices = [{name: value[row, : len(text)] for name, value in whole.items()} for row, text in enumerate(texts)]
    return choices, Context(cache, mask, positions, np.array([len(prompt) for prompt in prompts]))


def _branches(row: int, text: np.ndarray, choice: np.ndarray, limit: int, max_overrun: int) -> list[Branch]:
    """The disagreements of one text that a drafter could run past, and how far.

    From position i a drafter proposes at most limit - i - 1 tokens: after a wrong one at m >= i at most limit - m - 2.
    """
    wrong = np.flatnonzero(text != choice).tolist()
    branches = [Branch(row, m, int(choice[m]), min(max_overrun, limit - m - 2)) for m in wrong]
    return [branch for branch in branches if branch.limit >= 1]


def _expect_numbers(rows: Sequence[Columns], name: str, role: str) -> None:
    if any(np.isnan(columns[name]).any() for columns in rows):
        raise RuntimeError(f"the {role} model's logits are not numbers (NaN); try another dtype, float32 for example")


def _record(item: Encoded, text: Columns, choice: Columns, after: dict[int, Columns], stop: Sequence[int]) -> Record:
    wrong = np.flatnonzero(text["tokens"] != choice["tokens"]).astype(np.int32)
    said = [after.get(m, _NOTHING) for m in wrong.tolist()]
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
        **{f"overrun_{name}": [columns[name] for columns in said] for name in ("tokens", *SIGNALS)},
    )
