"""The measuring plan: which call runs when, what is kept of it, and how an interrupted run goes on.

Every repeat runs all policies on a prompt before the next prompt, in rotated order, so that a machine that changes its
speed changes it for all of them alike.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.models.pairs import Pair, check_pair, describe
from oracle.prompts.encode import Encoded, digest, encode
from oracle.records import runs as files
from oracle.records.runs import PLAIN, Call, Runs

if TYPE_CHECKING:
    from oracle.generate import Observed
    from oracle.policies.rules import Policy
    from oracle.prompts.sets import PromptSet
    from oracle.timing import Clock

# See `_binding`.
_BINDING = ("target", "draft", "prompts", "prompts_sha256", "policies", "repeats", "max_new_tokens", "chat")


@dataclass(frozen=True)
class Plan:
    """Everything that a measuring run needs to know; ``arms`` begins with plain decoding."""

    pair: Pair
    prompts: Sequence[Encoded]
    arms: dict[str, Policy]
    repeats: int
    clock: Clock


def measure(
    pair: Pair,
    prompts: PromptSet | Iterable[str] | Iterable[Sequence[int]],
    policies: Iterable[str],
    out: str | Path | None = None,
    *,
    max_new_tokens: int = 128,
    repeats: int = 3,
    chat: bool = False,
    resume: bool = False,
    force: bool = False,
    clock: Clock | None = None,
    progress: bool = False,
) -> Runs:
    """Run plain greedy decoding and every policy for real, ``repeats`` times on each prompt, and clock every iteration.

    Policies are written as for ``analysis.replay.simulate``; those that the library does not have run in the toolkit's own
    loop, and their calls say so (``generator``).  ``out`` is a directory that holds each call as soon as it has
    ended; without it everything stays in memory.  Raises ValueError for arguments that make no sense or a pair that
    cannot be run, RuntimeError for a run that failed; finished calls stay, and ``resume`` goes on after them.
    """
    from oracle.timing import clock_for

    for name, value in (("max_new_tokens", max_new_tokens), ("repeats", repeats)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    check_pair(pair)
    arms = _arms(pair, policies)
    encoded, skipped = encode(pair, prompts, max_new_tokens, chat)
    if not encoded:
        raise ValueError(
            f"no prompt is left to measure: {len(skipped)} skipped, the first because {skipped[0]['reason']}"
        )
    plan = Plan(pair, encoded, arms, repeats, clock or clock_for(pair))
    meta = _meta(plan, prompts, skipped) | {"max_new_tokens": max_new_tokens, "chat": chat}
    if out is None:
        return Runs(meta, tuple(_run(plan, (), progress)))
    return _run_to_disk(plan, Path(out), meta, resume, force, progress)


def _arms(pair: Pair, policies: Iterable[str]) -> dict[str, Policy]:
    """Text -> policy, plain decoding first.  Raises ValueError for one unknown, given twice, or not to be run here."""
    from oracle.generate import check_settings
    from oracle.policies.library import settings_of
    from oracle.policies.rules import Plain, parse

    if isinstance(policies, str):
        raise ValueError(f"policies={policies!r}: give a list, such as [{policies!r}]")
    arms: dict[str, Policy] = {PLAIN: Plain()}
    for text in policies:
        policy = parse(text)
        if policy == arms[PLAIN]:
            continue
        if policy in arms.values():
            raise ValueError(
                f"policy {text!r} is given twice (as {next(key for key in arms if arms[key] == policy)!r} before)"
            )
        settings = settings_of(policy)
        if settings is not None:
            check_settings(pair, settings)
        arms[str(text).strip()] = policy
    if len(arms) == 1:
        raise ValueError("no policy to measure; give at least one, for example dynamic or constant:tokens=5")
    return arms


def rotation(arms: Sequence[str], repeat: int, repeats: int, prompt: int) -> list[str]:
    """The order of the arms (plain decoding first among them) for one prompt of one repeat.

    Plain decoding comes first in the first repeat, because every other text is compared with its text, then in the
    middle and last; the others take turns.
    """
    plain, others = arms[0], list(arms[1:])
    turn = (prompt + repeat) % len(others)
    place = round(repeat * len(others) / max(1, repeats - 1))
    others = others[turn:] + others[:turn]
    return [*others[:place], plain, *others[place:]]


def _run(plan: Plan, done: Sequence[Call], progress: bool) -> Iterator[Call]:
    """Every call that is not among ``done``, as it ends."""
    known = {call.key: call for call in done}
    references = {call.prompt: call.tokens for call in done if call.policy == PLAIN}
    order = 1 + max((call.order for call in done), default=-1)
    total = len(plan.arms) * len(plan.prompts) * plan.repeats
    if len(known) < total:
        _warm_up(plan)
    with _progress(total, len(known), progress) as advance:
        for repeat in range(plan.repeats):
            states = {name: policy.start() for name, policy in plan.arms.items()}
            for number, prompt in enumerate(plan.prompts):
                for name in rotation(list(plan.arms), repeat, plan.repeats, number):
                    policy = plan.arms[name]
                    before = states[name] if policy.carries_over else policy.start()
                    call = known.get((name, repeat, number))
                    if call is not None and not (policy.carries_over and policy.reads_signals):
                        states[name] = _state_after(policy, before, call)
                        continue
                    # A state made of signals is not in the record: such a policy's unfinished repeat starts again.
                    observed, states[name] = _observe(plan, prompt, policy, before)
                    reference = references.setdefault(number, observed.tokens)
                    call = Call(
                        prompt=number,
                        policy=name,
                        repeat=repeat,
                        order=order,
                        **_describe_call(plan, prompt, policy),
                        **_compare(plan.pair, prompt.tokens, reference, observed.tokens),
                        **_columns(observed),
                    )
                    order += 1
                    yield call
                    advance()


def _state_after(policy: Policy, state: Any, call: Call) -> Any:
    for drafted, accepted in zip(call.drafted.tolist(), call.accepted.tolist(), strict=True):
        state = policy.update(state, drafted, accepted, None) if policy.carries_over else state
    return state


def _observe(plan: Plan, prompt: Encoded, policy: Policy, state: Any) -> tuple[Observed, Any]:
    """One call of the generator, and the policy's state after it."""
    from oracle.generate import assisted, plain
    from oracle.policies.library import settings_of
    from oracle.policies.rules import Plain

    options = {"max_new_tokens": prompt.max_new_tokens, "clock": plan.clock}
    if isinstance(policy, Plain):
        return plain(plan.pair, prompt.tokens, **options), None
    settings = settings_of(policy, state)
    if settings is None:
        from oracle.loop import draft_and_verify

        return draft_and_verify(plan.pair, prompt.tokens, policy, state, **options)
    observed = assisted(plan.pair, prompt.tokens, settings, **options)
    return observed, int(observed.tokens_after) if policy.carries_over else state


