"""Draft and verify: speculative decoding with any policy object, greedy, on one screen.

It runs the policies that the library does not have, one lane at a time, and is what the replay in ``analysis.replay``
mirrors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from oracle.drafts.kinds import PromptLookup
from oracle.drafts.lookup import Occurrences
from oracle.generate import Observed, columns_of
from oracle.models.abilities import Abilities
from oracle.models.decoding import neutral
from oracle.models.pair import Pair
from oracle.models.scores import check_pass, distribution, largest
from oracle.models.view import Reader, views
from oracle.policies.contract import SIGNALS, Policy, Signals, State, Unavailable, ask, budget_of, sent_of, stops_at
from oracle.timing import Clock


@torch.inference_mode()
def draft_and_verify(
    pair: Pair, prompt: np.ndarray, policy: Policy, state: State | None = None, *, max_new_tokens: int, clock: Clock
) -> tuple[Observed, State]:
    """The target's greedy text after ``prompt`` (int [P], P >= 1) under ``policy``, and the policy's last state.

    ``state`` has one lane; None is the policy's start.
    """
    now: State = ask(policy, "start", 1) if state is None else state
    both = views(pair)
    stop = set(both[0].stop)
    looked = Occurrences(pair.drafting.ngram, stop) if isinstance(pair.drafting, PromptLookup) else None
    rows: list[dict[str, Any]] = []
    with neutral(pair):
        start = last = clock()
        target, draft = (Reader(view, prompt) for view in both)
        text = [int(token) for token in both[0].opening(prompt)]
        begin, end = len(text), len(text) + max_new_tokens
        while len(text) < end and not (rows and text[-1] in stop):
            budget = int(np.max(budget_of(policy, now)))
            begun = clock()
            left = end - len(text)
            if looked is not None:  # not clipped to the room that is left, as in the library
                drafted, passes, signals = look_up(looked, text, policy, now, budget if left > 1 else 0)
            else:
                drafted, passes, signals = propose(draft, text, policy, now, min(budget, left - 1), stop)
            proposed = clock()
            choices = read_on(target, text + drafted, keep=len(drafted) + 1).argmax(-1).tolist()
            passed = clock()
            emitted = accept(drafted, choices, stop)[:left]
            accepted = len(emitted) - 1
            counts = {"drafted": len(drafted), "accepted": accepted, "passes": passes, "budget": budget}
            rows.append({"position": len(text) - begin} | counts)
            text += emitted
            target.forget(len(text) - 1)
            draft.forget(len(text) - 1)
            now = ask(policy, "update", now, np.array([len(drafted)]), np.array([accepted]), signals)
            verified = clock()
            seconds = {"draft": proposed - begun, "verify": verified - proposed, "forward": passed - proposed}
            rows[-1] |= {f"{name}_seconds": value for name, value in seconds.items()} | {"rest_seconds": begun - last}
            rows[-1]["prefill"] = verified - start
            last = verified
        finish = clock()
    for reader, view in zip((target, draft), both, strict=True):
        check_pass(reader.last, view.role)
    rows[-1]["rest_seconds"] += finish - last
    columns = columns_of(
        {name: [row[name] for row in rows] for name in rows[0]} | {"threshold": np.full(len(rows), np.nan)}
    )
    prefill = finish - start if len(rows) == 1 else rows[0]["prefill"]
    return Observed(np.array(text[begin:], np.int32), finish - start, prefill, columns, 0), now


def propose(
    draft: Reader, text: list[int], policy: Policy, state: State, limit: int, stop: set[int]
) -> tuple[list[int], int, Signals]:
    """Tokens to verify, the draft passes paid for them (at most ``limit``), and the signals of all that was drafted.

    The token that stops the draft, by the policy's rule or as EOS, is verified unless the policy's `send` drops it.
    """
    drafted: list[int] = []
    seen: dict[str, list[float]] = {name: [] for name in SIGNALS}
    rows: list[torch.Tensor] = []
    signals, stopped = _row(seen, rows), False
    while len(drafted) < limit and not stopped and not (drafted and drafted[-1] in stop):
        rows.append(read_on(draft, text + drafted, keep=1)[0])
        values = distribution(rows[-1])
        drafted.append(int(values["tokens"]))
        for name in SIGNALS:
            seen[name].append(float(values[name]))
        signals = _row(seen, rows)
        answer = stops_at(policy, signals, state)
        stopped = answer is not None and bool(answer[0, -1])
    passes = len(drafted)
    sent = int(sent_of(policy, np.array([passes]), np.array([stopped]), state)[0])
    return drafted[:sent], passes, signals


def look_up(
    occurrences: Occurrences, text: list[int], policy: Policy, state: State, limit: int
) -> tuple[list[int], int, Signals]:
    """As `propose`, by n-gram lookup: tokens come all at once and without probabilities."""
    found = occurrences.candidates(text, limit)
    answer = stops_at(policy, _mute(policy, len(found)), state) if found else None
    stops = np.flatnonzero(answer[0]) if answer is not None else np.zeros(0, int)
    passes = int(stops[0]) + 1 if len(stops) else len(found)
    sent = int(sent_of(policy, np.array([passes]), np.array([len(stops) > 0]), state)[0])
    return found[:sent], passes, _mute(policy, passes)


def _mute(policy: Policy, size: int) -> Signals:
    """Of a draft of so many tokens, with no probability of any."""

    def read(name: str) -> np.ndarray:
        raise Unavailable(f"policy {policy} reads {name} of each token, and n-gram lookup gives no probabilities")

    return Signals((1, size), read, lambda k: read(f"the {k} largest probabilities"))


def _row(seen: dict[str, list[float]], rows: list[torch.Tensor]) -> Signals:
    """One draft's signals, float32 [1, tokens] each; ``rows`` are the logits of each token, float [V]."""
    held = list(rows)  # the draft may go on
    return Signals(
        (1, len(held)),
        lambda name: np.array([seen[name][: len(held)]], np.float32),
        lambda k: largest(torch.stack(held), k).cpu().numpy()[None] if held else np.zeros((1, 0, k), np.float32),
    )


