"""All that is computed of a trace before anything is said of it: `findings` for its verdict, `examine` for its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.belonging import Answer, Common, together
from analysis.cost import CostModel, assumed
from analysis.describe.signals import SignalQuality, signal_quality
from analysis.describe.statistics import Description, Sample, describe
from analysis.diagnosis.found import Found, settled
from analysis.fit.distributions import Counts, Fit, GoodnessOfFit, fit_all, goodness_of_fit
from analysis.gains.heldout import HeldOut, best_held_out
from analysis.gains.loss import loss
from analysis.gains.split import gains
from analysis.independence import iid_test
from analysis.ladder.ladder import Ladder, ladder
from analysis.measured.speedups import Measured, summary
from analysis.replay.oracles import OPTIMAL
from analysis.replay.result import SimulationResult, Totals
from analysis.replay.simulate import replay_all, simulate
from analysis.replay.sweep import sweep
from analysis.tune.result import Tuned
from analysis.tune.tuning import tune
from analysis.verdict import NO_DRAFT, Evidence, Verdict, advised, verdict
from oracle.policies import Policy
from oracle.policies.names import by_name, recorded
from oracle.records.trace import Trace

if TYPE_CHECKING:
    from oracle.records.runs import Runs

DRAWS = 200  # of each family's goodness-of-fit test
STEPS = (
    "replaying policies",
    "tuning",
    "fitting and testing distributions",
    "coming to a verdict",
    "climbing the ladder",
)
Decode = Callable[[list[int]], list[str]]  # token ids -> one string for each of them


@dataclass(frozen=True)
class Source:
    """A trace and what belongs to it.

    ``name``: what the report calls it (default: its data set).  ``cost``: prices on the user's machine (default: a
    draft step of a tenth of a target step, of nothing for a lookup; the report says where prices were not measured).
    ``runs``: measured runs of the same pair and prompts.  ``decode``: one string for each of a list of token ids;
    without it the report shows numbers.  ``diagnosis``: what was measured of what the trace speaks for, which the
    report then opens with.
    """

    trace: Trace
    name: str | None = None
    cost: CostModel | None = None
    runs: Runs | None = None
    decode: Decode | None = field(default=None, compare=False)
    diagnosis: Found | None = field(default=None, compare=False)

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
    tuned: Tuned
    constant: SimulationResult  # the best constant lookahead on all prompts
    best: SimulationResult  # what is advised; where that is no draft, the fastest setting that was tried
    fits: tuple[Fit, ...]
    goodness: dict[str, GoodnessOfFit]  # by family
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
    def advice(self) -> str:
        """The policy to use, by the measured check where there is one; `NO_DRAFT`: the target alone."""
        return _advice(self.source, self.tuned)

    @property
    def shown(self) -> tuple[SimulationResult, ...]:
        """`results`, and before them `best` unless it is one of them in another spelling."""
        others = {canonical(result.policy) for result in self.results}
        return self.results if canonical(self.best.policy) in others else (self.best, *self.results)

    @property
    def trace(self) -> Trace:
        return self.source.trace

    @property
    def draft_cost(self) -> float:
        """Price of a draft step over that of a one-token step of the target, at the trace's mean context length."""
        context = float(self.trace.context.mean())
        return (self.cost.draft + self.cost.draft_context * context) / float(self.cost.step(context))


def findings(trace: Trace, cost: CostModel | None = None) -> Findings:
    """Describe ``trace``, sweep the library's policies over it, judge its signals, and come to a verdict.

    ``cost``: by default a draft step of 0.1, of 0 for a lookup.  Nothing that is derived of the trace stays with it.
    """
    cost = assumed(trace) if cost is None else cost
    copy = dataclasses.replace(trace)  # what is derived of a trace lives as long as it does
    swept = sweep(copy, cost)
    held = best_held_out(swept.constants(), swept.results)
    return _findings(copy, cost, held, swept.results[0].policy, _oracle(copy, cost))


def _findings(trace: Trace, cost: CostModel, held: HeldOut, fastest: str, oracle: Totals) -> Findings:
    evidence = Evidence(
        description=describe(trace),
        iid=iid_test(trace),
        gains=gains(trace, cost),
        held_out=held,
        oracle_speedup=oracle.speedup_estimate(),
        loss=loss(trace, fastest, cost) if advised(held) == NO_DRAFT else None,
        signals=tuple(signal_quality(trace)),
    )
    return Findings(evidence, verdict(evidence))


def _oracle(trace: Trace, cost: CostModel) -> Totals:
    return simulate(trace, OPTIMAL, cost).totals


def _counts(sample: Sample) -> Counts:
    return Counts.from_samples(sample.accepted, sample.censored, sample.prompt)


def examine(
    source: Source, name: str, policies: Sequence[str | Policy | Callable], tell: Callable[[str], None] | None = None
) -> Examined:
    """Simulate ``policies``, tune the library's, describe, fit, and come to a verdict.

    ``tell`` is given each of `STEPS` as it begins.  Raises ValueError where the trace, the runs and the prices are
    known not to belong together, RuntimeError where the record is too short for every constant lookahead.
    """
    steps, say = iter(STEPS), tell or (lambda step: None)
    say(next(steps))
    trace, cost, belonging = source.trace, source.cost or assumed(source.trace), source.together()
    given = by_name(policies)
    common = belonging.common
    runs = _of_prompts(source.runs, common) if source.runs is not None and common is not None else None
    listed, measured = with_measured(list(given), runs)
    rules = {policy: given.get(policy, _from_record(policy)) for policy in listed}
    results, left_out = replay_all(trace, rules, cost)
    say(next(steps))
    tuned = tune(trace, cost)
    constant, best = simulate(trace, tuned.constant, cost), _best(source, tuned, results, cost)
    say(next(steps))
    counts = _counts(Sample.of(trace))
    fits = tuple(fit_all(counts))
    goodness = {each.family: goodness_of_fit(counts, each, DRAWS) for each in fits}
    say(next(steps))
    optimal = next((result for result in results if result.policy == OPTIMAL), None)
    assert tuned.held is not None
    found = _findings(trace, cost, tuned.held, tuned.settings[0].policy, optimal or _oracle(trace, cost))
    say(next(steps))
    return Examined(
        name=name,
        source=source,
        cost=cost,
        results=results,
        left_out=left_out,
        measured=measured,
        common=common,
        beside=_beside(trace, common, rules, [*results, best], cost),
        notes=belonging.notes,
        tuned=tuned,
        constant=constant,
        best=best,
        fits=fits,
        goodness=goodness,
        findings=found,
        ladder=ladder(trace, cost),
    )


def _advice(source: Source, tuned: Tuned) -> str:
    return tuned.policy if source.diagnosis is None else settled(source.diagnosis)


def _best(source: Source, tuned: Tuned, results: Sequence[SimulationResult], cost: CostModel) -> SimulationResult:
    """The advised setting on all prompts, taken from ``results`` where it is one of them."""
    advice = _advice(source, tuned)
    policy = tuned.settings[0].policy if advice == NO_DRAFT else advice
    same = (result for result in results if canonical(result.policy) == canonical(policy))
    return next(same, None) or simulate(source.trace, policy, cost)


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
