"""The measuring plan: which call runs when, what is kept of it, and how an interrupted run goes on.

Every repeat runs all policies on a prompt before the next prompt, in rotated order, so that a machine that changes its
speed changes it for all of them alike.  A run that goes on until enough is known (`Stopping`) takes the prompts in
stages, each with all its repeats, and the policies in random order.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from oracle.drafts.kinds import PromptLookup
from oracle.models.checks import check_pair
from oracle.models.identity import facts
from oracle.models.pair import Pair
from oracle.progress import bar
from oracle.prompts.chat import Chat
from oracle.prompts.encode import Encoded, context_limit, digest, encode, longest_text
from oracle.prompts.facts import expect_some, form_meta, look, settled_chat, warn_of
from oracle.records.runs import FOLDER, PLAIN, Call, Runs, latest, read_calls, to_table
from oracle.records.typed import whole
from oracle.records.writing import writing

if TYPE_CHECKING:
    from oracle.generate import Observed
    from oracle.policies import Policy
    from oracle.policies.contract import Prices, State
    from oracle.prompts.sets import PromptSet
    from oracle.timing import Clock

WARM_UP = 32  # new tokens of the calls before those that count
# See `_binding`.
_BINDING = (
    "target", "draft", "prompts", "system", "template_args", "template_date", "prompts_sha256", "policies", "repeats",
    "max_new_tokens", "chat", "prices", "until",
)  # fmt: skip


class Stopping(Protocol):
    """What ends a run before its prompts do: ``analysis.measured.until``."""

    def settle(self, policies: Sequence[str], /) -> Self:
        """The same for a run of these policies, plain decoding first.  Raises ValueError where they will not do."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the run is bound to, for its ``meta.json``."""
        ...

    def looks(self, prompts: int, /) -> list[int]:
        """After how many of so many prompts it is asked, rising; the last time after all."""
        ...

    def enough(self, calls: Sequence[Call], /) -> bool:
        """Whether the calls so far are enough."""
        ...


