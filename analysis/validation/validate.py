"""How far simulation and reality are apart, and why: iteration by iteration, and second by second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.belonging import together
from analysis.cost import CostModel
from analysis.intervals import Estimate, ratio
from analysis.measured.disturbances import disturbed
from analysis.measured.divergences import Divergence, divergences
from analysis.measured.speedups import by_repeat, paired, speedup
from analysis.replay.drafts import NotRecorded
from analysis.replay.result import SimulationResult
from analysis.replay.simulate import simulate
from analysis.validation.differences import Difference, first_difference, same_rows
from analysis.validation.error_parts import split
from analysis.validation.matching import complete, match
from oracle.policies import Policy, as_policy
from oracle.policies.counting import Plain
from oracle.policies.library import what_runs
from oracle.policies.names import by_name, recorded
from oracle.records.runs import PLAIN, Runs
from oracle.records.spread import standard_deviation
from oracle.records.trace import Trace
from oracle.records.typed import MOST_PRICE, Price, check


@dataclass(frozen=True)
class Budget:
    """What a validation must keep to; errors are |simulated / measured - 1| of the decoding speedup."""

    counts: float = 1.0  # share of identical iterations, asked for in float32 only
    median: float = 0.03
    worst: float = 0.08

    def __post_init__(self) -> None:
        for name, most in (("counts", 1), ("median", MOST_PRICE), ("worst", MOST_PRICE)):
            value = check(Price, getattr(self, name), f"budget {name}")
            if value > most or (value == 0 and name != "counts"):
                raise ValueError(f"budget {name} is {value}; it must be {'at most 1' if value > most else 'above 0'}")


@dataclass(frozen=True)
class Row:
    """One policy on one data set.  Speedups are of decoding alone, and in total with the reading of the prompt."""

    policy: str
    dataset: str
    generator: str  # "library" or "loop"
    dtype: str
    prompts: int
    iterations: int  # measured, all repeats
    identical: float  # share of them whose (drafted, accepted) the replay has too
    difference: Difference | None  # the first one
    different_texts: int  # prompts whose measured text is not the trace's
    divergences: tuple[Divergence, ...]  # one a prompt whose measured text is not plain decoding's
    simulated: Estimate
    measured: Estimate
    spread: float  # standard deviation of the measured speedup between repeats, over its value; nan for one repeat
    simulated_total: Estimate
    measured_total: Estimate
    error: Estimate  # simulated / measured - 1, decoding alone
    parts: dict[str, Estimate]  # the error, split; adds up to it.  See ``analysis.validation.error_parts``
    comparable: bool  # the cost model was fitted on the generator that this policy ran in
    outside: str | None  # how far this policy leaves what the cost model was measured on

    @property
    def total_error(self) -> float:
        return self.simulated_total.value / self.measured_total.value - 1


@dataclass(frozen=True)
class Validation:
    """Rows of one or several data sets, and the verdict on them."""

    rows: tuple[Row, ...]
    budget: Budget = Budget()
    not_replayed: tuple[str, ...] = ()  # policies that ran and cannot be replayed from the trace, and why

    @property
    def errors(self) -> np.ndarray:
        """|error| of the rows whose seconds can be compared, float [rows]."""
        return np.array([abs(row.error.value) for row in self.rows if row.comparable])

    @property
    def failures(self) -> list[str]:
        """What breaks the budget, in words; empty when it is kept."""
        found = list(self.not_replayed)
        for row in self.rows:
            place = f"{row.policy} on {row.dataset}"
            if row.dtype == "float32" and row.identical < self.budget.counts:
                found.append(
                    f"{place}: {row.identical:.2%} of the iterations are identical, {self.budget.counts:.0%} wanted"
                )
            if faults := [each for each in row.divergences if not each.near_tie]:
                found.append(
                    f"{place}: the text of prompt {faults[0].prompt} leaves plain decoding's at token "
                    f"{faults[0].token}, where the target's lead is {faults[0].margin:.2g} logits: no rounding, a fault"
                )
        if not len(self.errors):
            return [*found, "no policy's seconds could be compared"]
        if not np.median(self.errors) <= self.budget.median:  # written so that nan fails
            found.append(
                f"the median error of the speedups is {np.median(self.errors):.1%}, "
                f"at most {self.budget.median:.0%} wanted"
            )
        if not self.errors.max() <= self.budget.worst:
            worst = max((row for row in self.rows if row.comparable), key=lambda row: abs(row.error.value))
            place = f"{worst.policy} on {worst.dataset}"
            found.append(
                f"the worst error is {worst.error.value:+.1%} ({place}), at most {self.budget.worst:.0%} wanted"
            )
        return found

    @property
    def passed(self) -> bool:
        return not self.failures


def validate(
    trace: Trace,
    runs: Runs,
    cost: CostModel,
    *,
    policies: Sequence[str | Policy | Callable] | None = None,
    dataset: str | None = None,
    budget: Budget | None = None,
) -> Validation:
    """Compare simulation with measured runs of the same prompts.

    ``policies`` default to all that ran and that ``cost`` was not fitted on.  One that cannot be replayed from this
    trace is a failure of the verdict, not an error.  Raises ValueError where trace, runs and prices are known to be of
    different models, prompts or limits, and for a policy that the cost model was fitted on: that would prove nothing.
    """
    together(trace, [runs], cost).expect()
    fitted = {what_runs(as_policy(policy)) for policy in cost.machine.get("fitted_on", ())}
    ran = [policy for policy in runs.policies if policy != PLAIN]
    if policies is None:
        chosen = {policy: recorded(policy) for policy in ran}
        chosen = {policy: rule for policy, rule in chosen.items() if rule is None or what_runs(rule) not in fitted}
    else:
        chosen = {name: as_policy(policy) for name, policy in by_name(policies).items()}
    for policy, rule in chosen.items():
        if type(rule) is Plain:
            raise ValueError(f"policy {policy!r} is what the others are compared with; name one that drafts")
        if rule is not None and what_runs(rule) in fitted:
            raise ValueError(f"policy {policy!r}: the cost model was fitted on it, so it cannot be validated with it")
    if not chosen:
        raise ValueError(f"nothing to validate: the cost model was fitted on every policy that ran ({', '.join(ran)})")
    name = dataset or trace.dataset
    rows, left, out = [], [], disturbed(runs)
    for policy, rule in chosen.items():
        if rule is None:
            left.append(f"{policy} on {name} cannot be replayed: it is a policy of your own; hand it over by name")
            continue
        try:
            rows.append(_row(trace, runs, cost, (policy, rule), name, out))
        except NotRecorded as reason:
            left.append(f"{policy} on {name} cannot be replayed: {reason}")
    return Validation(tuple(rows), budget or Budget(), tuple(left))


def combine(validations: Sequence[Validation]) -> Validation:
    """One verdict over several data sets, under the budget of the first."""
    rows, left = ([each for one in validations for each in getattr(one, name)] for name in ("rows", "not_replayed"))
    return Validation(tuple(rows), validations[0].budget, tuple(left))


def _row(
    trace: Trace,
    runs: Runs,
    cost: CostModel,
    named: tuple[str, Policy],
    dataset: str,
    out: Collection[tuple[str, int, int]],
) -> Row:
    """One policy by its name in the runs; calls with a key in ``out`` were disturbed."""
    policy, rule = named
    calls, plain = complete(runs, policy)
    matched = match(trace, [group[0] for group in calls])
    # What the policy was handed in the runs, not what they are priced with, decides what it drafts.
    result = simulate(matched, rule, cost, told=cost if "prices" in runs.meta else None)
    flat = [(prompt, call) for prompt, group in enumerate(calls) for call in group]
    replayed = [
        np.stack(
            [column[result.prompt == prompt] for column in (result.position, result.drafted, result.accepted)], axis=1
        )
        for prompt in range(matched.prompts)
    ]
    same, total = np.sum([same_rows(replayed[prompt], call) for prompt, call in flat], axis=0)
    texts = [matched.target_tokens[a:b] for a, b in zip(matched.offsets[:-1], matched.offsets[1:], strict=True)]
    dtype = str(runs.meta.get("machine", {}).get("dtype", "unknown"))
    # A plain text of one token that a run with a draft does not share has no step to compare with.
    timed = [
        number
        for number, (group, base) in enumerate(zip(calls, plain, strict=True))
        if len(base[0].tokens) > 1 or np.array_equal(base[0].tokens, group[0].tokens)
    ]
    without, with_draft = _simulated(matched, result, cost)
    seconds = without[timed], with_draft[timed]
    read_both, read = result.prefill_seconds.T
    whole = (result.plain_seconds + read)[timed], (result.prompt_seconds + read_both)[timed]
    clocked = paired(runs, policy, decoding=True, prompts=timed)
    error, parts = split(seconds, clocked, [calls[at] for at in timed], [plain[at] for at in timed], cost, out)
    measured = speedup(clocked)
    return Row(
        policy=policy,
        dataset=dataset,
        generator=calls[0][0].generator,
        dtype=dtype,
        prompts=len(calls),
        iterations=int(total),
        identical=float(same / total),
        difference=first_difference(matched, replayed, flat, dtype),
        different_texts=len({prompt for prompt, call in flat if not np.array_equal(call.tokens, texts[prompt])}),
        divergences=tuple(divergences((call for _, call in flat), dtype)),
        simulated=ratio(seconds[0], seconds[1]),
        measured=measured,
        spread=standard_deviation(by_repeat(clocked)) / measured.value,
        simulated_total=ratio(whole[0], whole[1]),
        measured_total=speedup(paired(runs, policy, decoding=False, prompts=timed)),
        error=error,
        parts=parts,
        comparable=calls[0][0].generator == cost.machine.get("generator", "library"),
        outside=cost.outside_range(result.drafted, matched.context[matched.offsets[result.prompt] + result.position]),
    )


def _simulated(trace: Trace, result: SimulationResult, cost: CostModel) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of decoding each prompt without and with the policy, float [P] each.

    Counted as ``analysis.measured.speedups`` counts the measured ones: from the end of the first iteration on.
    """
    later = result.position > 0
    size = trace.prompts
    assisted = np.bincount(result.prompt[later], weights=result.seconds[later], minlength=size)
    first = result.accepted[~later] + 1  # tokens of each prompt's first iteration
    local = np.arange(trace.tokens) - trace.offsets[trace.prompt_of]
    rest = local >= first[trace.prompt_of]
    step = cost.step(trace.context)
    return np.bincount(trace.prompt_of[rest], weights=step[rest], minlength=size), assisted
