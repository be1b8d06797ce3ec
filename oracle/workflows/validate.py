"""Simulation against the real generator, from the models on: collect, measure, calibrate, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from analysis import belonging
from analysis.cost import CostModel
from analysis.measured.calibrate import FIT, Calibration, calibrate
from analysis.validation import validate as comparison
from analysis.validation.folds import cross_fit
from analysis.validation.validate import Budget, Validation, combine
from oracle.collect import collect
from oracle.measure import measure
from oracle.models.identity import facts
from oracle.models.pair import Pair
from oracle.policies import as_policy
from oracle.policies.library import what_runs
from oracle.prompts.chat import Chat, as_chat
from oracle.prompts.sets import PromptSet
from oracle.records.runs import Runs
from oracle.records.trace import Trace
from oracle.workflows.inputs import as_cost, as_runs, as_trace, several

Prompts = PromptSet | Iterable[str] | Iterable[Sequence[int]]
POLICIES = (
    "constant:tokens=2",
    "constant:tokens=5",
    "heuristic",
    "dynamic",
    "dynamic:threshold=0.6,tokens=10",
    "heuristic_transient:tokens=5,threshold=0.4",
)
# The same where tokens are looked up: the library has constant lengths there, the toolkit's own loop the others.
LOOKED_UP = ("constant:tokens=2", "constant:tokens=5", "constant:tokens=10", "constant:tokens=20")


@dataclass(frozen=True)
class Validated:
    """The comparison, and what it rests on, one entry for each of the runs."""

    validation: Validation
    traces: tuple[Trace, ...]
    runs: tuple[Runs, ...]
    calibrations: tuple[Calibration, ...]  # on all repeats, for use elsewhere; empty where prices were given
    folders: tuple[Path, ...] = ()  # of the runs, where they were measured now
    notes: tuple[str, ...] = ()  # whether traces, runs and prices belong together, as far as that is not known

    @property
    def passed(self) -> bool:
        """Whether the budget was kept, and that is sure."""
        return self.validation.passed

    @property
    def failed(self) -> bool:
        """Whether the budget was broken, and that is sure; what is neither is undecided."""
        return self.validation.verdict == comparison.FAIL


def validate(
    pair: Pair,
    prompts: Prompts | Sequence[PromptSet],
    policies: Sequence[str] = POLICIES,
    out: str | Path = "runs/validation",
    *,
    cost: CostModel | str | Path | None = None,
    budget: Budget | None = None,
    repeats: int = 5,
    max_new_tokens: int = 96,
    max_overrun: int = 32,
    chat: bool | Chat = False,
    resume: bool = False,
    force: bool = False,
    progress: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Validated:
    """Collect and measure ``pair`` on each set of ``prompts``, then compare simulated and measured speedups.

    Traces and runs go into folders of ``out``, so that ``resume`` goes on after an interruption and ``force`` begins
    anew.  Prices are fitted on drawn lookaheads that run beside the validated policies, unless ``cost`` is given: no
    machine is as fast in one hour as in the next; each half of the repeats is judged with prices of the other.  In half
    precision the trace holds the text of an assisted run.  ``tell`` is given a line before each long step.  Raises
    ValueError for arguments that make no sense (before anything runs), RuntimeError for a run that failed.
    """
    chosen, prices = to_validate(policies), None if cost is None else as_cost(cost)
    if prices is not None:
        sides = [belonging.Side("the pair", facts(pair)), *belonging.sides(cost=prices)]
        belonging.answer(sides).expect()
    sets = _sets(prompts)
    settings = {
        "max_new_tokens": max_new_tokens,
        "resume": resume,
        "force": force,
        "progress": progress,
    }
    # Every pass of a run with a draft reads several tokens, and half precision rounds by how many.
    reference = "plain" if pair.target.dtype.itemsize >= 4 else "assisted"
    traces, runs, folders = [], [], []
    for name, one in sets:
        if tell is not None:
            tell(f"{name}: collecting the trace, then measuring {repeats} repeats ...")
        trace, folder = Path(out) / f"trace-{name}", Path(out) / f"runs-{name}"
        collect(pair, one, trace, reference=reference, max_overrun=max_overrun, chat=chat, **settings)
        traces.append(Trace.load(trace))
        same = as_chat(chat)
        if same is not None:  # the prompts that were recorded: a template may have written the date into them
            same = same.settled(traces[-1].meta)
        runs.append(
            measure(pair, one, [*FIT, *chosen], folder, repeats=repeats, cost=prices, chat=same or False, **settings)
        )
        folders.append(folder)
    found = compare(traces, runs, prices, policies=chosen, budget=budget)
    return Validated(found.validation, found.traces, found.runs, found.calibrations, tuple(folders), found.notes)


def compare(
    traces: Trace | str | Path | Sequence[Trace | str | Path],
    runs: Runs | str | Path | Sequence[Runs | str | Path],
    cost: CostModel | str | Path | None = None,
    *,
    policies: Sequence[str] | None = None,
    budget: Budget | None = None,
) -> Validated:
    """Compare recorded runs with the simulation on the traces of the same prompts, one trace for each of the runs.

    Without ``cost`` prices are fitted for each of the runs on its own policies of drawn (or constant) lengths, and each
    half of its repeats is judged with prices fitted on the other half (``analysis.validation.folds``).  ``policies``
    default to all that ran and that the prices were not fitted on.
    """
    recorded, measured = several(traces), several(runs)
    if len(recorded) != len(measured):
        raise ValueError(f"{len(measured)} runs and {len(recorded)} traces: give one trace for each of the runs")
    loaded = tuple(as_trace(each) for each in recorded)
    ran = tuple(as_runs(each) for each in measured)
    given = None if cost is None else as_cost(cost)
    answers = [belonging.together(trace, [one], given).expect() for trace, one in zip(loaded, ran, strict=True)]
    fitted = tuple(calibrate(each) for each in ran) if given is None else ()
    prices = [given] * len(ran) if given is not None else list(map(cross_fit, ran))
    found = [
        comparison.validate(trace, one, price, policies=policies, budget=budget)
        for trace, one, price in zip(loaded, ran, prices, strict=True)
    ]
    notes = dict.fromkeys(note for each in answers for note in each.notes)
    return Validated(combine(found), loaded, ran, fitted, notes=tuple(notes))


def to_validate(policies: Sequence[str]) -> list[str]:
    """The policies.  Raises ValueError for one that is not known or that the prices are fitted on."""
    fitted = [what_runs(as_policy(policy)) for policy in FIT]
    for policy in policies:
        if what_runs(as_policy(policy)) in fitted:
            raise ValueError(f"policy {policy!r} is one that the prices are fitted on ({', '.join(FIT)}); name another")
    return list(policies)


def _sets(prompts: Prompts | Sequence[PromptSet]) -> list[tuple[str, Prompts]]:
    """Sets of prompts by their names, which name folders too."""
    given = several(prompts)
    sets = [each for each in given if isinstance(each, PromptSet)]
    if len(sets) < len(given) or not sets:  # texts or token ids, without a name
        return [("prompts", cast(Prompts, prompts))]
    names = [each.name.replace("/", "_") for each in sets]
    if len(set(names)) < len(names):
        raise ValueError(f"two sets of prompts have one name ({', '.join(names)}); validate them one by one")
    return list(zip(names, sets, strict=True))