@dataclass(frozen=True)
class Plan:
    """Everything that a measuring run needs to know; ``arms`` begins with plain decoding."""

    pair: Pair
    prompts: Sequence[Encoded]
    arms: dict[str, Policy]
    repeats: int
    clock: Clock
    cost: Prices | None = None
    until: Stopping | None = None

    @property
    def stages(self) -> list[range]:
        """Numbers of the prompts, as they are taken: all their repeats before the next ones."""
        ends = [len(self.prompts)] if self.until is None else self.until.looks(len(self.prompts))
        return [range(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

    def order(self, repeat: int, prompt: int) -> list[str]:
        """In which order the arms run."""
        arms = list(self.arms)
        return rotation(arms, repeat, self.repeats, prompt) if self.until is None else shuffled(arms, repeat, prompt)

    def start(self, policy: Policy) -> State:
        """The state with which a policy begins."""
        from oracle.policies.contract import ask

        return ask(policy, "start", 1, self.cost)


def measure(
    pair: Pair,
    prompts: PromptSet | Iterable[str] | Iterable[Sequence[int]],
    policies: Iterable[str | Policy | Callable],
    out: str | Path | None = None,
    *,
    max_new_tokens: int = 128,
    repeats: int = 3,
    chat: bool | Chat = False,
    resume: bool = False,
    force: bool = False,
    clock: Clock | None = None,
    cost: Prices | None = None,
    until: Stopping | None = None,
    progress: bool = False,
) -> Runs:
    """Run plain greedy decoding and every policy for real, ``repeats`` times on each prompt, and clock every iteration.

    Policies are given as to ``oracle.simulate``; those that the library does not have run in the toolkit's own
    loop, and their calls say so (``generator``).  ``out`` is a directory that holds each call as soon as it has
    ended; without it everything stays in memory.  ``cost`` is handed to policies that ask for prices, as the replay
    hands them its own; a run is resumed with the same.  ``chat`` is as for ``oracle.collect``; what the models read
    stands in ``meta["encoded"]``, and a warning each says what is odd about it.  With ``until``
    (``oracle.Until(0.02)``) prompts are taken one after the other until that is satisfied or none is left;
    ``meta["stopped"]`` says which.  Raises ValueError for arguments that make no sense or a pair that cannot be
    run, RuntimeError for a run that failed; finished calls stay, and ``resume`` goes on after them.
    """
    from oracle.timing import clock_for

    max_new_tokens, repeats = whole("max_new_tokens", max_new_tokens), whole("repeats", repeats)
    check_pair(pair)
    arms = _arms(pair, policies)
    template = settled_chat(chat, FOLDER, out, resume=resume)
    encoded, skipped = encode(pair, prompts, max_new_tokens, template or False)
    expect_some(encoded, skipped, getattr(prompts, "source", {}), "to measure")
    longest = longest_text(pair, encoded)
    _expect_able(pair, longest)
    _expect_room(pair, arms.values(), longest)
    settled = None if until is None else until.settle(list(arms))
    plan = Plan(pair, encoded, arms, repeats, clock or clock_for(pair), cost, settled)
    prompt_facts = look(pair, encoded, skipped, getattr(prompts, "source", {}), template)
    warn_of(prompt_facts)
    meta = _meta(plan, prompts, skipped) | {"max_new_tokens": max_new_tokens} | form_meta(template, prompt_facts)
    if cost is not None:
        meta["prices"] = repr(cost)
    if settled is not None:
        meta["until"] = settled.describe()
    if out is None:
        found = tuple(_run(plan, (), progress))
        return Runs(meta | _ended(plan, found), found)
    with writing(FOLDER, out, meta, _binding, resume=resume, force=force) as folder:
        calls, meta = list(read_calls(folder.parts, folder.meta)), folder.meta
        for call in _run(plan, tuple(calls), progress) if "stopped" not in meta else ():
            folder.add(call.order, to_table([call]))
            calls.append(call)
        if "stopped" not in meta and (ended := _ended(plan, latest(calls))):
            meta = meta | ended
            FOLDER.write_meta(folder.path, meta)
        folder.merge(to_table(latest(calls)))
    return Runs(meta, latest(calls))


def _expect_able(pair: Pair, longest: int) -> None:
    """Raise ValueError where a model cannot be read token by token."""
    from oracle.models.decoding import neutral
    from oracle.record import able

    with neutral(pair):
        able(pair, longest)


def _expect_room(pair: Pair, policies: Iterable[Policy], longest: int) -> None:
    """Raise ValueError where a lookup could hand the target more tokens than it can read.

    The library clips drafts of a model to the room that is left, and what it looks up only where one token is left.
    """
    from oracle.policies.contract import ask, budget_of

    context = context_limit(pair)
    if not isinstance(pair.drafting, PromptLookup) or context is None:
        return
    most = max(int(np.max(budget_of(policy, ask(policy, "start", 1)))) for policy in policies)
    if longest + most - 2 > context:
        raise ValueError(
            f"a prompt and its text take up to {longest} tokens, and {most} more may be looked up beyond their end, of "
            f"the {context} that the target can read; lower max_new_tokens by {longest + most - 2 - context}, or the "
            "policies' tokens"
        )


def _ended(plan: Plan, calls: Sequence[Call]) -> dict[str, Any]:
    """What the meta of a finished run says of its end; nothing where that was settled before."""
    if plan.until is None:
        return {}
    reason = "enough is known" if plan.until.enough(calls) else "no prompt is left"
    return {"stopped": reason, "prompts_planned": 1 + max(call.prompt for call in calls)}


def _arms(pair: Pair, policies: Iterable[str | Policy | Callable]) -> dict[str, Policy]:
    """Text -> policy, plain decoding first.  Raises ValueError for one unknown, given twice, or not to be run here."""
    from oracle.generate import check_settings, library_settings
    from oracle.loop import check_loop
    from oracle.policies import as_policy
    from oracle.policies.counting import Plain
    from oracle.policies.names import by_name, name_of
    from oracle.policies.semantics import under

    if isinstance(policies, str):
        raise ValueError(f"policies={policies!r}: give a list, such as [{policies!r}]")
    arms: dict[str, Policy] = {PLAIN: Plain()}
    policies = list(policies)
    by_name(policies)  # refuses two of one name
    for given in policies:
        text, policy = name_of(given), under(as_policy(given))  # the library follows its own release's rules
        if policy == arms[PLAIN]:
            continue
        if policy in arms.values():
            raise ValueError(
                f"policy {text!r} is given twice (as {next(key for key in arms if arms[key] == policy)!r} before)"
            )
        settings = library_settings(pair, policy)
        if settings is not None:
            check_settings(pair, settings)
        else:
            check_loop(pair, policy)
        arms[text] = policy
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


def shuffled(arms: Sequence[str], repeat: int, prompt: int) -> list[str]:
    """The arms in a random order, always the same one for a prompt of a repeat.

    Plain decoding comes first in the first repeat, because every other text is compared with its text.
    """
    kept, arms = 1 if repeat == 0 else 0, list(arms)
    others = np.random.default_rng([repeat, prompt]).permutation(len(arms) - kept) + kept
    return [*arms[:kept], *(arms[number] for number in others)]


def _run(plan: Plan, done: Sequence[Call], progress: bool) -> Iterator[Call]:
    """Every call that is not among ``done``, as it ends."""
    from oracle.policies.contract import after_prompt

    known = {call.key: call for call in done}
    references = {call.prompt: call.tokens for call in done if call.policy == PLAIN}
    order = 1 + max((call.order for call in done), default=-1)
    total = len(plan.arms) * len(plan.prompts) * plan.repeats
    finished = Counter((call.policy, call.repeat) for call in known.values())  # prompts of each arm's repeats
    if len(known) < total:
        _warm_up(plan)
    states = [{name: plan.start(policy) for name, policy in plan.arms.items()} for _ in range(plan.repeats)]
    with bar("measuring", "calls", total, len(known), progress) as advance:
        for stage in plan.stages:
            for repeat, number, name in _calls_of(plan, stage):
                if finished[name, repeat] == len(plan.prompts):
                    continue
                policy, prompt = plan.arms[name], plan.prompts[number]
                before = states[repeat][name]
                call = known.get((name, repeat, number))
                if call is not None and (left := _state_after(plan, policy, before, call)) is not None:
                    states[repeat][name] = left
                    continue
                # A state made of signals is not in the record: such a policy's unfinished repeat starts again.
                observed, last = _observe(plan, prompt, policy, before)
                states[repeat][name] = after_prompt(policy, last, plan.cost)
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
                known[call.key] = call
                yield call
                advance(1, "")
            # Where a run that was interrupted had gone on, it goes on again.
            if plan.until is not None and max(call.prompt for call in known.values()) == stage[-1]:
                if plan.until.enough(tuple(known.values())):
                    return


def _calls_of(plan: Plan, stage: range) -> Iterator[tuple[int, int, str]]:
    """Repeat, prompt and arm of each call of a stage, in order."""
    for repeat in range(plan.repeats):
        for number in stage:
            for name in plan.order(repeat, number):
                yield repeat, number, name


def _state_after(plan: Plan, policy: Policy, state: State, call: Call) -> State | None:
    """The state with which the prompt after a finished call begins; None where its outcomes do not say."""
    from oracle.policies.contract import Unseen, after_prompt, ask, overrides, unseen

    if not overrides(policy, "next_prompt"):
        return plan.start(policy)
    try:
        for drafted, accepted in zip(call.drafted[:, None], call.accepted[:, None], strict=True):
            state = ask(policy, "update", state, drafted, accepted, unseen(drafted))
    except Unseen:
        return None
    return after_prompt(policy, state, plan.cost)


def _observe(plan: Plan, prompt: Encoded, policy: Policy, state: State) -> tuple[Observed, State]:
    """One call of the generator, and the policy's state after it."""
    from oracle.generate import assisted, library_settings, plain
    from oracle.policies.counting import Plain
    from oracle.policies.library import state_left

    options = {"max_new_tokens": prompt.max_new_tokens, "clock": plan.clock}
    if type(policy) is Plain:
        return plain(plan.pair, prompt.tokens, **options), state
    settings = library_settings(plan.pair, policy, state)
    if settings is None:
        from oracle.loop import draft_and_verify

        return draft_and_verify(plan.pair, prompt.tokens, policy, state, **options)
    observed = assisted(plan.pair, prompt.tokens, settings, **options)
    iterations = len(observed.iterations["drafted"])
    return observed, state_left(policy, state, observed.tokens_after, iterations, observed.threshold_after)


def _warm_up(plan: Plan) -> None:
    """Every arm once on the longest prompt: the first call of anything is slower than the rest.

    Some iterations of it show all that there is to get used to.
    """
    longest = max(plan.prompts, key=lambda prompt: len(prompt.tokens))
    longest = replace(longest, max_new_tokens=min(WARM_UP, longest.max_new_tokens))
    for policy in plan.arms.values():
        _observe(plan, longest, policy, plan.start(policy))


def _describe_call(plan: Plan, prompt: Encoded, policy: Policy) -> dict[str, Any]:
    from oracle.generate import library_settings
    from oracle.policies.counting import Plain

    known = type(policy) is Plain or library_settings(plan.pair, policy) is not None
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
    margin = _margin(pair, prompt, reference[:at])
    return {"equal": False, "first_difference": at, "difference_margin": margin}


def _margin(pair: Pair, prompt: np.ndarray, text: np.ndarray) -> float:
    """The target's lead of its first over its second choice after ``prompt`` and ``text``, in logits."""
    import torch

    from oracle.models.decoding import neutral
    from oracle.models.scores import best
    from oracle.models.view import views

    target, _ = views(pair)
    with torch.inference_mode(), neutral(pair):
        ids = torch.from_numpy(np.concatenate([target.opening(prompt), text]).astype(np.int64))
        return float(best(target.after(ids, prompt))["lead"])


def _meta(plan: Plan, prompts: object, skipped: list[dict]) -> dict[str, Any]:
    from oracle.timing import describe_machine

    return {
        **facts(plan.pair),
        "machine": describe_machine(plan.pair),
        "prompts": getattr(prompts, "source", {"dataset": "given in memory"}),
        "prompts_planned": len(plan.prompts),
        "prompts_sha256": digest(plan.prompts),
        "skipped": skipped,
        "policies": {name: _settings_text(plan.pair, policy) for name, policy in plan.arms.items()},
        "repeats": plan.repeats,
        "decoding": "greedy",
        "reference": "the text of the first plain call: target.generate without a draft",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _settings_text(pair: Pair, policy: Policy) -> dict[str, Any]:
    """The library's settings of a policy; empty for plain decoding and for the toolkit's own loop."""
    from oracle.generate import library_settings

    settings = library_settings(pair, policy)
    if settings is None:
        return {}
    found = asdict(settings)
    del found["drawn"]  # of a call, not of the run
    return found if settings.seed is not None else {name: value for name, value in found.items() if name != "seed"}


def _binding(meta: dict) -> dict[str, Any]:
    """What must not change between a run and its resumption; of the machine all but its load."""
    machine = {name: value for name, value in (meta.get("machine") or {}).items() if name != "load"}
    return {name: meta.get(name) for name in _BINDING} | {f"machine.{name}": value for name, value in machine.items()}
