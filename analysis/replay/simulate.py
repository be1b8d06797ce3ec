"""Exact replay: walk each text as the real generator would under a policy, and price every iteration."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType

import numpy as np

from analysis.belonging import together
from analysis.cost import CostModel, assumed
from analysis.price_errors import NO_SHIFTS, PriceErrors, Tally
from analysis.replay.drafts import UNBOUNDED, Book, NotRecorded
from analysis.replay.lanes import FEW, Natural, Rows, walk, walk_lengths
from analysis.replay.oracles import OPTIMAL, ORACLES, is_oracle
from analysis.replay.result import SimulationResult, Totals
from analysis.replay.together import only_cap, shared_scans, walked
from analysis.replay.totals import CappedTotals
from oracle.policies import POLICIES, USUAL, Policy, as_policy
from oracle.policies.counting import Plain
from oracle.policies.names import name_of, suggest
from oracle.policies.semantics import under
from oracle.records.prompts import digests
from oracle.records.trace import Trace, chain

__all__ = [
    "USUAL",
    "NotRecorded",
    "SimulationResult",
    "Totals",
    "check_policies",
    "known_policies",
    "replay",
    "simulate",
    "simulate_all",
    "simulate_each",
    "simulate_lengths",
    "simulate_totals",
]


def simulate(
    trace: Trace,
    policy: str | Policy | Callable,
    cost: CostModel | None = None,
    *,
    told: CostModel | None | EllipsisType = ...,
    semantics: str | None = None,
) -> SimulationResult:
    """Replay ``policy`` over every text of ``trace`` and price it with ``cost``.

    Default: a draft step of 0.1, of 0 for a lookup.

    ``policy`` is its text (``dynamic:threshold=0.4``, ``oracle:detect``, ``my.py:MyRule:tokens=3``), an object, or a
    function ``stop(signals)``.  Raises ValueError for a policy that is not known or reads what the trace does not
    hold, and for prices of another pair; `NotRecorded` where it would need more overrun than the trace recorded.
    A policy that asks for prices is handed ``told``, by default the same ones.  One of transformers' own follows the
    rules of the release ``semantics`` ("4.45"; default: of the installed one), see ``oracle.policies.semantics``.
    """
    work = _Work(trace, [policy], cost, told, semantics)
    found = next(work.everything())[1]
    if isinstance(found, NotRecorded):
        raise found
    return found


def simulate_all(
    trace: Trace,
    policies: Sequence[str | Policy | Callable],
    cost: CostModel | None = None,
    semantics: str | None = None,
) -> list[SimulationResult | NotRecorded]:
    """`simulate` of each policy, in order; of those that the record is too short for, the error."""
    found = dict(_Work(trace, policies, cost, semantics=semantics).everything())
    return [found[number] for number in range(len(policies))]


def replay_all(
    trace: Trace,
    policies: Mapping[str, str | Policy | Callable | None],
    cost: CostModel,
    semantics: str | None = None,
) -> tuple[tuple[SimulationResult, ...], dict[str, str]]:
    """Results of ``policies`` (by name), and of those that cannot be replayed on this trace the reason.

    Raises ValueError for a policy that is not known.
    """
    known = {name: policy for name, policy in policies.items() if policy is not None}
    results = []
    left_out = {name: "it is a policy of your own; hand it over too" for name in policies if name not in known}
    for name, found in zip(known, simulate_all(trace, list(known.values()), cost, semantics), strict=True):
        if isinstance(found, NotRecorded):
            left_out[name] = str(found)
        else:
            results.append(found)
    return tuple(results), left_out


def simulate_each(
    trace: Trace, policies: Sequence[str | Policy | Callable], cost: CostModel | None = None
) -> Iterator[tuple[int, SimulationResult | NotRecorded]]:
    """The same one by one, as (place in ``policies``, result) in any order: a large sweep need not hold every row.

    Policies that judge tokens alike share a scan of the trace.
    """
    yield from _Work(trace, policies, cost).everything()


def simulate_totals(
    trace: Trace, policies: Sequence[str | Policy | Callable], cost: CostModel | None = None
) -> Iterator[tuple[int, Totals | NotRecorded]]:
    """The same without rows: what each prompt costs under each policy, to the last bit as `simulate` says.

    Of policies that judge tokens alike those that differ in their cap only share a walk too: a sweep of settings costs
    a fraction of as many calls of `simulate`.
    """
    work = _Work(trace, policies, cost)
    for number, found in work.oracles():
        yield number, found.totals
    for numbers, scan in work.scans():
        capped = {}
        if scan is not None and (capped := work.capped(numbers, scan)):
            yield from work.totals(capped, scan)
        for number in (number for number in numbers if number not in capped):
            found = work.result(number, scan)
            yield number, found if isinstance(found, NotRecorded) else found.totals


def simulate_lengths(trace: Trace, name: str, length: np.ndarray, cost: CostModel) -> SimulationResult:
    """What it costs to draft ``length[t]`` tokens (int64 [N]) from whichever position t an iteration begins at.

    For rules that are known at every position beforehand; results call it ``name``.
    """
    return _Pricing(trace, cost).result(name, walk_lengths(trace, length), None)


def replay(trace: Trace, policy: Policy, cost: CostModel | None = None) -> Rows:
    """The iterations of ``policy``, unpriced."""
    return walk(Book.of(trace), policy, cost)


def expect_unseen_prompts(trace: Trace, policy: Policy) -> None:
    """Raise ValueError where a policy was fitted to prompts of the trace, and did not say that this is meant."""
    known = policy.trained_on()
    shared = sum(digest in known for digest in digests(trace)) if known else 0
    if shared:
        raise ValueError(
            f"policy {policy} was trained on {shared} of the {trace.prompts} prompts of this trace: it looks better "
            "there than it is; take other prompts, or add in_sample=True to its keys (--allow-in-sample)"
        )


def known_policies() -> list[str]:
    """Every name that ``simulate`` takes."""
    return [*POLICIES, *ORACLES]


def check_policies(policies: Sequence[str]) -> None:
    """Raise ValueError for a text that ``simulate`` does not take, before anything is computed."""
    for text in policies:
        if is_oracle(text.strip()):
            _check_oracle(text.strip())
        else:
            as_policy(text)


def _check_oracle(name: str) -> None:
    if name not in ORACLES:
        raise ValueError(f"unknown oracle {name!r}{suggest(name, ORACLES)}; legal: {', '.join(ORACLES)}")


def _walk_oracle(trace: Trace, name: str, cost: CostModel) -> Rows:
    _check_oracle(name)
    book = Book.of(trace)
    length, sure = np.minimum(ORACLES[name](trace, cost), book.room), book.sure
    if sure is not None:  # it looks no further ahead than rounds were recorded
        length = np.minimum(length, sure)
    return walk_lengths(trace, length)


class _Work:
    """Policies to be replayed on a trace and priced, by their place in what was given."""

    def __init__(
        self,
        trace: Trace,
        policies: Sequence[str | Policy | Callable],
        cost: CostModel | None,
        told: CostModel | None | EllipsisType = ...,
        semantics: str | None = None,
    ) -> None:
        self._trace, self._book = trace, Book.of(trace)
        self._pricing = _Pricing(trace, assumed(trace) if cost is None else cost)
        self._told = self._pricing.cost if isinstance(told, EllipsisType) else told
        self._names = [name_of(policy) for policy in policies]
        oracle = [isinstance(each, str) and is_oracle(each) for each in policies]
        self._oracles = [number for number, is_one in enumerate(oracle) if is_one]
        rules = {number: as_policy(policy) for number, policy in enumerate(policies) if not oracle[number]}
        self._rules = {number: under(rule, semantics) for number, rule in rules.items()}
        for rule in self._rules.values():
            expect_unseen_prompts(trace, rule)

    def everything(self) -> Iterator[tuple[int, SimulationResult | NotRecorded]]:
        yield from self.oracles()
        for numbers, scan in self.scans():
            for number in numbers:
                yield number, self.result(number, scan)

    def oracles(self) -> Iterator[tuple[int, SimulationResult]]:
        for number in self._oracles:
            name = self._names[number]
            yield number, self._pricing.result(name, _walk_oracle(self._trace, name, self._pricing.cost), None)

    def scans(self) -> Iterator[tuple[list[int], Natural | None]]:
        return shared_scans(self._book, self._rules)

    def result(self, number: int, scan: Natural | None) -> SimulationResult | NotRecorded:
        rule = self._rules[number]
        rows = walked(self._book, rule, self._told, scan)
        failed = isinstance(rows, NotRecorded)
        return rows if failed else self._pricing.result(self._names[number], rows, type(rule))

    def capped(self, numbers: Sequence[int], scan: Natural) -> dict[int, int]:
        """The caps of those of a scan's rules that `totals` can walk, all lanes side by side."""
        # Whether a draft outruns the record is asked row by row, unless no position's draft can.
        bounds = [self._book.known if scan.reads else None, self._book.sure]
        most = min(int(b[scan.length > b].min(initial=UNBOUNDED)) if b is not None else UNBOUNDED for b in bounds)
        caps = {number: cap for number in numbers if (cap := only_cap(self._rules[number])) is not None and cap <= most}
        return caps if len(caps) * len(self._book.starts) >= FEW else {}

    def totals(self, caps: Mapping[int, int], scan: Natural) -> Iterator[tuple[int, Totals]]:
        """Of `capped` rules."""
        lengths = np.array(list(caps.values()))
        found = self._pricing.capped.seconds(scan, lengths)
        for (number, cap), seconds in zip(caps.items(), found, strict=True):
            tally = self._tally(scan, cap) if self._pricing.errors.known else None
            yield number, self._pricing.totals(self._names[number], seconds, tally)

    def _tally(self, scan: Natural, cap: int) -> Tally:
        """What decides the price of the iterations under this cap."""
        drafted = np.minimum(scan.length, cap)
        at = chain(self._trace.offsets, np.minimum(drafted, self._trace.accepted_run) + 1)
        return Tally.of(drafted[at], self._trace.context[at])


