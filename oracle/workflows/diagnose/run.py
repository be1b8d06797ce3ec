"""From models and prompts to the answer: plan, measure, calibrate, record, tune, check, report."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oracle.drafts.kinds import PromptLookup
from oracle.models.identity import facts
from oracle.models.pair import Pair
from oracle.prompts.chat import Chat, as_chat
from oracle.prompts.encode import Encoded, digest, encode
from oracle.prompts.facts import look, warn_of
from oracle.prompts.sets import PromptSet
from oracle.records.typed import whole
from oracle.workflows.diagnose import kept as folder
from oracle.workflows.diagnose.answer import conclude
from oracle.workflows.diagnose.job import Job
from oracle.workflows.diagnose.kept import Kept
from oracle.workflows.diagnose.plan import LENGTHS, Plan, expect_prompts, plan
from oracle.workflows.diagnose.probe import probe
from oracle.workflows.diagnose.result import Diagnosis
from oracle.workflows.diagnose.stages import Tuned, Work, reference, tune_draft
from oracle.workflows.folders import held
from oracle.workflows.inputs import several

Prompts = PromptSet | Iterable[str] | Iterable[Sequence[int]]
# Seconds, where none are given: the embedded pairs, which are small, and others.
BUDGETS = {"demo": 75.0, "demo-t5": 75.0, "": 600.0}
_MOST_PROMPTS = 1000  # of a large data set, drawn at random, from which all others are taken


def diagnose(
    pair: Pair | Sequence[Pair],
    prompts: Prompts,
    out: str | Path = "runs/diagnosis",
    *,
    budget: float | None = None,
    max_new_tokens: int | None = None,
    chat: bool | Chat = False,
    seed: int = 0,
    resume: bool = False,
    force: bool = False,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Say whether a draft pays on ``prompts``, why, and which setting to use, in about ``budget`` seconds.

    Without a budget that is ten minutes, or the least that will do. Several pairs of one target are several drafts,
    of which the best is checked. Prompts are drawn with ``seed``: on some, plain decoding, the library's default
    and a constant are clocked, prices fitted, a trace recorded, settings tuned; on others, the one that comes out
    is clocked beside no draft, the default and the best constant. Texts are as long as the budget allows, or of at
    most ``max_new_tokens``. In half precision the trace holds the text of assisted runs. Everything stays in
    folders of ``out``: ``resume`` goes on after an interruption, ``force`` begins anew. ``tell`` is given a line
    before each long step. Raises ValueError for arguments that make no sense, a budget that is too small or fewer
    than four usable prompts, RuntimeError for a run that failed.
    """
    begun = time.monotonic()
    path, pairs = folder.expect_free(out, resume=resume, force=force), tuple(several(pair))
    names, length = _names(pairs), None if max_new_tokens is None else whole("max_new_tokens", max_new_tokens)
    if budget is not None and not budget > 0:
        raise ValueError(f"budget is {budget}; it must be a number of seconds above 0")
    given, budget = (
        budget is not None,
        float(BUDGETS.get(pairs[0].name.partition(" + ")[0], BUDGETS[""]) if budget is None else budget),
    )
    template = _settled(chat, path, resume=resume)
    say = tell or (lambda line: None)
    usable, encoded = _usable(pairs, prompts, template, seed, say)
    said = template and {**template.to_meta(), "template_date": template.date}
    settings = _settings(pairs, encoded, budget=budget, max_new_tokens=length, chat=said, seed=seed)
    with held(path), _prompts_were_told():
        kept = None if force else folder.known(path, settings)
        if kept is None:
            say("Clocking a few calls, to see how much fits into the budget ...")
            chosen = _plan(pairs, encoded, length, budget, begun, strict=given)
            folder.clear(path)  # what an earlier one left: with force alone there is any
            kept = Kept(settings, chosen).save(path)
        work = Work(kept.plan, template, progress)
        job = Job(pairs, names, usable, path, budget, work, kept, begun - kept.spent, say)
        tuned, failed, job = _tuned(job)
        return conclude(job, tuned, failed)


