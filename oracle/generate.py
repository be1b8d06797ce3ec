"""The real generator: transformers' own generation, plain or assisted, observed iteration by iteration.

Nothing of the library is replaced.  The candidate generator that it builds is kept, class and all; the two methods that
the library calls on it, and the target's forward pass, are watched from outside for the length of one call.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from oracle.models.checks import unequal_rows
from oracle.models.decoding import greedy_config, neutral
from oracle.models.pair import Pair
from oracle.models.scores import check_pass
from oracle.models.view import views
from oracle.policies.library import SCHEDULES, Settings
from oracle.records.runs import ITERATION_COLUMNS
from oracle.timing import Clock


@dataclass(frozen=True)
class Observed:
    """One call.  The iterations' seconds add up to ``total_seconds`` (see ``ITERATION_COLUMNS`` for what each is)."""

    tokens: np.ndarray  # int32 [N], the new tokens
    total_seconds: float
    prefill_seconds: float  # from the start of the call to the end of the first target pass
    iterations: dict[str, np.ndarray]  # name -> [I]
    tokens_after: (
        float  # num_assistant_tokens that the call left in the draft's config, for a schedule that carries it over
    )


def assisted(pair: Pair, prompt: np.ndarray, settings: Settings, *, max_new_tokens: int, clock: Clock) -> Observed:
    """``target.generate(assistant_model=draft)``, greedy, on one prompt (int [P], P >= 1).

    Raises ValueError for settings that the library would silently take for others, and RuntimeError when the observed
    run was not under these settings.
    """
    check_settings(pair, settings)
    lookaheads = settings.lookaheads(max_new_tokens)
    watch = _Watch(clock, len(prompt), settings.adaptive, lookaheads)
    with neutral(pair):
        config = pair.draft.generation_config  # a fresh one: `neutral` restores the draft's own
        config.num_assistant_tokens = settings.tokens
        config.num_assistant_tokens_schedule = settings.schedule
        config.assistant_confidence_threshold = float(settings.threshold)
        with _watched_generator(pair.target, watch), _watched_forward(pair, watch), _own_advice_unheard():
            text, start, end = _call(pair, prompt, max_new_tokens, clock, pair.draft)
        after = config.num_assistant_tokens
    watch.check_numbers()
    observed = _assisted_rows(watch.rounds, text, start, end, after)
    _check_in_force(observed, settings, lookaheads)
    return observed


def plain(pair: Pair, prompt: np.ndarray, *, max_new_tokens: int, clock: Clock) -> Observed:
    """``target.generate`` without a draft, greedy, on one prompt (int [P], P >= 1): an iteration is one token."""
    watch = _Watch(clock, len(prompt))
    with neutral(pair), _watched_forward(pair, watch):
        text, start, end = _call(pair, prompt, max_new_tokens, clock)
    watch.check_numbers()
    return _plain_rows(watch.forwards, len(prompt), text, start, end)


def check_settings(pair: Pair, settings: Settings) -> None:
    """Raise ValueError where the library would quietly do something else than these settings say."""
    if settings.schedule not in SCHEDULES:
        raise ValueError(
            f"schedule {settings.schedule!r} is not one that the library knows (it would take it for constant); "
            f"legal: {', '.join(SCHEDULES)}; `dynamic` is constant with a threshold above 0"
        )
    if problem := unequal_rows(pair):
        raise ValueError(problem)


def _call(
    pair: Pair, prompt: np.ndarray, max_new_tokens: int, clock: Clock, draft: PreTrainedModel | None = None
) -> tuple[np.ndarray, float, float]:
    """New tokens, and the clock before and after."""
    target, _ = views(pair)
    ids = torch.from_numpy(np.asarray(prompt, dtype=np.int64)).to(target.device)[None]
    config = greedy_config(pair, max_new_tokens)
    mask = torch.ones_like(ids)
    start = clock()
    with torch.inference_mode():
        write: Any = pair.target.generate  # a model's class decides whether it has one
        output = write(ids, attention_mask=mask, generation_config=config, assistant_model=draft)
    end = clock()
    return output[0, ids.shape[1] :].cpu().numpy().astype(np.int32), start, end