def accept(drafted: list[int], choices: list[int], stop: set[int]) -> list[int]:
    """What the target emits: its choices up to the first one that was drafted otherwise, or up to an EOS."""
    emitted = []
    for choice, guess in zip(choices, [*drafted, None], strict=True):
        emitted.append(choice)
        if choice != guess or choice in stop:
            break
    return emitted


def read_on(reader: Reader, text: list[int], keep: int) -> torch.Tensor:
    """Logits after each of the last ``keep`` tokens of ``text``, of which the reader knows the beginning."""
    return reader.read(torch.tensor(text[reader.length :]), keep)


def check_loop(pair: Pair, policy: Policy) -> None:
    """Raise ValueError unless the loop can run ``policy`` with this pair's draft.

    Both models must go on from an earlier token as if they had seen no later one.
    """
    if not pair.drafting.shares_ids:
        raise ValueError(
            f"policy {policy} runs in the toolkit's own loop, which gives the draft the target's token ids, and this "
            "draft has a tokenizer of its own; take constant, dynamic, heuristic or heuristic_transient"
        )
    if isinstance(pair.drafting, PromptLookup):
        _expect_counting(policy)
    with neutral(pair):
        for view in views(pair):
            if not Abilities(view).rolls_back:
                raise ValueError(
                    f"the {view.role} ({type(view.model).__name__}) cannot forget the tokens of a draft that was "
                    "rejected, so no policy of the toolkit's own loop can be measured on it; choose another model"
                )


def _expect_counting(policy: Policy) -> None:
    """Raise ValueError for a policy that reads probabilities."""
    state, one = ask(policy, "start", 1), np.ones(1, np.int64)
    try:
        stops_at(policy, _mute(policy, 1), state)
        ask(policy, "update", state, one, one, _mute(policy, 1))
    except Unavailable as error:
        raise ValueError(f"{error}; take one that counts, such as constant, heuristic or staircase") from None
