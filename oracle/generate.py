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

from oracle.models import compat
from oracle.models.checks import needs_decoder_mask, unequal_rows
from oracle.models.decoding import greedy_config, neutral
from oracle.models.pair import Pair
from oracle.models.scores import check_pass
from oracle.models.view import views
from oracle.policies.contract import Policy, State
from oracle.policies.library import SCHEDULES, Settings, settings_of
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
    threshold_after: float = 0.0  # assistant_confidence_threshold there, for releases that carry a refitted one over


def assisted(pair: Pair, prompt: np.ndarray, settings: Settings, *, max_new_tokens: int, clock: Clock) -> Observed:
    """``target.generate`` with the pair's draft, greedy, on one prompt (int [P], P >= 1).

    ``assistant_model=draft``, or what `oracle.drafts.kinds` says of drafts that are no model of their own.

    Raises ValueError for settings that the library would silently take for others, and RuntimeError when the observed
    run was not under these settings.
    """
    check_settings(pair, settings)
    lookaheads = settings.lookaheads(max_new_tokens)
    watch = _Watch(clock, _before(pair, prompt), settings.adaptive, lookaheads, pair.drafting.length)
    with neutral(pair), pair.drafting.around(pair):
        told = pair.drafting.settings_of(pair)
        if told is not None:
            config = told.generation_config  # a fresh one: `neutral` restores the model's own
            config.num_assistant_tokens = settings.tokens
            config.num_assistant_tokens_schedule = settings.schedule
            config.assistant_confidence_threshold = float(settings.threshold)
        with _watched_generator(pair.target, watch), _watched_forward(pair, watch), _own_advice_unheard():
            text, start, end = _call(pair, prompt, max_new_tokens, clock, settings)
        if told is None:
            after = settings.tokens, float(settings.threshold)
        else:
            left = told.generation_config
            after = left.num_assistant_tokens, float(left.assistant_confidence_threshold)
    watch.check_numbers()
    observed = _assisted_rows(watch.rounds, text, start, end, *after, generator=pair.drafting.generator)
    _check_in_force(observed, settings, lookaheads)
    return observed


def plain(pair: Pair, prompt: np.ndarray, *, max_new_tokens: int, clock: Clock) -> Observed:
    """``target.generate`` without a draft, greedy, on one prompt (int [P], P >= 1): an iteration is one token."""
    watch = _Watch(clock, _before(pair, prompt))
    with neutral(pair), _watched_forward(pair, watch):
        text, start, end = _call(pair, prompt, max_new_tokens, clock)
    watch.check_numbers()
    return _plain_rows(watch.forwards, text, start, end)


def library_settings(pair: Pair, policy: Policy, state: State | None = None) -> Settings | None:
    """`settings_of` the policy; None too where the library does not follow them with this pair's kind of draft.

    What it does not follow runs in the toolkit's own loop.
    """
    found = settings_of(policy, state)
    return None if found is None or pair.drafting.lacks(found) else found


def check_settings(pair: Pair, settings: Settings) -> None:
    """Raise ValueError where the library would quietly do something else than these settings say."""
    if settings.schedule not in SCHEDULES:
        raise ValueError(
            f"schedule {settings.schedule!r} is not one that the library knows (it would take it for constant); "
            f"legal: {', '.join(SCHEDULES)}; `dynamic` is constant with a threshold above 0"
        )
    if lacking := pair.drafting.lacks(settings):
        raise ValueError(
            f"the library {lacking}: it cannot follow these settings ({settings}); take constant:tokens={settings.tokens}"
        )
    if problem := unequal_rows(pair):
        raise ValueError(problem)


def _call(
    pair: Pair, prompt: np.ndarray, max_new_tokens: int, clock: Clock, settings: Settings | None = None
) -> tuple[np.ndarray, float, float]:
    """New tokens, and the clock before and after; without ``settings`` the target alone."""
    target, _ = views(pair)
    ids = torch.from_numpy(np.asarray(prompt, dtype=np.int64)).to(target.device)[None]
    config = greedy_config(pair, max_new_tokens)
    drafts = {} if settings is None else pair.drafting.asked(pair, config, settings)
    mask = torch.ones_like(ids)
    extra = {"decoder_attention_mask": mask[:, :1]} if drafts and needs_decoder_mask(pair) else {}
    before = _before(pair, prompt)
    start = clock()
    with torch.inference_mode():
        write: Any = pair.target.generate  # a model's class decides whether it has one
        output = write(ids, attention_mask=mask, generation_config=config, **drafts, **extra)
    end = clock()
    return output[0, before:].cpu().numpy().astype(np.int32), start, end


def _before(pair: Pair, prompt: np.ndarray) -> int:
    """Positions of the library's own text before the new tokens."""
    return len(views(pair)[0].opening(prompt))


@dataclass
class _Watch:
    """Notes of one call.  Plain lists and clock readings only, so that taking them costs next to nothing."""

    clock: Clock
    prompt: int  # positions before the new tokens
    adaptive: bool = True
    lookaheads: list[int] | None = None  # what each draft's own length is set to; None: the library's schedule decides
    length: str = "num_assistant_tokens"  # what the generator calls the length of its next draft
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
        reads = hasattr(generator, "assistant_model")  # what looks tokens up has no settings of a draft
        if not self.adaptive and reads:
            compat.hold_threshold(generator)
        get, update = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(ids, *args, **kwargs):
            if self.lookaheads is not None:
                setattr(generator, self.length, self.lookaheads[len(self.rounds)])
            note = {
                "position": ids.shape[1] - self.prompt,
                "budget": getattr(generator, self.length),
                "threshold": compat.threshold_in_force(generator) if reads else 0.0,
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


def _assisted_rows(
    rounds: list[dict[str, Any]],
    text: np.ndarray,
    start: float,
    end: float,
    tokens: float,
    threshold: float,
    *,
    generator: str,
) -> Observed:
    if {note["generator"] for note in rounds} != {generator}:
        names = sorted({note["generator"] for note in rounds})
        raise RuntimeError(f"the library drafted with {names or 'nothing'}, not with {generator}")
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
    return Observed(text, end - start, prefill, columns_of(columns | seconds), tokens, threshold)


def _plain_rows(forwards: list[tuple[float, float]], text: np.ndarray, start: float, end: float) -> Observed:
    if len(forwards) < len(text):
        raise RuntimeError(
            f"{len(forwards)} target passes were seen for {len(text)} tokens: the model hides its forward pass"
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
