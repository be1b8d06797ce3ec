"""Exact replay: walk each text as the real generator would under a policy, and price every iteration.

The rule is that of transformers' assisted generation: the budget is clipped by the remaining length minus one, the token
that triggers a stop is still verified, drafting stops at EOS, an accepted EOS counts as the target's own token, and a
one-token remainder drafts nothing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from analysis.cost import DEFAULT_DRAFT, CostModel
from analysis.intervals import Estimate, ratio
from analysis.replay.oracles import ORACLES
from oracle.policies.rules import POLICIES, Plain, Policy, Signals, parse
from oracle.records.trace import Trace, chain, next_true

# What is compared where no policy is named.
USUAL = ("constant:tokens=5", "heuristic", "dynamic", "oracle:detect", "oracle:clairvoyant", "oracle:optimal")
_UNBOUNDED = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class SimulationResult:
    """One row an iteration (I of them), in order; every summary is derived from the rows."""

    policy: str
    cost: CostModel
    prompt: np.ndarray  # int64 [I], number of the prompt in the trace
    position: np.ndarray  # int64 [I], tokens of the text before the iteration
    drafted: np.ndarray  # int64 [I]
    accepted: np.ndarray  # int64 [I]
    seconds: np.ndarray  # float [I], price of the iteration in the cost model's unit
    plain_seconds: np.ndarray  # float [P], price of decoding each text without a draft
    prefill_seconds: np.ndarray  # float [P, 2], reading the prompt: with a draft, without
    unrecorded: int = 0  # iterations whose draft outran the recorded overrun: `drafted` is exact unless EOS came there

    @property
    def iterations(self) -> int:
        return len(self.prompt)

    @property
    def tokens(self) -> int:
        return int(self.accepted.sum()) + self.iterations

    @property
    def draft_tokens(self) -> int:
        return int(self.drafted.sum())

    @property
    def accepted_tokens(self) -> int:
        return int(self.accepted.sum())

    @property
    def wasted(self) -> int:
        """Drafted tokens that were not kept."""
        return self.draft_tokens - self.accepted_tokens

    @property
    def accepted_share(self) -> float:
        """accepted / drafted; nan where nothing was drafted.  Falls as more is drafted: not an acceptance rate."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else float("nan")

    @property
    def tokens_per_iteration(self) -> float:
        """Tokens that a target pass yields: mean accepted + 1."""
        return self.tokens / self.iterations

    @functools.cached_property
    def prompt_seconds(self) -> np.ndarray:
        """Price of each prompt's iterations, float [P]."""
        return np.bincount(self.prompt, weights=self.seconds, minlength=len(self.plain_seconds))

    @property
    def speedup(self) -> float:
        """Plain decoding over decoding with this policy; a ratio of totals, the reading of the prompt left out."""
        return float(self.plain_seconds.sum() / self.prompt_seconds.sum())

    @property
    def total_speedup(self) -> float:
        """The same with the reading of the prompt in both totals."""
        with_draft, without = self.prefill_seconds.sum(axis=0)
        return float((self.plain_seconds.sum() + without) / (self.prompt_seconds.sum() + with_draft))

    def speedup_estimate(self) -> Estimate:
        """The speedup with its 95 % interval over prompts (``analysis.intervals``), NaN where there is one prompt only."""
        return ratio(self.plain_seconds, self.prompt_seconds)

    def speedup_interval(self) -> tuple[float, float]:
        """The interval alone, (low, high)."""
        found = self.speedup_estimate()
        return found.low, found.high


def simulate(trace: Trace, policy: str | Policy, cost: CostModel | None = None) -> SimulationResult:
    """Replay ``policy`` over every text of ``trace`` and price it with ``cost`` (default: a draft step of 0.1).

    ``policy`` is its text (``dynamic:threshold=0.4``, ``oracle:detect``) or a Policy.  Raises ValueError for a policy
    that is not known, or whose thresholds would need more overrun than the trace recorded.
    """
    cost = CostModel(draft=DEFAULT_DRAFT) if cost is None else cost
    if isinstance(policy, str) and policy.strip() in ORACLES:
        length = ORACLES[policy.strip()](trace, cost)
        return _result(trace, policy.strip(), cost, *_walk_fixed(trace, length))
    if isinstance(policy, str) and policy.strip().startswith("oracle"):
        raise ValueError(f"unknown oracle {policy.strip()!r}; legal: {', '.join(ORACLES)}")
    rule = parse(policy) if isinstance(policy, str) else policy
    name = policy.strip() if isinstance(policy, str) else str(policy)
    return _result(trace, name, cost, *replay(trace, rule), plain=isinstance(rule, Plain))


