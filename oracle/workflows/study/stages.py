"""The stages of a cell, in order: each leaves a record in the cell's folder, and says its numbers in JSON's types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.cost import CostModel
from analysis.examine import Source
from analysis.measured.calibrate import calibrate
from analysis.measured.speedups import measured
from analysis.replay.simulate import USUAL, replay_all, simulate
from analysis.tables.speedups import simulated, with_prompts
from analysis.tune import tune
from analysis.verdict import NO_DRAFT
from oracle.collect import collect
from oracle.measure import measure
from oracle.models.identity import name_of
from oracle.models.pair import Pair
from oracle.prompts.chat import Chat
from oracle.prompts.sets import PromptSet
from oracle.records.runs import Runs
from oracle.records.trace import Trace
from oracle.workflows.diagnose.stages import DRAWN, reference
from oracle.workflows.questions import report
from oracle.workflows.study.kept import as_json
from oracle.workflows.study.prompts import cut, task_prompts
from oracle.workflows.study.recipe import Cell


@dataclass(frozen=True)
class Work:
    """A cell to be worked on.  ``pair`` loads the models when it is first asked for them."""

    cell: Cell
    folder: Path
    pair: Callable[[], Pair]
    progress: bool

    @property
    def trace(self) -> Trace:
        return Trace.load(self.folder / "trace")

    @property
    def runs(self) -> Runs:
        return Runs.load(self.folder / "runs")

    @property
    def cost(self) -> CostModel:
        return CostModel.load(self.folder / "cost.json")

    @functools.cached_property
    def prompts(self) -> PromptSet:
        """As the models read them; the data set comes first: models are not loaded for one that is not to be had."""
        found = task_prompts(self.cell.task)
        return cut(self.pair(), found, self.cell.task.max_prompt_tokens)

    @property
    def options(self) -> dict[str, Any]:
        """For `collect` and `measure`: the folder is held by this run, so what is there is gone on with."""
        return {"max_new_tokens": self.cell.task.max_new_tokens, "resume": True, "progress": self.progress}


def collected(work: Work) -> dict[str, Any]:
    """Record the prompts."""
    prompts, pair = work.prompts, work.pair()
    options = work.options | {"reference": reference(pair), "max_overrun": work.cell.max_overrun}
    collect(pair, prompts, work.folder / "trace", chat=work.cell.task.chat, **options)
    trace = work.trace
    return {
        "prompts": trace.prompts,
        "tokens": trace.tokens,
        "target": name_of(pair.target),
        "draft": name_of(pair.draft),
        "left_out": len(trace.meta.get("skipped") or ()),
    }


def clocked(work: Work) -> dict[str, Any]:
    """Clock the first of the prompts that were recorded: no draft, the policies, and what prices are fitted on."""
    trace, policies = work.trace, work.cell.policies
    kept = set(trace.ids[: work.cell.clocked])
    chosen = tuple(each for each in work.prompts if each.id in kept)
    prompts = PromptSet(work.prompts.name, chosen, work.prompts.source)
    # A template may have written the date into the prompts that were recorded.
    chat = Chat().settled(trace.meta) if work.cell.task.chat else False
    options = work.options | {"repeats": work.cell.repeats, "chat": chat}
    runs = measure(work.pair(), prompts, [*policies, *DRAWN], work.folder / "runs", **options)
    found = {policy: measured(runs, policy) for policy in policies}
    return {
        "prompts": len(chosen),
        "measured": {policy: as_json(each.total) for policy, each in found.items()},
        "different_texts": {policy: each.different_texts for policy, each in found.items()},
        "machine": runs.meta.get("machine"),
    }


def priced(work: Work) -> dict[str, Any]:
    """Fit prices to what drew its lengths."""
    found = calibrate(work.runs, DRAWN)
    found.cost.save(work.folder / "cost.json")
    return {"calls": found.calls, "disturbed": found.disturbed}


def replayed(work: Work) -> dict[str, Any]:
    """Replay the policies over everything that was recorded."""
    results, left_out = replay_all(work.trace, {policy: policy for policy in work.cell.policies}, work.cost)
    return {"simulated": {each.policy: as_json(simulated(each)) for each in results}, "left_out": left_out}


def tuned(work: Work) -> dict[str, Any]:
    """Choose a constant and a policy, each judged on prompts that had no part in the choice."""
    trace, cost = work.trace, work.cost
    found = tune(trace, cost)
    assert found.held is not None  # `tune` sets it
    whole = with_prompts(simulate(trace, found.constant, cost))  # every draft reads the prompts alike
    speedup = found.speedup if found.policy == NO_DRAFT else found.speedup.map(whole)
    return {
        "constant": found.constant,
        "constant_speedup": as_json(found.held.constant_speedup.map(whole)),
        "policy": found.policy,
        "speedup": as_json(speedup),
        "over_constant": as_json(found.over_constant),
        "tried": found.tried,
        "sentences": list(found.sentences),
    }


def reported(work: Work) -> dict[str, Any]:
    """A page about the cell."""
    runs, tokenizer = work.runs, work.pair().tokenizer
    decode = None if tokenizer is None else lambda ids: [str(tokenizer.decode([each])) for each in ids]
    shown = replace(runs, calls=tuple(call for call in runs.calls if call.policy not in DRAWN))
    source = Source(work.trace, name=work.cell.name, cost=work.cost, runs=shown, decode=decode)
    report(source, work.folder / "report.html", policies=list(dict.fromkeys([*work.cell.policies, *USUAL])))
    return {}


STAGES: dict[str, Callable[[Work], dict[str, Any]]] = {
    "collect": collected,
    "measure": clocked,
    "calibrate": priced,
    "simulate": replayed,
    "tune": tuned,
    "report": reported,
}