def _names(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """What the drafts are called.  Raises ValueError for no pair, or pairs of several targets."""
    if not pairs or not all(isinstance(each, Pair) for each in pairs):
        raise ValueError("a diagnosis needs a pair, or a list of pairs of one target: oracle.load_pair(...)")
    if any(isinstance(each.drafting, PromptLookup) for each in pairs):
        raise ValueError(
            "a diagnosis compares with the library's default, which stops at a confidence, and n-gram lookup gives none; "
            "for a lookup use `oracle collect`, `oracle calibrate` and `oracle tune`, or `oracle validate`"
        )
    if any(each.target is not pairs[0].target for each in pairs):
        raise ValueError("several drafts are compared on one target: give pairs that hold the same target model")
    names = ["/".join(each.drafting.name(each).rstrip("/").split("/")[-2:]) for each in pairs]
    return tuple(name if names.count(name) == 1 else f"{name} ({at + 1})" for at, name in enumerate(names))


def _settled(chat: bool | Chat, out: Path, *, resume: bool) -> Chat | Literal[False]:
    """The chat template with its date fixed, so that all steps, and a run that goes on, read the same prompts."""
    template = as_chat(chat)
    if template is None:
        return False
    before = folder.begun_with(out).get("chat") if resume else None
    return template.settled(before or None)


def _usable(
    pairs: Sequence[Pair], prompts: Prompts, chat: Chat | Literal[False], seed: int, tell: Callable[[str], None]
) -> tuple[Any, list[Encoded]]:
    """The prompts that every pair can read, in an order drawn with ``seed``, and as the models see them.

    Tells which kinds were left out, and warns of what is odd about the others: here once, for all of them.
    """
    given = list(prompts)
    drawn = np.random.default_rng(seed).permutation(len(given))[:_MOST_PROMPTS].tolist()
    chosen, skipped = [given[at] for at in drawn], []
    for pair in pairs:
        encoded, others = encode(pair, chosen, 1, chat)
        chosen, skipped = [chosen[each.index] for each in encoded], [*skipped, *others]
    left_out = _left_out(skipped, len(drawn))
    expect_prompts(len(chosen), left_out)
    if left_out:
        tell(f"Note: {left_out}.")
    encoded = encode(pairs[0], chosen, LENGTHS[0], chat)[0]
    warn_of(look(pairs[0], encoded, skipped, getattr(prompts, "source", {}), chat or None))
    if isinstance(prompts, PromptSet):
        return PromptSet(prompts.name, tuple(chosen), prompts.source), encoded
    return chosen, encoded


def _left_out(skipped: Sequence[dict[str, Any]], of: int) -> str:
    """How many prompts are not used, and why."""
    kinds = Counter(str(each["kind"]) for each in skipped)
    why = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{len(skipped)} of {of} prompts left out: {why}" if skipped else ""


@contextlib.contextmanager
def _prompts_were_told() -> Iterator[None]:
    """Every step reads some of the prompts, and would warn of them again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="prompts, ")
        yield


def _settings(pairs: Sequence[Pair], encoded: Sequence[Encoded], **given: Any) -> dict[str, Any]:
    """What a diagnosis is bound to, in JSON's types."""
    import torch

    found = [facts(pair) for pair in pairs]
    return given | {
        "target": found[0]["target"],
        "drafts": [each["draft"] for each in found],
        "threads": torch.get_num_threads(),
        "prompts_sha256": digest(encoded),
    }


def _plan(
    pairs: Sequence[Pair], encoded: Sequence[Encoded], length: int | None, budget: float, begun: float, *, strict: bool
) -> Plan:
    speeds = [probe(pair, encoded, length or LENGTHS[0], budget / len(pairs)) for pair in pairs]
    speed = replace(speeds[0], drawn=max(each.drawn for each in speeds))
    spent = time.monotonic() - begun
    kind, found = reference(pairs[0]), len(encoded)
    return plan(speed, budget, found, len(pairs), length, spent=spent, reference=kind, strict=strict)


def _tuned(job: Job) -> tuple[dict[str, Tuned], dict[str, str], Job]:
    """Each draft on the tuning prompts; of those that failed the reason.  Raises where none is left."""
    if job.assisted:
        job.tell("Half precision: the texts that are recorded are those of runs with a draft, which round differently.")
    found: dict[str, Tuned] = {}
    failed: dict[str, str] = {}
    for number, (name, pair) in enumerate(zip(job.names, job.pairs, strict=True), start=1):
        which = f"Draft {number} of {len(job.pairs)}, {name}: " if len(job.pairs) > 1 else ""
        todo = f"{which}clocking {_calls(job.kept.plan)}, then recording {job.kept.plan.recorded} ..."
        job.tell(todo[0].upper() + todo[1:])
        try:
            found[name] = tune_draft(pair, job.prompts, job.out / f"draft-{number}", job.work)
        except (ValueError, RuntimeError) as error:
            if len(job.pairs) == 1:
                raise
            failed[name] = str(error)
        job = job.saved()
    if not found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise RuntimeError(f"no draft could be measured: {reasons}")
    return found, failed, job


def _calls(plan: Plan) -> str:
    times = "" if plan.repeats == 1 else f" {plan.repeats} times"
    return f"{plan.measured} prompts{times} (up to {plan.max_new_tokens} tokens, 5 ways each)"
