"""The oracle for one batch: the target's text, the draft's choice at every position of it, and the draft's overruns."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from oracle.drafts.kinds import PromptLookup
from oracle.drafts.lookup import rounds
from oracle.generate import Settings, assisted
from oracle.models.abilities import Abilities, check_able
from oracle.models.batches import Columns, narrow
from oracle.models.lengths import side
from oracle.models.pair import Pair
from oracle.models.passes import listen, speak
from oracle.models.scores import best, check_numbers, distribution
from oracle.models.view import View, views
from oracle.overruns import Branch, overruns_apart, overruns_together
from oracle.prompts.encode import Encoded, columns_before, context_limit
from oracle.records.trace import SIGNALS, Record
from oracle.timing import Clock

_NOTHING = {"tokens": np.zeros(0, np.int32)} | {name: np.zeros(0, np.float32) for name in (*SIGNALS, "top")}


@dataclass(frozen=True)
class Way:
    """How a pair is read, by what its models can do; the results are the same."""

    batched: bool  # the prompts of a batch at once, else one by one
    together: bool  # the overruns of a batch on one cache, else each from its own prefix
    remarks: tuple[str, ...] = ()  # why it is a slower one, where it is

    def facts(self) -> dict[str, Any]:
        """What a trace's meta.json says of it."""
        return {"prompts_together": self.batched, "overruns_together": self.together, "remarks": list(self.remarks)}


def way(pair: Pair, longest: int) -> Way:
    """The fastest way that is right for a pair on texts of up to ``longest`` positions, prompt included.

    Warns, naming the model, where that is a slower one.  Raises ValueError where there is none, because of what a model
    cannot do.  Call it inside ``decoding.neutral(pair)``.
    """
    target, draft = able(pair, longest)
    alone = [model for model, can in ((pair.target, target), (pair.draft, draft)) if not can.keeps_rows_apart]
    together = isinstance(pair.drafting, PromptLookup) or draft.shares_a_cache  # looked up: no pass of a draft
    remarks: list[str] = []
    if alone:
        kind = type(alone[0]).__name__
        remarks.append(f"{kind} mixes the texts of a batch: prompts are read one by one, slower")
    if not together:
        kind = type(pair.draft).__name__
        remarks.append(f"{kind} cannot continue several texts on one cache: overruns take longer")
    for remark in remarks:
        warnings.warn(remark, stacklevel=3)
    return Way(batched=not alone, together=together, remarks=tuple(remarks))


def able(pair: Pair, longest: int) -> tuple[Abilities, Abilities]:
    """What target and draft can do on texts of up to ``longest`` positions, prompt included.

    Raises ValueError where one of them cannot be read token by token.  Call it inside ``decoding.neutral(pair)``.
    """
    target, draft = views(pair)
    found = Abilities(target, longest), Abilities(draft, longest)
    for view, can in zip((target, draft), found, strict=True):
        check_able(view, can)
    return found


def record_batch(
    pair: Pair, batch: Sequence[Encoded], max_overrun: int, how: Way, reference: str = "plain", top_k: int = 0
) -> list[Record]:
    """One Record a prompt, in order.  Call it inside ``decoding.neutral(pair)``.

    ``reference`` is one of ``REFERENCES``: where the text comes from.  Prompts that would pad one another beyond the
    models' context are recorded one group after the other.  Raises RuntimeError where a model's logits are not numbers.
    """
    rows = range(len(batch))
    groups = _read_together(pair, batch) if how.batched else [[row] for row in rows]
    found: dict[int, Record] = {}
    for group in groups:
        records = _record_together(pair, [batch[row] for row in group], max_overrun, how, reference, top_k)
        found |= zip(group, records, strict=True)
    return [found[row] for row in rows]


def _read_together(pair: Pair, batch: Sequence[Encoded]) -> list[list[int]]:
    """Row numbers in groups that may share a pass: on the same side of what changes a model's positions, and narrow."""
    sides: dict[tuple[bool, ...], list[int]] = {}
    before = [columns_before(pair, len(item.tokens)) for item in batch]
    for row, columns in enumerate(before):
        sides.setdefault(side(pair, columns), []).append(row)
    most = context_limit(pair)
    groups: list[list[int]] = []
    for rows in sides.values():
        found = narrow([before[row] for row in rows], [batch[row].max_new_tokens for row in rows], most)
        groups += [[rows[number] for number in group] for group in found]
    return groups