def _warm_up(plan: Plan) -> None:
    """Every arm once on the longest prompt: the first call of anything is slower than the rest."""
    longest = max(plan.prompts, key=lambda prompt: len(prompt.tokens))
    for policy in plan.arms.values():
        _observe(plan, longest, policy, policy.start())


def _describe_call(plan: Plan, prompt: Encoded, policy: Policy) -> dict[str, Any]:
    from oracle.policies.library import settings_of
    from oracle.policies.rules import Plain

    known = isinstance(policy, Plain) or settings_of(policy) is not None
    return {
        "id": prompt.id,
        "generator": "library" if known else "loop",
        "max_new_tokens": prompt.max_new_tokens,
        "prompt_tokens": np.asarray(prompt.tokens, np.int32),
    }


def _columns(observed: Observed) -> dict[str, Any]:
    names = ("tokens", "total_seconds", "prefill_seconds")
    return {name: getattr(observed, name) for name in names} | observed.iterations


def _compare(pair: Pair, prompt: np.ndarray, reference: np.ndarray, text: np.ndarray) -> dict[str, Any]:
    """Where ``text`` leaves the text of plain decoding, and how close the target's decision was there."""
    if np.array_equal(reference, text):
        return {"equal": True, "first_difference": None, "difference_margin": None}
    size = min(len(reference), len(text))
    differs = np.flatnonzero(reference[:size] != text[:size])
    at = int(differs[0]) if len(differs) else size
    margin = _margin(pair, np.concatenate([prompt, reference[:at]]))
    return {"equal": False, "first_difference": at, "difference_margin": margin}