@dataclass
class _Watch:
    """Notes of one call.  Plain lists and clock readings only, so that taking them costs next to nothing."""

    clock: Clock
    prompt: int  # tokens
    adaptive: bool = True
    lookaheads: list[int] | None = None  # what each draft's own length is set to; None: the library's schedule decides
    rounds: list[dict[str, Any]] = field(default_factory=list)
    forwards: list[tuple[float, float]] = field(default_factory=list)  # start and end of every target pass
    drafting: bool = False  # the draft may be the target itself: its passes are not target passes
    last: dict[str, torch.Tensor] = field(default_factory=dict)  # role -> logits of its last pass, kept as they are

    def check_numbers(self) -> None:
        """Raise RuntimeError if a model's logits were no numbers.  Once a call, when its clock has stopped."""
        for role, logits in self.last.items():
            check_pass(logits, role)

    def attach(self, generator: Any) -> None:
        """Watch a candidate generator that the library has built for this call."""
        if not self.adaptive:
            # The library refits the threshold while this field is not 0; what stops a draft reads another field.
            generator.assistant_generation_config.assistant_confidence_threshold = 0.0
        get, update = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(ids, *args, **kwargs):
            if self.lookaheads is not None:
                generator.num_assistant_tokens = self.lookaheads[len(self.rounds)]
            note = {
                "position": ids.shape[1] - self.prompt,
                "budget": generator.num_assistant_tokens,
                "threshold": float(generator.generation_config.assistant_confidence_threshold),
                "generator": type(generator).__name__,
            }
            note["draft_start"] = self.clock()
            self.drafting = True
            result = get(ids, *args, **kwargs)
            self.drafting = False
            note["draft_end"] = self.clock()
            note["drafted"] = result[0].shape[1] - ids.shape[1]
            self.rounds.append(note)
            return result

        def update_candidate_strategy(ids, scores, matches):
            self.rounds[-1] |= {"verify_end": self.clock(), "accepted": int(matches), "forward": self.forwards[-1]}
            return update(ids, scores, matches)

        generator.get_candidates, generator.update_candidate_strategy = get_candidates, update_candidate_strategy


@contextlib.contextmanager
def _watched_generator(target: Any, watch: _Watch) -> Iterator[None]:
    """Hand every candidate generator that this target builds meanwhile to ``watch``."""
    build = target._get_candidate_generator

    def built(*args, **kwargs):
        generator = build(*args, **kwargs)
        watch.attach(generator)
        return generator

    target._get_candidate_generator = built
    try:
        yield
    finally:
        del target._get_candidate_generator


@contextlib.contextmanager
def _own_advice_unheard() -> Iterator[None]:
    """Keep back what the library logs about its own call of the draft's `generate`: users can do nothing about it."""
    logger = logging.getLogger("transformers.generation.utils")

    def others(record: logging.LogRecord) -> bool:
        return "Passing `generation_config` together with" not in record.getMessage()

    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


