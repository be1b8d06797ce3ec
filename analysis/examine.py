"""All that is computed of a trace before anything is said of it: `findings` for its verdict, `examine` for its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.belonging import Answer, Common, together
from analysis.cost import DEFAULT_DRAFT, CostModel
from analysis.describe.signals import SignalQuality, signal_quality
from analysis.describe.statistics import Description, Sample, describe
from analysis.fit.distributions import Counts, Fit, GoodnessOfFit, best, fit_all, goodness_of_fit
from analysis.gains.heldout import best_held_out
from analysis.gains.loss import loss
from analysis.gains.split import gains
from analysis.independence import iid_test
from analysis.ladder.ladder import Ladder, ladder
from analysis.measured.speedups import Measured, summary
from analysis.replay.oracles import OPTIMAL
from analysis.replay.result import SimulationResult, Totals
from analysis.replay.simulate import replay_all, simulate
from analysis.replay.sweep import Sweep, sweep
from analysis.verdict import NO_DRAFT, Evidence, Verdict, advised, verdict
from oracle.policies import Policy
from oracle.policies.names import by_name, recorded
from oracle.records.trace import Trace

if TYPE_CHECKING:
    from oracle.records.runs import Runs

ASSUMED = CostModel(draft=DEFAULT_DRAFT)
IID = "geometric"
Decode = Callable[[list[int]], list[str]]  # token ids -> one string for each of them


@dataclass(frozen=True)
class Source:
    """A trace and what belongs to it.

    ``name``: what the report calls it (default: its data set).  ``cost``: prices on the user's machine (default: a
    draft step of a tenth of a target step; the report says where prices were not measured).  ``runs``: measured runs of
    the same pair and prompts.  ``decode``: one string for each of a list of token ids; without it the report shows
    numbers.
    """

    trace: Trace
    name: str | None = None
    cost: CostModel | None = None
    runs: Runs | None = None
    decode: Decode | None = field(default=None, compare=False)

    def together(self) -> Answer:
        """Whether trace, runs and prices belong together.  Raises ValueError where they are known not to."""
        return together(self.trace, [] if self.runs is None else [self.runs], self.cost).expect()


@dataclass(frozen=True)
class Findings:
    """What the numbers say of a trace, and the numbers."""

    evidence: Evidence
    verdict: Verdict

    @property
    def description(self) -> Description:
        return self.evidence.description

    @property
    def signals(self) -> tuple[SignalQuality, ...]:
        return tuple(self.evidence.signals)


@dataclass(frozen=True)
class Examined:
    """Everything about one trace that the page shows."""

    name: str
    source: Source
    cost: CostModel
    results: tuple[SimulationResult, ...]
    left_out: dict[str, str]  # policies that cannot be replayed on this trace, and why
    measured: dict[str, Measured]  # by policy, in the results' spelling, on the common prompts; empty without runs
    common: Common | None  # the prompts that trace and runs share; None without runs
    beside: dict[str, SimulationResult]  # by policy, on the common prompts: what stands beside ``measured``
    notes: tuple[str, ...]  # whether trace, runs and prices belong together, as far as that is not known
    sweep: Sweep
    fits: tuple[Fit, ...]
    goodness: dict[str, GoodnessOfFit]  # of the geometric family and of the best one
    findings: Findings
    ladder: Ladder

    @property
    def description(self) -> Description:
        return self.findings.description

    @property
    def signals(self) -> tuple[SignalQuality, ...]:
        return self.findings.signals

    @property
    def verdict(self) -> Verdict:
        return self.findings.verdict

    @property
    def trace(self) -> Trace:
        return self.source.trace

    @property
    def draft_cost(self) -> float:
        """Price of a draft step over that of a one-token step of the target, at the trace's mean context length."""
        context = float(self.trace.context.mean())
        return (self.cost.draft + self.cost.draft_context * context) / float(self.cost.step(context))


def findings(trace: Trace, cost: CostModel = ASSUMED) -> Findings:
    """Describe ``trace``, sweep the library's policies over it, judge its signals, and come to a verdict.

    Nothing that is derived of the trace stays with it.
    """
    copy = dataclasses.replace(trace)  # what is derived of a trace lives as long as it does
    return _findings(copy, cost, sweep(copy, cost), _oracle(copy, cost))