def replay(trace: Trace, policy: Policy) -> tuple[np.ndarray, np.ndarray, int]:
    """The iterations of ``policy``: flat positions int64 [I], drafted int64 [I], and how many are unrecorded."""
    if policy.reads_signals:
        return _walk_adaptive(trace, policy)
    drafts = natural_drafts(trace, policy)
    if policy.has_memory:
        return _walk_outcomes(trace, policy, drafts)
    length = np.minimum(np.minimum(drafts.length, policy.budget(policy.start())), trace.budget)
    at, drafted = _walk_fixed(trace, length)[:2]
    return at, drafted, _check_recorded(trace, drafts, at, drafted)


@dataclass(frozen=True)
class Drafts:
    """How long a draft from each position would be, budgets aside."""

    length: np.ndarray  # int64 [N]
    recorded: np.ndarray  # int64 [N], how much of it the trace holds
    counts_only: bool  # the policy reads no signal: a longer draft is known up to an EOS in it


def natural_drafts(trace: Trace, policy: Policy) -> Drafts:
    """Where a draft from each position stops by itself: EOS, or the policy's rule on the signals."""
    over = trace.overruns
    state = policy.start()
    on_text = policy.stop(Signals(trace.confidence, trace.entropy, trace.margin), state)
    on_overrun = policy.stop(Signals(over.confidence, over.entropy, over.margin), state)
    stops, stops_over = trace.draft_ends, trace.overrun_ends
    if on_text is not None:
        stops, stops_over = stops | on_text, stops_over | on_overrun
    # For each disagreement: tokens of its overrun up to the first stop, or all of them.
    size = np.diff(over.offsets)
    at = np.flatnonzero(stops_over)  # the overruns hold several times the text's tokens: look up, never scan backwards
    first = np.append(at, len(stops_over))[np.searchsorted(at, over.offsets[:-1])] - over.offsets[:-1]
    ends_there = first < size
    tail = np.where(ends_there, first + 1, size)

    index = np.arange(trace.tokens)
    row = trace.next_overrun
    missed = row >= 0
    by_itself = next_true(stops) - index  # tokens before the first one of the text that stops a draft
    within = by_itself < trace.run + missed
    recorded = np.where(within, by_itself + 1, trace.run + np.where(missed, 1 + _take(tail, row), 0))
    known = within | (missed & _take(ends_there, row))
    return Drafts(np.where(known, recorded, _UNBOUNDED), recorded, counts_only=on_text is None)


