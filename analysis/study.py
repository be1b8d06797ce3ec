"""All that is computed of a trace before anything is said of it: `findings` for its verdict, `study` for its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from analysis.belonging import Answer, Common, together
from analysis.cost import DEFAULT_DRAFT, CostModel
from analysis.describe.signals import SignalQuality, signal_quality
from analysis.describe.statistics import Description, Sample, describe
from analysis.fit.distributions import Counts, Fit, GoodnessOfFit, best, fit, fit_all, goodness_of_fit
from analysis.intervals import ratio
from analysis.measured.speedups import Measured, summary
from analysis.replay.drafts import NotRecorded
from analysis.replay.oracles import OPTIMAL
from analysis.replay.result import SimulationResult
from analysis.replay.simulate import simulate, simulate_all, simulate_totals
from analysis.replay.sweep import LENGTHS, Sweep, sweep
from analysis.verdict import Gap, Verdict, verdict
from oracle.policies import Policy
from oracle.policies.names import by_name, recorded
from oracle.records.selection import parts
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

    description: Description
    signals: tuple[SignalQuality, ...]
    verdict: Verdict


@dataclass(frozen=True)
class Study:
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
    description: Description
    fits: tuple[Fit, ...]
    goodness: dict[str, GoodnessOfFit]  # of the geometric family and of the best one
    signals: tuple[SignalQuality, ...]
    verdict: Verdict

    @property
    def trace(self) -> Trace:
        return self.source.trace

    @property
    def draft_cost(self) -> float:
        """Price of a draft step over that of a one-token step of the target, at the trace's mean context length."""
        context = float(self.trace.context.mean())
        return (self.cost.draft + self.cost.draft_context * context) / float(self.cost.step(context))


def findings(trace: Trace, cost: CostModel = ASSUMED) -> Findings:
    """Describe ``trace``, judge its signals, and come to a verdict; what only a page shows is left out.

    Everything is taken in parts of the trace, so that little more memory is needed than for the trace itself.
    """
    description, signals = describe(trace), tuple(signal_quality(trace))
    counts = _counts(Sample.of(trace))
    geometric = fit(counts, IID)
    geometric_p = goodness_of_fit(counts, geometric).p if geometric.status != "no data" else float("nan")
    lengths = [f"constant:tokens={tokens}" for tokens in LENGTHS]
    # None of these carries anything from one prompt to the next, so that parts may be replayed one by one.
    seconds = np.concatenate([_seconds(part, [*lengths, OPTIMAL], cost) for part in parts(trace)], axis=1)
    plain, *constants, optimal = seconds
    whole = {name: each for name, each in zip(lengths, constants, strict=True) if not np.isnan(each).any()}
    gap = oracle_gap(whole, optimal, plain)
    return Findings(description, signals, verdict(description, geometric_p, gap, signals))


def _seconds(trace: Trace, policies: Sequence[str], cost: CostModel) -> np.ndarray:
    """Seconds of each prompt without a draft and under each of the policies, float [1 + policies, P].

    NaN under those that the record is too short for.
    """
    found = dict(simulate_totals(trace, policies, cost))
    known = {number: each for number, each in found.items() if not isinstance(each, NotRecorded)}
    unknown = np.full(trace.prompts, np.nan)
    plain = next(iter(known.values())).plain_seconds
    each = (known[number].prompt_seconds if number in known else unknown for number in range(len(policies)))
    return np.stack([plain, *each])


def _counts(sample: Sample) -> Counts:
    return Counts.from_samples(sample.accepted, sample.censored, sample.prompt)


def study(source: Source, name: str, policies: Sequence[str | Policy | Callable]) -> Study:
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
    description, signals, swept = describe(trace), tuple(signal_quality(trace)), sweep(trace, cost)
    optimal = next((result for result in results if result.policy == OPTIMAL), None)
    constants = {each.policy: each.prompt_seconds for each in swept.constants()}
    optimal = optimal or simulate(trace, OPTIMAL, cost)
    gap = oracle_gap(constants, optimal.prompt_seconds, optimal.plain_seconds)
    geometric_p = goodness[IID].p if fits else float("nan")
    return Study(
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
        description=description,
        fits=fits,
        goodness=goodness,
        signals=signals,
        verdict=verdict(description, geometric_p, gap, signals),
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


def replay_all(
    trace: Trace, policies: Mapping[str, str | Policy | Callable | None], cost: CostModel
) -> tuple[tuple[SimulationResult, ...], dict[str, str]]:
    """Results of ``policies`` (by name), and of those that cannot be replayed on this trace the reason.

    Raises ValueError for a policy that is not known.
    """
    known = {name: policy for name, policy in policies.items() if policy is not None}
    results = []
    left_out = {name: "it is a policy of your own; hand it over too" for name in policies if name not in known}
    for name, found in zip(known, simulate_all(trace, list(known.values()), cost), strict=True):
        if isinstance(found, NotRecorded):
            left_out[name] = str(found)
        else:
            results.append(found)
    return tuple(results), left_out


def oracle_gap(constants: Mapping[str, np.ndarray], oracle: np.ndarray, plain: np.ndarray) -> Gap:
    """What the optimal oracle gains over the best constant length for all, and what the best of each prompt would gain.

    Seconds of each prompt, float [P]: by constant policy, of the oracle, and of decoding without a draft.
    """
    fastest = min(constants, key=lambda policy: constants[policy].sum())
    best_of_each = np.min(list(constants.values()), axis=0)
    return Gap(
        constant=fastest,
        constant_speedup=ratio(plain, constants[fastest]),
        oracle=OPTIMAL,
        oracle_speedup=ratio(plain, oracle),
        gain=ratio(constants[fastest], oracle),
        per_prompt=ratio(constants[fastest], best_of_each),
    )


def unique_names(sources: Sequence[Source]) -> list[str]:
    """A name for each source; equal ones are numbered."""
    names = [source.name or source.trace.dataset for source in sources]
    unique = []
    for number, name in enumerate(names):
        again = names.count(name) > 1
        unique.append(f"{name} ({names[: number + 1].count(name)})" if again else name)
    return unique