class _Pricing:
    """Prices of one trace, what does not depend on the policy worked out once."""

    def __init__(self, trace: Trace, cost: CostModel) -> None:
        together(trace, cost=cost).expect()
        self._trace, self.cost = trace, cost
        self._context, read = trace.context, np.diff(trace.prompt_offsets)
        self._step = np.asarray(cost.step(self._context))
        self._plain = np.bincount(trace.prompt_of, weights=self._step, minlength=trace.prompts)
        self._read, self._read_draft = read * cost.target_prefill, read * cost.draft_prefill
        self.errors = PriceErrors(cost)
        plain = self.errors.steps(trace.tokens, float(self._context.sum()))
        self._plain_shifts = self.errors.shifts(plain, self._plain.sum())

    @functools.cached_property
    def capped(self) -> CappedTotals:
        return CappedTotals(Book.of(self._trace), self.cost, self._context)

    def totals(self, name: str, seconds: np.ndarray, tally: Tally | None) -> Totals:
        """``seconds`` float [P], of a policy that drafts; ``tally`` of its rounds where the prices have errors."""
        shifts = NO_SHIFTS if tally is None else self.errors.shifts(self.errors.rounds(tally), seconds.sum())
        prefill = self._prefill(self._read_draft)
        return Totals(name, self._plain, prefill, seconds, plain_shifts=self._plain_shifts, shifts=shifts)

    def result(self, name: str, rows: Rows, kind: type[Policy] | None) -> SimulationResult:
        """``kind`` is the policy's class, None for an oracle."""
        trace, plain = self._trace, kind is Plain
        prompt = trace.prompt_of[rows.at]
        accepted = np.minimum(rows.drafted, trace.accepted_run[rows.at])
        seconds, steps = self._rounds(rows), np.full(len(rows.at), plain)
        if name == OPTIMAL:
            steps = (rows.drafted == 0) & (self._step[rows.at] <= seconds)
        seconds = np.where(steps, self._step[rows.at], seconds)
        return SimulationResult(
            policy=name,
            cost=self.cost,
            prompt=prompt,
            position=rows.at - trace.offsets[prompt],
            drafted=rows.drafted,
            accepted=accepted,
            seconds=seconds,
            plain_seconds=self._plain,
            prompt_seconds=np.bincount(prompt, weights=seconds, minlength=trace.prompts),
            prefill_seconds=self._prefill(0 if plain else self._read_draft),
            passes=rows.passes,
            unrecorded=rows.unrecorded,
            plain_shifts=self._plain_shifts,
            shifts=self._shifts(rows, steps, seconds.sum()),
        )

    def _shifts(self, rows: Rows, steps: np.ndarray, total: float) -> np.ndarray:
        """`Totals.shifts` of iterations that are plain ``steps`` (bool [I]) or rounds."""
        if not self.errors.known:
            return NO_SHIFTS
        context, drafts = self._context[rows.at], ~steps
        rounds = Tally.of(rows.drafted[drafts], context[drafts], rows.passes[drafts])
        gradient = self.errors.rounds(rounds) + self.errors.steps(steps.sum(), float(context[steps].sum()))
        return self.errors.shifts(gradient, total)

    def _rounds(self, rows: Rows) -> np.ndarray:
        """Price of each iteration, float [I]."""
        if self.cost.rounds_vary or rows.passes is not rows.drafted:
            return self.cost.round(rows.drafted, self._context[rows.at], rows.passes)
        return self.cost.round(np.arange(int(rows.drafted.max(initial=0)) + 1))[rows.drafted]

    def _prefill(self, draft: np.ndarray | int) -> np.ndarray:
        """Reading the prompts with and without a draft that takes ``draft`` for it, float [P, 2]."""
        return np.stack([self._read + draft, self._read], axis=1)