def _take(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    # Rows of -1 stand for positions whose value is not used; a trace without any disagreement has no rows at all.
    return values[rows] if len(values) else np.zeros(len(rows), dtype=np.int64)


def _check_recorded(trace: Trace, drafts: Drafts, at: np.ndarray, drafted: np.ndarray) -> int:
    """Number of visited iterations that outran the record; raises where the policy would have read signals there."""
    # At the end of a text that stopped at the length limit the budget clips first: nothing is missing there.
    missing = (drafted > drafts.recorded[at]) & (at + trace.run[at] < trace.end[at])
    if missing.any() and not drafts.counts_only:
        worst = int((drafted - trace.run[at] - 1)[missing].max())
        _raise_unrecorded(trace, worst)
    return int(missing.sum())


class NotRecorded(ValueError):
    """The trace ends before the signals that a policy would have read."""


def _raise_unrecorded(trace: Trace, needed: int) -> None:
    raise NotRecorded(
        f"this policy reads signals {needed} tokens after a disagreement, the trace recorded {trace.max_overrun}; "
        f"collect again with --max-overrun {needed}, or lower the policy's tokens"
    )


def _walk_fixed(trace: Trace, length: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    at = chain(trace.offsets, np.minimum(length, trace.accepted_run) + 1)
    return at, length[at], 0


def _walk_outcomes(trace: Trace, policy: Policy, drafts: Drafts) -> tuple[np.ndarray, np.ndarray, int]:
    natural, room, run = drafts.length.tolist(), trace.budget.tolist(), trace.accepted_run.tolist()
    budget, update, state = policy.budget, policy.update, policy.start()
    visited: list[int] = []
    lengths: list[int] = []
    for start, end in zip(trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), strict=True):
        if not policy.carries_over:
            state = policy.start()
        at = start
        while at < end:
            drafted = min(natural[at], budget(state), room[at])
            accepted = min(drafted, run[at])
            visited.append(at)
            lengths.append(drafted)
            state = update(state, drafted, accepted, None)
            at += accepted + 1
    at, drafted = np.array(visited, dtype=np.int64), np.array(lengths, dtype=np.int64)
    return at, drafted, _check_recorded(trace, drafts, at, drafted)


def _walk_adaptive(trace: Trace, policy: Policy) -> tuple[np.ndarray, np.ndarray, int]:
    state = policy.start()
    visited: list[int] = []
    lengths: list[int] = []
    for start, end in zip(trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), strict=True):
        if not policy.carries_over:
            state = policy.start()
        at = start
        while at < end:
            limit = min(policy.budget(state), int(trace.budget[at]))
            tokens, signals = draft_from(trace, at, limit)
            stops = np.isin(tokens, trace.eos_token_ids)
            rule = policy.stop(signals, state)
            stops = stops if rule is None else stops | rule
            stopped = np.flatnonzero(stops)
            drafted = int(stopped[0]) + 1 if len(stopped) else limit
            if drafted > len(tokens):
                _raise_unrecorded(trace, drafted - int(trace.run[at]) - 1)
            accepted = min(drafted, int(trace.accepted_run[at]))
            visited.append(at)
            lengths.append(drafted)
            state = policy.update(state, drafted, accepted, Signals(*(values[:drafted] for values in signals)))
            at += accepted + 1
    return np.array(visited, dtype=np.int64), np.array(lengths, dtype=np.int64), 0  # what is not recorded raised above


def draft_from(trace: Trace, at: int, limit: int) -> tuple[np.ndarray, Signals]:
    """The first ``limit`` tokens that the draft would propose from flat position ``at``, as far as they are recorded."""
    agreed = at + int(trace.run[at])
    missed = agreed < trace.end[at]
    text = slice(at, min(agreed + missed, at + limit))
    row = int(trace.overrun_of[agreed]) if missed else -1
    over = trace.overruns
    first = int(over.offsets[row]) if missed else 0
    rest = slice(first, min(int(over.offsets[row + 1]), first + limit - (text.stop - at)) if missed else 0)

    def join(on_text: np.ndarray, on_overrun: np.ndarray) -> np.ndarray:
        return np.concatenate([on_text[text], on_overrun[rest]])

    signals = Signals(*(join(getattr(trace, name), getattr(over, name)) for name in Signals._fields))
    return join(trace.draft_tokens, over.tokens), signals


def _result(
    trace: Trace,
    policy: str,
    cost: CostModel,
    at: np.ndarray,
    drafted: np.ndarray,
    unrecorded: int,
    *,
    plain: bool = False,
) -> SimulationResult:
    prompt = trace.prompt_of[at]
    step = cost.step(trace.context)
    read = np.diff(trace.prompt_offsets) * cost.target_prefill
    read_both = read + (0 if plain else np.diff(trace.prompt_offsets) * cost.draft_prefill)
    return SimulationResult(
        policy=policy,
        cost=cost,
        prompt=prompt,
        position=at - trace.offsets[prompt],
        drafted=drafted,
        accepted=np.minimum(drafted, trace.accepted_run[at]),
        seconds=step[at] if plain else cost.round(drafted, trace.context[at]),
        plain_seconds=np.bincount(trace.prompt_of, weights=step, minlength=trace.prompts),
        prefill_seconds=np.stack([read_both, read], axis=1),
        unrecorded=unrecorded,
    )


def known_policies() -> list[str]:
    """Every name that ``simulate`` takes."""
    return [*POLICIES, *ORACLES]
