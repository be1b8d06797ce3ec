"""How far simulation and reality are apart, and why: iteration by iteration, and second by second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, ratio
from analysis.cost import CostModel
from analysis.differences import Difference, first_difference, same_rows
from analysis.disturbances import undisturbed
from analysis.policies import parse
from analysis.simulate import simulate
from analysis.speedups import PLAIN, by_repeat, paired, speedup
from oracle.runs import Call, Runs
from oracle.trace import Trace, iter_records

PARTS = ("counts", "draft", "verify", "iteration", "plain", "drift")


@dataclass(frozen=True)
class Budget:
    """What a validation must keep to; errors are |simulated / measured - 1| of the decoding speedup."""

    counts: float = 1.0  # share of identical iterations, asked for in float32 only
    median: float = 0.03
    worst: float = 0.08


@dataclass(frozen=True)
class Divergence:
    """Where a measured text leaves the text of plain decoding that was measured beside it."""

    prompt: str
    token: int  # first index that differs
    margin: float  # the target's lead of its first over its second choice there, in logits


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
    parts: dict[str, float]  # the error, split; adds up to it.  See ``_split``
    comparable: bool  # the cost model was fitted on the generator that this policy ran in

    @property
    def error(self) -> float:
        """simulated / measured - 1, decoding alone."""
        return self.simulated.value / self.measured.value - 1

    @property
    def total_error(self) -> float:
        return self.simulated_total.value / self.measured_total.value - 1


@dataclass(frozen=True)
class Validation:
    """Rows of one or several data sets, and the verdict on them."""

    rows: tuple[Row, ...]
    budget: Budget = Budget()

    @property
    def errors(self) -> np.ndarray:
        """|error| of the rows whose seconds can be compared, float [rows]."""
        return np.array([abs(row.error) for row in self.rows if row.comparable])

    @property
    def failures(self) -> list[str]:
        """What breaks the budget, in words; empty when it is kept."""
        found = [
            f"{row.policy} on {row.dataset}: {row.identical:.2%} of the iterations are identical, "
            f"{self.budget.counts:.0%} wanted"
            for row in self.rows
            if row.dtype == "float32" and row.identical < self.budget.counts
        ]
        if not len(self.errors):
            return [*found, "no policy's seconds could be compared"]
        if not np.median(self.errors) <= self.budget.median:  # written so that nan fails
            found.append(
                f"the median error of the speedups is {np.median(self.errors):.1%}, "
                f"at most {self.budget.median:.0%} wanted"
            )
        if not self.errors.max() <= self.budget.worst:
            worst = max((row for row in self.rows if row.comparable), key=lambda row: abs(row.error))
            place = f"{worst.policy} on {worst.dataset}"
            found.append(f"the worst error is {worst.error:+.1%} ({place}), at most {self.budget.worst:.0%} wanted")
        return found

    @property
    def passed(self) -> bool:
        return not self.failures


def validate(
    trace: Trace,
    runs: Runs,
    cost: CostModel,
    *,
    policies: Sequence[str] | None = None,
    dataset: str | None = None,
    budget: Budget | None = None,
) -> Validation:
    """Compare simulation with measured runs of the same prompts.

    ``policies`` default to all that ran and that ``cost`` was not fitted on.  Raises ValueError where trace and
    runs are not of the same prompts and limits, and for a policy that the cost model was fitted on: that would
    prove nothing.
    """
    fitted = {parse(policy) for policy in cost.machine.get("fitted_on", ())}
    ran = [policy for policy in runs.policies if policy != PLAIN]
    chosen = [policy for policy in ran if parse(policy) not in fitted] if policies is None else list(policies)
    for policy in chosen:
        if parse(policy) in fitted:
            raise ValueError(f"policy {policy!r}: the cost model was fitted on it, so it cannot be validated with it")
    if not chosen:
        raise ValueError(f"nothing to validate: the cost model was fitted on every policy that ran ({', '.join(ran)})")
    name = dataset or trace.dataset
    rows = tuple(_row(trace, runs, cost, policy, name) for policy in chosen)
    return Validation(rows, budget or Budget())


def combine(validations: Sequence[Validation]) -> Validation:
    """One verdict over several data sets, under the budget of the first."""
    return Validation(tuple(row for one in validations for row in one.rows), validations[0].budget)


def _row(trace: Trace, runs: Runs, cost: CostModel, policy: str, dataset: str) -> Row:
    calls, plain = _complete(runs, policy)
    matched = match(trace, [group[0] for group in calls])
    result = simulate(matched, policy, cost)
    replayed = [
        np.stack(
            [column[result.prompt == prompt] for column in (result.position, result.drafted, result.accepted)], axis=1
        )
        for prompt in range(matched.prompts)
    ]
    flat = [(prompt, call) for prompt, group in enumerate(calls) for call in group]
    same, total = np.sum([same_rows(replayed[prompt], call) for prompt, call in flat], axis=0)
    simulated, simulated_total = _simulated(matched, result, cost)
    clocked = paired(runs, policy, decoding=True)
    measured = speedup(clocked)
    texts = [matched.target_tokens[a:b] for a, b in zip(matched.offsets[:-1], matched.offsets[1:], strict=True)]
    return Row(
        policy=policy,
        dataset=dataset,
        generator=calls[0][0].generator,
        dtype=str(runs.meta.get("machine", {}).get("dtype", "unknown")),
        prompts=len(calls),
        iterations=int(total),
        identical=float(same / total),
        difference=first_difference(matched, replayed, flat, parse(policy)),
        different_texts=len({prompt for prompt, call in flat if not np.array_equal(call.tokens, texts[prompt])}),
        divergences=_divergences(calls),
        simulated=simulated,
        measured=measured,
        spread=_spread(by_repeat(clocked)) / measured.value,
        simulated_total=simulated_total,
        measured_total=speedup(paired(runs, policy, decoding=False)),
        parts=_split(simulated.value, measured.value, calls, plain, cost),
        comparable=calls[0][0].generator == cost.machine.get("generator", "library"),
    )


def _divergences(calls: list[list[Call]]) -> tuple[Divergence, ...]:
    firsts = (next((call for call in group if not call.equal), None) for group in calls)
    return tuple(
        Divergence(call.id, int(call.first_difference), float(call.difference_margin))
        for call in firsts
        if call is not None
    )


def _spread(speedups: np.ndarray) -> float:
    return float(np.std(speedups, ddof=1)) if len(speedups) > 1 else float("nan")


def _complete(runs: Runs, policy: str) -> tuple[list[list[Call]], list[list[Call]]]:
    """For each prompt that both arms finished in every repeat: the policy's calls and the plain ones, by repeat.

    A state that carries over needs every prompt before its own, so the list ends with the first that is not complete.
    """
    arms = []
    for arm in (policy, PLAIN):
        by_prompt: dict[int, list[Call]] = {}
        for call in runs.of(arm):
            by_prompt.setdefault(call.prompt, []).append(call)
        arms.append(by_prompt)
    prompt = 0
    while all(len(arm.get(prompt, ())) == runs.repeats for arm in arms):
        prompt += 1
    if prompt == 0:
        raise ValueError(f"policy {policy!r}: no prompt is finished in every repeat; `oracle measure --resume` goes on")
    return tuple([arm[number] for number in range(prompt)] for arm in arms)


def match(trace: Trace, calls: Sequence[Call]) -> Trace:
    """The part of ``trace`` that belongs to these calls, in order.  Raises ValueError where it holds others."""
    records = {record.id: record for record in iter_records(trace)}
    chosen = []
    for call in calls:
        record = records.get(call.id)
        if record is None:
            raise ValueError(
                f"prompt {call.id!r} was measured but is not in the trace; collect and measure the same prompts"
            )
        if not np.array_equal(record.prompt_tokens, call.prompt_tokens):
            raise ValueError(f"prompt {call.id!r} has other tokens in the trace than in the runs; collect it again")
        if record.max_new_tokens != call.max_new_tokens:
            limits = f"{record.max_new_tokens} in the trace, {call.max_new_tokens} in the runs"
            raise ValueError(f"prompt {call.id!r}: max_new_tokens is {limits}; collect and measure with the same limit")
        chosen.append(record)
    return Trace.from_records(chosen, trace.meta)


def _simulated(trace: Trace, result, cost: CostModel) -> tuple[Estimate, Estimate]:
    """Speedups of decoding alone and in total, counted as ``analysis.speedups`` counts the measured ones."""
    later = result.position > 0
    size = trace.prompts
    assisted = np.bincount(result.prompt[later], weights=result.seconds[later], minlength=size)
    first = result.accepted[~later] + 1  # tokens of each prompt's first iteration
    local = np.arange(trace.tokens) - trace.offsets[trace.prompt_of]
    rest = local >= first[trace.prompt_of]
    step = cost.step(trace.context)
    plain = np.bincount(trace.prompt_of[rest], weights=step[rest], minlength=size)
    whole = result.plain_seconds + result.prefill_seconds[:, 1], result.prompt_seconds + result.prefill_seconds[:, 0]
    return ratio(plain, assisted), ratio(*whole)


def _split(
    simulated: float, measured: float, calls: list[list[Call]], plain: list[list[Call]], cost: CostModel
) -> dict[str, float]:
    """The error simulated / measured - 1 in six terms that add up to it.

    Starting from the simulated speedup, one ingredient after the other is replaced by the measured one, and each
    term is what that changed: the counts (whose iterations), the draft's seconds, the verification's, the constant
    of an iteration, the steps of plain decoding.  Measured seconds are each prompt's mean over the undisturbed
    repeats, as in the fit; what is left after the last replacement is drift: how far the ratio of those means is from
    the speedup, which is a median over the repeats.
    """
    model = np.sum([_priced(group[0], cost) for group in calls], axis=0)  # draft, verify, iteration
    clock = np.sum([np.mean([_clocked(call) for call in undisturbed(group)], axis=0) for group in calls], axis=0)
    priced_plain = sum(
        float(_plain_steps(base[0], call[0], cost).sum()) for base, call in zip(plain, calls, strict=True)
    )
    clocked_plain = sum(
        float(np.mean([_plain_steps(one, group[0]).sum() for one in undisturbed(base)]))
        for base, group in zip(plain, calls, strict=True)
    )
    stages = [simulated]
    stages += [priced_plain / np.append(clock[:known], model[known:]).sum() for known in range(4)]
    stages += [clocked_plain / clock.sum(), measured]
    return dict(zip(PARTS, (-np.diff(stages) / measured).tolist(), strict=True))


def _priced(call: Call, cost: CostModel) -> np.ndarray:
    """Draft, verification and constant of a call's later iterations at the model's prices, float [3]."""
    drafted, context = call.drafted[1:], call.position[1:] + len(call.prompt_tokens)
    draft = cost.drafting(drafted, context).sum()
    verify = (cost.verification(drafted + 1) + cost.verify_context * context).sum()
    return np.array([draft, verify, cost.iteration * len(drafted)])


def _clocked(call: Call) -> np.ndarray:
    """The same as measured, float [3]."""
    return np.array([call.draft_seconds[1:].sum(), call.verify_seconds[1:].sum(), call.rest_seconds[1:].sum()])


def _plain_steps(plain: Call, call: Call, cost: CostModel | None = None) -> np.ndarray:
    """Plain decoding's seconds for the tokens after a call's first iteration: priced with ``cost``, or measured."""
    first, size = int(call.accepted[0]) + 1, len(call.tokens)
    if cost is not None:
        return cost.step(len(call.prompt_tokens) + np.arange(first, size))
    if np.array_equal(plain.tokens, call.tokens):
        return plain.seconds[first:]
    return np.full(size - first, plain.seconds[1:].mean() if len(plain.tokens) > 1 else plain.seconds.mean())
