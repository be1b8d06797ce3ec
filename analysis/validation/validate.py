"""How far simulation and reality are apart, and why: iteration by iteration, and second by second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.belonging import together
from analysis.cost import CostModel
from analysis.intervals import Estimate, ends, ratio
from analysis.measured.disturbances import disturbed
from analysis.measured.divergences import Divergence, divergences
from analysis.measured.speedups import by_repeat, paired, speedup
from analysis.price_errors import PriceErrors, Tally
from analysis.replay.drafts import NotRecorded
from analysis.replay.result import SimulationResult
from analysis.replay.simulate import simulate
from analysis.validation.differences import Difference, first_difference, same_rows
from analysis.validation.error_parts import Judged, split
from analysis.validation.folds import Fold
from analysis.validation.matching import complete, match
from oracle.policies import Policy, as_policy
from oracle.policies.counting import Plain
from oracle.policies.library import what_runs
from oracle.policies.names import by_name, recorded
from oracle.records.runs import PLAIN, Call, Runs
from oracle.records.shown import Shown
from oracle.records.spread import standard_deviation
from oracle.records.trace import Trace
from oracle.records.typed import MOST_PRICE, Price, check

if TYPE_CHECKING:
    import pandas as pd

PASS, FAIL, UNDECIDED = "pass", "fail", "undecided"


@dataclass(frozen=True)
class Budget:
    """What a validation must keep to; errors are |simulated / measured - 1| of the decoding speedup.

    An error keeps to it where its whole 95 % interval does, and breaks it where no part does (equivalence tests:
    Schuirmann 1987); else it is undecided.
    """

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
    floor: float  # how large an error a perfect simulator would show here, 19 times in 20; nan for a single prompt
    fitted: str  # what the prices were fitted on: "other repeats", "other prompts", or "given" ones
    parts: dict[str, Estimate]  # the error, split; adds up to it.  See ``analysis.validation.error_parts``
    comparable: bool  # the cost model was fitted on the generator that this policy ran in
    outside: str | None  # how far this policy leaves what the cost model was measured on

    def verdict(self, budget: Budget) -> str | None:
        """`PASS`, `FAIL` or `UNDECIDED` of the error under the budget for the worst; None where it is not judged."""
        if not self.comparable:
            return None
        least, most = _sizes(self.error)
        return PASS if most <= budget.worst else FAIL if least > budget.worst else UNDECIDED

    @property
    def total_error(self) -> float:
        return self.simulated_total.value / self.measured_total.value - 1


@dataclass(frozen=True, repr=False)
class Validation(Shown):
    """Rows of one or several data sets, and the verdict on them."""

    rows: tuple[Row, ...]
    budget: Budget = Budget()
    not_replayed: tuple[str, ...] = ()  # policies that ran and cannot be replayed from the trace, and why

    def in_short(self) -> str:
        return f"{self.verdict}: {len(self.rows)} rows, errors {', '.join(f'{each:.1%}' for each in self.errors)}"

    def to_frame(self) -> pd.DataFrame:
        """One row a policy and data set: speedups simulated and measured, and how far they are apart."""
        import pandas as pd

        rows = [
            {
                "dataset": each.dataset,
                "policy": each.policy,
                "identical": each.identical,
                **ends("simulated", each.simulated),
                **ends("measured", each.measured),
                **ends("error", each.error),
                "verdict": each.verdict(self.budget),
            }
            for each in self.rows
        ]
        return pd.DataFrame(rows)

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
        least, _, median = self._median
        if least > self.budget.median:
            found.append(f"{median}, at most {self.budget.median:.0%} wanted")
        for row in self._judged:
            if row.verdict(self.budget) == FAIL:
                found.append(f"{_error_of(row)}, at most {self.budget.worst:.0%} wanted")
        return found

    @property
    def open(self) -> list[str]:
        """What the runs are too few or too noisy to decide, in words."""
        if not len(self.errors):
            return []
        found = []
        least, most, median = self._median
        if not most <= self.budget.median and not least > self.budget.median:
            found.append(f"{median}: whether it is at most {self.budget.median:.0%} is undecided")
        for row in self._judged:
            if row.verdict(self.budget) == UNDECIDED:
                found.append(f"{_error_of(row)}: whether it is at most {self.budget.worst:.0%} is undecided")
        return found

    @property
    def verdict(self) -> str:
        """`PASS` where everything keeps to the budget, `FAIL` where anything breaks it, else `UNDECIDED`."""
        return FAIL if self.failures else UNDECIDED if self.open else PASS

    @property
    def passed(self) -> bool:
        return self.verdict == PASS

    @property
    def _median(self) -> tuple[float, float, str]:
        """The ends of the median error's interval, and both in words."""
        least, most = np.median([_sizes(row.error) for row in self._judged], axis=0)
        words = f"the median error of the speedups is {np.median(self.errors):.1%}"
        return least, most, f"{words} (95 % interval {least:.1%} to {most:.1%})"

    @property
    def _judged(self) -> list[Row]:
        return [row for row in self.rows if row.comparable]


def _sizes(error: Estimate) -> tuple[float, float]:
    """The smallest and the largest size of an error in its interval; without one they are not known."""
    if np.isnan(error.low):
        return 0.0, np.inf
    return max(0.0, error.low, -error.high), max(abs(error.low), abs(error.high))


def _error_of(row: Row) -> str:
    ends = "" if np.isnan(row.error.low) else f" ({row.error.low:+.1%} to {row.error.high:+.1%})"
    return f"the error of {row.policy} on {row.dataset} is {row.error.value:+.1%}{ends}"