@torch.inference_mode()
def _record_together(
    pair: Pair, batch: Sequence[Encoded], max_overrun: int, how: Way, reference: str, top_k: int
) -> list[Record]:
    score = functools.partial(distribution, top=top_k)
    target, draft = views(pair)
    prompts = [item.tokens for item in batch]
    limits = [item.max_new_tokens for item in batch]
    spoken = REFERENCES[reference](pair, target, prompts, limits)
    _expect_numbers(spoken, "lead", target)
    texts = [columns["tokens"] for columns in spoken]
    if isinstance(pair.drafting, PromptLookup):
        return [_looked_up(pair.drafting, item, said, target.stop) for item, said in zip(batch, spoken, strict=True)]
    choices, context = listen(draft, prompts, texts, score)
    _expect_numbers(choices, "confidence", draft)
    branches = [
        branch
        for row in range(len(batch))
        for branch in _branches(row, texts[row], choices[row]["tokens"], limits[row], max_overrun)
        if branch.token not in draft.stop
    ]
    if how.together:
        said = overruns_together(draft, context, branches, score)
    else:
        del context  # before the caches of the next step are made
        said = overruns_apart(draft, prompts, texts, branches, score, *(() if how.batched else (1,)))
    _expect_numbers(said, "confidence", draft)
    after: list[dict[int, Columns]] = [{} for _ in batch]
    for branch, columns in zip(branches, said, strict=True):
        after[branch.row][branch.position] = columns
    return [_record(*each, target.stop) for each in zip(batch, spoken, choices, after, strict=True)]


def spoken_plainly(pair: Pair, target: View, prompts: Sequence[np.ndarray], limits: Sequence[int]) -> list[Columns]:
    """The target's greedy texts, token by token, and its lead at each of them."""
    return speak(target, prompts, limits, best)


def spoken_assisted(pair: Pair, target: View, prompts: Sequence[np.ndarray], limits: Sequence[int]) -> list[Columns]:
    """The texts of the library's assisted generation, prompt by prompt, and the target's lead at each token.

    In half precision a pass over several tokens rounds differently from a pass over one, so near-ties may turn: the
    text of a run with a draft is recorded from such a run.  Raises ValueError for a pair that the library refuses.
    """
    texts = [
        assisted(pair, prompt, ASSISTED, max_new_tokens=limit, clock=Clock()).tokens
        for prompt, limit in zip(prompts, limits, strict=True)
    ]
    heard, _ = listen(target, prompts, texts, best)
    return [{"tokens": text, "lead": columns["lead"]} for text, columns in zip(texts, heard, strict=True)]


ASSISTED = Settings(tokens=5)
REFERENCES = {"plain": spoken_plainly, "assisted": spoken_assisted}


def _branches(row: int, text: np.ndarray, choice: np.ndarray, limit: int, max_overrun: int) -> list[Branch]:
    """The disagreements of one text that a drafter could run past, and how far.

    From position i a drafter proposes at most limit - i - 1 tokens: after a wrong one at m >= i at most limit - m - 2.
    """
    wrong = np.flatnonzero(text != choice).tolist()
    branches = [Branch(row, m, int(choice[m]), min(max_overrun, limit - m - 2)) for m in wrong]
    return [branch for branch in branches if branch.limit >= 1]


def _expect_numbers(rows: Sequence[Columns], name: str, view: View) -> None:
    for columns in rows:
        check_numbers(columns[name], view.role)


def _looked_up(rule: PromptLookup, item: Encoded, text: Columns, stop: Sequence[int]) -> Record:
    """The rounds of a lookup: there is nothing to compute but where n-grams stand."""
    found = rounds(item.tokens, text["tokens"], rule.tokens, rule.ngram, stop, item.max_new_tokens)
    return Record(**_text_columns(item, text, stop), run=found[0], round_tokens=found[1])


def _text_columns(item: Encoded, text: Columns, stop: Sequence[int]) -> dict[str, Any]:
    return {
        "id": item.id,
        "index": item.index,
        "finish": "eos" if int(text["tokens"][-1]) in stop else "length",
        "max_new_tokens": item.max_new_tokens,
        "prompt_tokens": item.tokens,
        "target_tokens": text["tokens"].astype(np.int32),
        "target_margin": text["lead"],
    }


def _record(item: Encoded, text: Columns, choice: Columns, after: dict[int, Columns], stop: Sequence[int]) -> Record:
    wrong = np.flatnonzero(text["tokens"] != choice["tokens"]).astype(np.int32)
    said = [after.get(m, _NOTHING) for m in wrong.tolist()]
    columns: dict[str, Any] = {name: choice[name] for name in SIGNALS}
    columns |= {f"overrun_{name}": [each[name] for each in said] for name in ("tokens", *SIGNALS)}
    if "top" in choice:
        columns |= {"draft_top": list(choice["top"]), "draft_top_after": [each["top"].ravel() for each in said]}
    return Record(
        **_text_columns(item, text, stop),
        draft_tokens=choice["tokens"].astype(np.int32),
        overrun_position=wrong,
        **columns,
    )