def _margin(pair: Pair, text: np.ndarray) -> float:
    """The target's lead of its first over its second choice after ``text``, in logits."""
    import torch

    from oracle.models.passes import best, device_of

    ids = torch.from_numpy(text.astype(np.int64))[None].to(device_of(pair.target))
    with torch.inference_mode():
        return float(best(pair.target(ids).logits[0, -1])["lead"])


def _meta(plan: Plan, prompts: object, skipped: list[dict]) -> dict[str, Any]:
    from oracle.timing import describe_machine

    return {
        "pair": plan.pair.name,
        "target": describe(plan.pair.target) | plan.pair.info.get("target", {}),
        "draft": describe(plan.pair.draft) | plan.pair.info.get("draft", {}),
        "machine": describe_machine(plan.pair),
        "prompts": getattr(prompts, "source", {"dataset": "given in memory"}),
        "prompts_planned": len(plan.prompts),
        "prompts_sha256": digest(plan.prompts),
        "skipped": skipped,
        "policies": {name: _settings_text(policy) for name, policy in plan.arms.items()},
        "repeats": plan.repeats,
        "decoding": "greedy",
        "reference": "the text of the first plain call: target.generate without a draft",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _settings_text(policy: Policy) -> dict[str, Any]:
    """The library's settings of a policy; empty for plain decoding and for the toolkit's own loop."""
    from oracle.policies.library import settings_of

    settings = settings_of(policy)
    return {} if settings is None else asdict(settings)


def _run_to_disk(plan: Plan, out: Path, meta: dict, resume: bool, force: bool, progress: bool) -> Runs:
    with _disk_errors(out):
        done = _prepare(out, meta, resume, force)
    calls = {call.key: call for call in done}
    for call in _run(plan, done, progress):
        with _disk_errors(out):
            files.write_call(out, call)
        calls[call.key] = call
    with _disk_errors(out):
        files.merge(out)
    return Runs(meta, tuple(sorted(calls.values(), key=lambda call: call.order)))


def _prepare(out: Path, meta: dict, resume: bool, force: bool) -> tuple[Call, ...]:
    """Make ``out`` ready for writing; returns the calls that are there already."""
    if resume and force:
        raise ValueError("resume goes on with the runs and force starts them again: give one of them")
    exists = (out / "meta.json").is_file()
    before = files.read_meta(out) if exists else {}  # refuses a folder of something else: force must not replace that
    if resume and exists:
        for name, value in _binding(meta).items():
            begun = _binding(before).get(name)
            if begun != value:
                raise ValueError(f"{out} was begun with {name} {begun!r}, not {value!r}; measure elsewhere")
        return files.finished(out)
    if exists and not force:
        raise ValueError(f"{out} holds measured runs already; --resume goes on with them, --force starts them again")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; measured runs are a directory")
    out.mkdir(parents=True, exist_ok=True)
    files.clear(out)
    files.write_meta(out, meta)
    return ()


def _binding(meta: dict) -> dict[str, Any]:
    """What must not change between a run and its resumption; of the machine all but its load."""
    machine = {name: value for name, value in (meta.get("machine") or {}).items() if name != "load"}
    return {name: meta.get(name) for name in _BINDING} | {"machine": machine}


@contextlib.contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuntimeError(
            f"{out}: cannot write the runs ({error}); finished calls are kept, resume goes on"
        ) from error


@contextlib.contextmanager
def _progress(total: int, done: int, wanted: bool) -> Iterator[Callable[[], None]]:
    """A bar on stderr, where that is a terminal; yields a function to call after each call of the generator."""
    if not wanted or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TextColumn("calls"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("measuring", total=total, completed=done)
        yield functools.partial(bar.advance, task)
