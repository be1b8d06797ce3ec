"""Draft and verify: speculative decoding with any policy object, greedy, on one screen.

It runs the policies that the library does not have, one lane at a time, and is what the replay in ``analysis.replay`` mirrors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel

from oracle.generate import Observed, columns_of
from oracle.models.decoding import eos_token_ids, neutral
from oracle.models.pairs import Pair, shared_rows
from oracle.models.passes import device_of, distribution, forward
from oracle.policies.contract import SIGNALS, Policy, Signals, State, budget_of, sent_of, stops_at
from oracle.timing import Clock


@torch.inference_mode()
def draft_and_verify(
    pair: Pair, prompt: np.ndarray, policy: Policy, state: State | None = None, *, max_new_tokens: int, clock: Clock
) -> tuple[Observed, State]:
    """The target's greedy text after ``prompt`` (int [P], P >= 1) under ``policy``, and the policy's last state.

    ``state`` has one lane; None is the policy's start.
    """
    state = policy.start(1) if state is None else state
    vocabulary, stop = shared_rows(pair), set(eos_token_ids(pair))
    rows: list[dict[str, Any]] = []
    with neutral(pair):
        start = last = clock()
        target, draft = Reader(pair.target, vocabulary), Reader(pair.draft, vocabulary)
        text = [int(token) for token in prompt]
        end = len(text) + max_new_tokens
        while len(text) < end and not (rows and text[-1] in stop):
            budget = int(np.max(budget_of(policy, state)))
            begun = clock()
            drafted, passes, signals = propose(draft, text, policy, state, min(budget, end - len(text) - 1), stop)
            proposed = clock()
            choices = target.read(text + drafted, keep=len(drafted) + 1).argmax(-1).tolist()
            passed = clock()
            emitted = accept(drafted, choices, stop)
            accepted = len(emitted) - 1
            counts = {"drafted": len(drafted), "accepted": accepted, "passes": passes, "budget": budget}
            rows.append({"position": len(text) - len(prompt)} | counts)
            text += emitted
            target.forget(len(text) - 1)
            draft.forget(len(text) - 1)
            state = policy.update(state, np.array([len(drafted)]), np.array([accepted]), signals)
            verified = clock()
            seconds = {"draft": proposed - begun, "verify": verified - proposed, "forward": passed - proposed}
            rows[-1] |= {f"{name}_seconds": value for name, value in seconds.items()} | {"rest_seconds": begun - last}
            rows[-1]["prefill"] = verified - start
            last = verified
        finish = clock()
    rows[-1]["rest_seconds"] += finish - last
    columns = columns_of(
        {name: [row[name] for row in rows] for name in rows[0]} | {"threshold": np.full(len(rows), np.nan)}
    )
    prefill = finish - start if len(rows) == 1 else rows[0]["prefill"]
    return Observed(np.array(text[len(prompt) :], np.int32), finish - start, prefill, columns, 0), state


def propose(
    draft: Reader, text: list[int], policy: Policy, state: State, limit: int, stop: set[int]
) -> tuple[list[int], int, Signals]:
    """Tokens to verify, the draft passes paid for them (at most ``limit``), and the signals of all that was drafted.

    The token that stops the draft, by the policy's rule or as EOS, is verified unless the policy's `send` drops it.
    """
    drafted: list[int] = []
    seen: dict[str, list[float]] = {name: [] for name in SIGNALS}
    signals, stopped = _row(seen), False
    while len(drafted) < limit and not stopped and not (drafted and drafted[-1] in stop):
        values = distribution(draft.read(text + drafted, keep=1)[0])
        drafted.append(int(values["tokens"]))
        for name in SIGNALS:
            seen[name].append(float(values[name]))
        signals = _row(seen)
        answer = stops_at(policy, signals, state)
        stopped = answer is not None and bool(answer[0, -1])
    passes = len(drafted)
    sent = int(sent_of(policy, np.array([passes]), np.array([stopped]), state)[0])
    return drafted[:sent], passes, signals


def _row(seen: dict[str, list[float]]) -> Signals:
    """One draft's signals, float32 [1, k] each."""
    return Signals.of(*(np.array([seen[name]], np.float32) for name in SIGNALS))


def accept(drafted: list[int], choices: list[int], stop: set[int]) -> list[int]:
    """What the target emits: its choices up to the first one that was drafted otherwise, or up to an EOS."""
    emitted = []
    for choice, guess in zip(choices, [*drafted, None], strict=True):
        emitted.append(choice)
        if choice != guess or choice in stop:
            break
    return emitted


class Reader:
    """A model that reads a growing text and remembers what it has read."""

    def __init__(self, model: PreTrainedModel, vocabulary: int) -> None:
        self._model, self._vocabulary = model, vocabulary
        self._cache = DynamicCache(config=model.config)
        self._cache.activate_past_recording()

    def read(self, text: list[int], keep: int) -> torch.Tensor:
        """Logits after each of the last ``keep`` tokens of ``text``, float [keep, vocabulary]."""
        known = self._cache.get_seq_length()
        ids = torch.tensor([text[known:]], device=device_of(self._model))
        positions = torch.arange(known, len(text), device=ids.device)[None]
        mask = torch.ones(1, len(text), dtype=torch.bool, device=ids.device)
        return forward(self._model, ids, mask, positions, self._cache, keep)[0, :, : self._vocabulary]

    def forget(self, length: int) -> None:
        """Forget everything after the first ``length`` tokens, if that much was read."""
        rollback(self._cache, min(length, self._cache.get_seq_length()))


def rollback(cache: DynamicCache, keep: int) -> None:
    """Cut ``cache`` to its first ``keep`` tokens.  Raises ValueError when it holds fewer."""
    length = cache.get_seq_length()
    if not 0 <= keep <= length:
        raise ValueError(f"keep={keep}: the cache holds {length} tokens; give 0 to {length}")
    if length:
        cache.crop(keep - length)  # a negative count is how many to remove; 0 lets a sliding window shrink back
    if cache.get_seq_length() != keep:
        raise RuntimeError(
            f"the cache holds {cache.get_seq_length()} tokens after a rollback to {keep}: it cannot roll back"
        )