def _findings(trace: Trace, cost: CostModel, swept: Sweep, oracle: Totals) -> Findings:
    held = best_held_out(swept.constants(), swept.results)
    evidence = Evidence(
        description=describe(trace),
        iid=iid_test(trace),
        gains=gains(trace, cost),
        held_out=held,
        oracle_speedup=oracle.speedup_estimate(),
        loss=loss(trace, swept.results[0].policy, cost) if advised(held) == NO_DRAFT else None,
        signals=tuple(signal_quality(trace)),
    )
    return Findings(evidence, verdict(evidence))


def _oracle(trace: Trace, cost: CostModel) -> Totals:
    return simulate(trace, OPTIMAL, cost).totals


def _counts(sample: Sample) -> Counts:
    return Counts.from_samples(sample.accepted, sample.censored, sample.prompt)


def examine(source: Source, name: str, policies: Sequence[str | Policy | Callable]) -> Examined:
    """Simulate ``policies``, sweep the library's, describe, fit, and come to a verdict.

    Raises ValueError where the trace, the runs and the prices are known not to belong together.
    """
    trace, cost, belonging = source.trace, source.cost or ASSUMED, source.together()
    given = by_name(policies)
    common = belonging.common
    runs = _of_prompts(source.runs, common) if source.runs is not None and common is not None else None
    listed, measured = with_measured(list(given), runs)
    rules = {policy: given.get(policy, _from_record(policy)) for policy in listed}
    results, left_out = replay_all(trace, rules, cost)
    counts = _counts(Sample.of(trace))
    fits = tuple(fit_all(counts))
    # Each test refits its family hundreds of times: the i.i.d. model and the winner are the ones that matter here.
    tested = [each for each in fits if each.family == IID or each is best(fits)]
    goodness = {each.family: goodness_of_fit(counts, each) for each in tested}
    swept = sweep(trace, cost)
    optimal = next((result for result in results if result.policy == OPTIMAL), None)
    return Examined(
        name=name,
        source=source,
        cost=cost,
        results=results,
        left_out=left_out,
        measured=measured,
        common=common,
        beside=_beside(trace, common, rules, [*results, swept.best], cost),
        notes=belonging.notes,
        sweep=swept,
        fits=fits,
        goodness=goodness,
        findings=_findings(trace, cost, swept, optimal or _oracle(trace, cost)),
        ladder=ladder(trace, cost),
    )


def _of_prompts(runs: Runs, common: Common) -> Runs:
    """The calls on the common prompts.  Raises ValueError where no prompt is finished."""
    if not common.ids:
        raise ValueError(
            "no prompt of the trace is finished by every policy in every repeat of the runs; `oracle measure --resume` "
            "goes on"
        )
    kept = set(common.ids)
    return dataclasses.replace(runs, calls=tuple(call for call in runs.calls if call.id in kept))


def _beside(
    trace: Trace,
    common: Common | None,
    rules: Mapping[str, str | Policy | Callable | None],
    results: Sequence[SimulationResult],
    cost: CostModel,
) -> dict[str, SimulationResult]:
    """The results on the common prompts alone: the same ones where that is the whole trace."""
    if common is None or not common.some:
        return {result.policy: result for result in results}
    again = {result.policy: rules.get(result.policy, result.policy) for result in results}
    return {result.policy: result for result in replay_all(trace.select(common.ids), again, cost)[0]}


def with_measured(policies: Sequence[str], runs: Runs | None) -> tuple[list[str], dict[str, Measured]]:
    """The policies and those that only ``runs`` have, and the measured ones by their text in that list.

    One policy may be written in several ways (``dynamic``, ``dynamic:threshold=0.4``): the text in ``policies`` counts.
    """
    listed = [policy.strip() for policy in policies]
    text_of = {canonical(policy): policy for policy in listed}
    measured = {}
    for each in summary(runs) if runs is not None else ():
        text = text_of.setdefault(canonical(each.policy), each.policy)
        measured[text] = each
        if text not in listed:
            listed.append(text)
    return listed, measured


def canonical(policy: str) -> str:
    """One text for all ways of writing a policy; one of a user's own keeps its text."""
    rule = recorded(policy)
    return policy if rule is None else str(rule)


def _from_record(policy: str) -> str | None:
    """The policy of some runs, unless it is one of a user's own: its text is not enough to bring that back."""
    return None if recorded(policy) is None else policy


def unique_names(sources: Sequence[Source]) -> list[str]:
    """A name for each source; equal ones are numbered."""
    names = [source.name or source.trace.dataset for source in sources]
    unique = []
    for number, name in enumerate(names):
        again = names.count(name) > 1
        unique.append(f"{name} ({names[: number + 1].count(name)})" if again else name)
    return unique