@contextlib.contextmanager
def _watched_forward(pair: Pair, watch: _Watch) -> Iterator[None]:
    """Clock the target's own forward passes, and keep the logits of each model's last pass."""
    started: list[float] = []

    def before(module, inputs):
        watch.last.pop("draft" if watch.drafting else "target", None)  # no longer than the library itself keeps them
        if not watch.drafting:
            started.append(watch.clock())

    def after(module, inputs, outputs):
        if not watch.drafting:
            watch.forwards.append((started.pop(), watch.clock()))
        watch.last["draft" if watch.drafting else "target"] = outputs.logits

    models = {id(model): model for model in (pair.target, pair.draft)}.values()
    handles = [
        handle
        for model in models
        for handle in (model.register_forward_pre_hook(before), model.register_forward_hook(after))
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _assisted_rows(rounds: list[dict[str, Any]], text: np.ndarray, start: float, end: float, after: float) -> Observed:
    if {note["generator"] for note in rounds} != {"AssistedCandidateGenerator"}:
        names = sorted({note["generator"] for note in rounds})
        raise RuntimeError(f"the library drafted with {names or 'nothing'}, not with AssistedCandidateGenerator")
    begun = [note["draft_start"] for note in rounds]
    verified = [note["verify_end"] for note in rounds]
    rest = np.subtract(begun, [start, *verified[:-1]])
    rest[-1] += end - verified[-1]
    columns = {
        name: [note[name] for note in rounds] for name in ("position", "drafted", "accepted", "budget", "threshold")
    }
    columns["passes"] = columns["drafted"]  # the library verifies all that it drafts
    seconds = {
        "draft_seconds": [note["draft_end"] - note["draft_start"] for note in rounds],
        "verify_seconds": [note["verify_end"] - note["draft_end"] for note in rounds],
        "forward_seconds": [stop - begin for begin, stop in (note["forward"] for note in rounds)],
        "rest_seconds": rest,
    }
    prefill = end - start if len(rounds) == 1 else verified[0] - start
    return Observed(text, end - start, prefill, columns_of(columns | seconds), after)


def _plain_rows(
    forwards: list[tuple[float, float]], prompt: int, text: np.ndarray, start: float, end: float
) -> Observed:
    if len(forwards) < len(text):
        raise RuntimeError(
            f"{len(forwards)} target passes were seen for {len(text)} tokens: the model hides its forward pass "
            "(torch.compile wraps it in another one); give the model itself, compiled inside if at all"
        )
    size = len(text)
    forwards = forwards[:size]  # a device that is asked late whether to stop runs one pass too many
    ends = [start, *(stop for _, stop in forwards[:-1]), end]
    nothing = np.zeros(size)
    columns = {
        "position": np.arange(size),
        "drafted": nothing,
        "accepted": nothing,
        "passes": nothing,
        "budget": nothing,
        "threshold": nothing,
        "draft_seconds": nothing,
        "verify_seconds": np.diff(ends),
        "forward_seconds": [stop - begin for begin, stop in forwards],
        "rest_seconds": nothing,
    }
    prefill = end - start if size == 1 else forwards[0][1] - start
    return Observed(text, end - start, prefill, columns_of(columns), 0)


def columns_of(values: dict[str, Any]) -> dict[str, np.ndarray]:
    """The iterations' columns as arrays of their types, [I] each."""
    return {name: np.asarray(values[name], dtype=kind) for name, kind in ITERATION_COLUMNS.items()}


def _check_in_force(observed: Observed, settings: Settings, lookaheads: list[int] | None) -> None:
    """Raise RuntimeError unless the iterations show the settings that were asked for."""
    seen = observed.iterations
    begun = settings.tokens if lookaheads is None else lookaheads[0]
    asked: dict[str, tuple[Any, Any]] = {"num_assistant_tokens": (begun, seen["budget"][0])}
    asked["assistant_confidence_threshold"] = (settings.threshold, seen["threshold"][0])
    if not settings.adaptive:
        asked["a fixed threshold"] = (
            settings.threshold,
            seen["threshold"][np.argmax(seen["threshold"] != settings.threshold)],
        )
    following = seen["budget"][1:]
    if lookaheads is not None:
        expected = np.array(lookaheads[1 : len(seen["budget"])], dtype=int)
    elif settings.schedule == "constant":
        expected = np.full(len(following), settings.tokens)
    else:
        whole = (seen["accepted"] == seen["drafted"])[:-1]
        expected = np.where(whole, seen["budget"][:-1] + 2, np.maximum(1, seen["budget"][:-1] - 1))
    asked[f"the {settings.schedule} schedule"] = (expected.tolist(), following.tolist())
    for name, (wanted, found) in asked.items():
        if wanted != found:
            raise RuntimeError(f"{name}: {wanted} was asked for, but the run was under {found}")