def validate(
    trace: Trace,
    runs: Runs,
    cost: CostModel | Sequence[Fold],
    *,
    policies: Sequence[str | Policy | Callable] | None = None,
    dataset: str | None = None,
    budget: Budget | None = None,
) -> Validation:
    """Compare simulation with measured runs of the same prompts.

    ``cost`` is a cost model from elsewhere, or parts of these runs, each with prices fitted on others
    (``folds.cross_fit``).  ``policies`` default to all that ran and that no price was fitted on.  One that cannot be
    replayed from this trace is a failure of the verdict, not an error.  Raises ValueError where trace, runs and prices
    are known to be of different models, prompts or limits, and for a policy that prices were fitted on: that would
    prove nothing.
    """
    folds = [Fold(cost)] if isinstance(cost, CostModel) else list(cost)
    for fold in folds:
        together(trace, [runs], fold.cost).expect()
    named = [recorded(str(policy)) for fold in folds for policy in fold.cost.machine.get("fitted_on") or ()]
    fitted = {what_runs(policy) for policy in named if policy is not None}
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
            rows.append(_row(trace, runs, folds, (policy, rule), name, out))
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
    folds: Sequence[Fold],
    named: tuple[str, Policy],
    dataset: str,
    out: Collection[tuple[str, int, int]],
) -> Row:
    """One policy by its name in the runs; calls with a key in ``out`` were disturbed."""
    policy, rule = named
    calls, plain = complete(runs, policy)
    matched = match(trace, [group[0] for group in calls])
    # What the policy was handed in the runs, not what they are priced with, decides what it drafts.
    told = {number: fold.cost if "prices" in runs.meta else None for number, fold in enumerate(folds)}
    results = [simulate(matched, rule, fold.cost, told=told[number]) for number, fold in enumerate(folds)]
    result, cost = results[0], folds[0].cost
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
    judged = [_judged(matched, each, fold, calls, plain, timed) for each, fold in zip(results, folds, strict=True)]
    found = split(judged, len(timed), out)
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
        simulated=found.simulated,
        measured=found.measured,
        spread=standard_deviation(by_repeat(paired(runs, policy, decoding=True, prompts=timed))) / found.measured.value,
        simulated_total=ratio(*_whole(results, folds, calls, timed)),
        measured_total=speedup(paired(runs, policy, decoding=False, prompts=timed)),
        error=found.error,
        floor=found.floor,
        fitted=_fitted(folds),
        parts=found.parts,
        comparable=calls[0][0].generator == cost.machine.get("generator", "library"),
        outside=cost.outside_range(result.drafted, matched.context[matched.offsets[result.prompt] + result.position]),
    )


def _fitted(folds: Sequence[Fold]) -> str:
    if len(folds) == 1:
        return "given"
    return "other repeats" if folds[0].prompts is None else "other prompts"


def _judged(
    trace: Trace,
    result: SimulationResult,
    fold: Fold,
    calls: Sequence[Sequence[Call]],
    plain: Sequence[Sequence[Call]],
    timed: Sequence[int],
) -> Judged:
    """What one fold judges of the prompts ``timed`` (places in the trace, and in the calls by prompt)."""
    mine = [(place, at) for place, at in enumerate(timed) if any(fold.judges(call) for call in calls[at])]
    places = [at for _, at in mine]
    simulated, gradient = _simulated(trace, result, fold.cost, np.array(places, int))
    nothing = np.zeros(len(gradient))
    moves = np.array([gradient @ fold.moves.get(calls[at][0].prompt, nothing) for at in timed])
    variance = 0.0 if fold.moves else PriceErrors(fold.cost).variance(gradient)
    assisted, without = ([[call for call in arm[at] if fold.judges(call)] for at in places] for arm in (calls, plain))
    return Judged(np.array([place for place, _ in mine], int), simulated, variance, moves, assisted, without, fold.cost)


def _simulated(
    trace: Trace, result: SimulationResult, cost: CostModel, places: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Seconds of decoding the prompts at ``places`` without and with the policy, float [n] each.

    Counted as ``analysis.measured.speedups`` counts the measured ones: from the end of the first iteration on.  And the
    gradient of the log of their totals' ratio to the price vector, float [p].
    """
    chosen = np.isin(np.arange(trace.prompts), places)
    begun = result.accepted[result.position == 0] + 1  # tokens of each prompt's first iteration
    local = np.arange(trace.tokens) - trace.offsets[trace.prompt_of]
    rest = (local >= begun[trace.prompt_of]) & chosen[trace.prompt_of]
    later = (result.position > 0) & chosen[result.prompt]
    prompt, context = result.prompt[later], trace.context[rest]
    without = np.bincount(trace.prompt_of[rest], weights=cost.step(context), minlength=trace.prompts)
    assisted = np.bincount(prompt, weights=result.seconds[later], minlength=trace.prompts)
    errors, at = PriceErrors(cost), trace.offsets[prompt] + result.position[later]
    rounds = errors.rounds(Tally.of(result.drafted[later], trace.context[at], result.passes[later]))
    steps = errors.steps(len(context), float(context.sum()))
    with np.errstate(divide="ignore", invalid="ignore"):
        gradient = steps / without.sum() - rounds / assisted.sum()
    return (without[places], assisted[places]), np.nan_to_num(gradient)


def _whole(
    results: Sequence[SimulationResult], folds: Sequence[Fold], calls: Sequence[Sequence[Call]], timed: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Simulated seconds in total, prompt included, without and with the policy: each prompt's mean over its folds."""
    sums = np.zeros((3, len(calls)))
    for result, fold in zip(results, folds, strict=True):
        mine = np.array([any(fold.judges(call) for call in group) for group in calls])
        both, alone = result.prefill_seconds.T
        sums += mine * np.stack([result.plain_seconds + alone, result.prompt_seconds + both, np.ones(len(calls))])
    without, with_draft = (sums[:2] / sums[2])[:, timed]
    return without, with_draft
