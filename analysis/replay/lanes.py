"""The walkers: every text from its start, iteration by iteration, all texts at once where the policy allows it.

The rule is that of transformers' assisted generation: the budget is clipped by the remaining length minus one, drafting
stops at EOS, an accepted EOS counts as the target's own token, and a one-token remainder drafts nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.replay.drafts import UNBOUNDED, Book
from analysis.replay.in_order import walk_in_numbers
from analysis.replay.states import States
from oracle.policies.contract import (
    Policy,
    Prices,
    State,
    TokenRule,
    Unseen,
    after_prompt,
    ask,
    budget_of,
    checked,
    judges_alone,
    lanes_of,
    overrides,
    sent_of,
    stops_at,
)
from oracle.policies.in_order import InOrder, in_numbers
from oracle.records.trace import Trace, chain

WINDOWS = (4, 12, 40, 200)  # tokens of a draft that are looked at first, then, where nothing stopped it, and so on
BLOCK = 1 << 15  # positions that are looked at together: what they read stays near the processor
FEW = 16  # texts: fewer are walked one by one where the policy only counts


class Rows(NamedTuple):
    """Iterations of a replay, in order of position, int64 [I] each."""

    at: np.ndarray  # flat position
    drafted: np.ndarray  # tokens sent to verification
    passes: np.ndarray  # draft passes paid for them
    unrecorded: int  # how many outran the record: `drafted` is exact unless EOS came there


class Natural(NamedTuple):
    """Where drafts end by themselves: by a rule that judges each token alone, at EOS, or for want of room."""

    length: np.ndarray  # int64 [N], tokens of each position's draft under a budget without end
    rule: np.ndarray | None  # bool [V + 1], where the policy's own rule stops; None: nowhere
    reads: bool  # the rule read signals: it has no answer beyond the record


def natural(book: Book, policy: Policy, player: Policy | None = None) -> Natural:
    """One scan of the trace, for a policy that `judges_alone`; errors name its ``player`` where it has one."""
    signals = book.all_signals(player or policy)
    answer = ask(policy, "judge", signals) if isinstance(policy, TokenRule) else None
    if answer is None:
        return Natural(book.unstopped, None, signals.were_read)
    rule = checked(policy, "judge", answer, signals.shape)[:, 0]
    stops = rule if book.ends is None else rule | book.ends
    return Natural(np.minimum(book.first(stops), book.room), np.append(rule, False), signals.were_read)


def walk(book: Book, policy: Policy, cost: Prices | None = None, scan: Natural | None = None) -> Rows:
    """The iterations of ``policy``; ``scan`` is its `natural` where that is at hand.

    Raises `NotRecorded` where it would read signals that the trace does not hold.
    """
    if scan is None and judges_alone(policy):
        scan = natural(book, policy)
    carries = overrides(policy, "next_prompt")
    if isinstance(policy, InOrder) and in_numbers(policy):
        return _walk_in_numbers(book, policy, scan, cost)
    if scan is not None and (carries or len(book.starts) < FEW):
        try:
            return _rows(book, policy, scan, *_walk_counting(book, policy, scan, cost))
        except Unseen:
            pass  # its state is made of signals: it cannot be walked by outcomes alone
    if carries:
        return _walk_in_order(book, policy, scan, cost)
    table = _Table(book, policy)
    walker = _Walker(book, policy, scan)
    walker.walk(book.starts, ask(policy, "start", len(book.starts), cost), table)
    return _rows(book, policy, scan, *table.rows(), walker.unrecorded)


def walk_lengths(trace: Trace, length: np.ndarray) -> Rows:
    """The iterations of drafts of ``length[t]`` tokens (int64 [N]) from each position t that is reached."""
    at = chain(trace.offsets, np.minimum(length, trace.accepted_run) + 1)
    return Rows(at, length[at], length[at], 0)


class _Table:
    """What was drafted at each position, filled in any order and read in order."""

    def __init__(self, book: Book, policy: Policy) -> None:
        self._passes = np.full(book.size, -1, np.int32)
        self._sent = np.zeros_like(self._passes) if overrides(policy, "send") else self._passes

    def note(self, at: np.ndarray, passes: np.ndarray, sent: np.ndarray) -> None:
        self._passes[at] = passes
        if self._sent is not self._passes:
            self._sent[at] = sent

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(at, drafted, passes), int64 each."""
        at = np.flatnonzero(self._passes >= 0)
        drafted = self._sent[at].astype(np.int64)
        return at, drafted, drafted if self._sent is self._passes else self._passes[at].astype(np.int64)


def _rows(
    book: Book, policy: Policy, scan: Natural | None, at: np.ndarray, drafted: np.ndarray, passes: np.ndarray, seen: int
) -> Rows:
    """The rows, checked against the record; ``seen`` of them are known to outrun it."""
    # A walk is right up to the first row whose outcome is not known: that there is one is all that counts.
    book.require_outcomes(at, drafted)
    if scan is None:
        return Rows(at, drafted, passes, seen)
    if scan.reads:
        book.require(at, passes)
        return Rows(at, drafted, passes, 0)
    return Rows(at, drafted, passes, int(book.missing(at, passes).sum()))


class _Walker:
    """Walks lanes side by side, an iteration of each a step."""

    def __init__(self, book: Book, policy: Policy, scan: Natural | None, player: Policy | None = None) -> None:
        self.book, self.policy, self.scan = book, policy, scan
        self.unrecorded = 0  # of a policy that is asked iteration by iteration
        self.reads = False  # it has read signals
        self._player = player  # of a rule that is asked at positions never reached: to outrun the record is no error
        self._sends, self._learns = overrides(policy, "send"), overrides(policy, "update")

    def walk(self, at: np.ndarray, state: State, table: _Table) -> State:
        """Walk each lane from position ``at`` (int64 [lanes]) to its text's end; the state of those that end last."""
        book, policy = self.book, self.policy
        end = book.end[at]
        while len(at):
            passes, sent = self.draft(at, budget_of(policy, state), state)
            table.note(at, passes, sent)
            accepted = np.minimum(sent, book.accepted_run[at])
            if self._learns:
                state = ask(policy, "update", state, sent, accepted, book.whole_signals(policy, at, sent))
            at = at + accepted + 1
            live = at < end
            if not live.all():
                if not live.any():
                    return state
                at, end, state = at[live], end[live], lanes_of(state, live)
        return state

    def draft(self, at: np.ndarray, budget: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Draft passes and tokens sent to verification, int64 [lanes] each."""
        if self.scan is None:
            passes, stopped = self._look(at, np.minimum(self.book.room[at], budget), state)
            return passes, sent_of(self.policy, passes, stopped, state) if self._sends else passes
        passes = np.minimum(self.scan.length[at], budget)
        if not self._sends:
            return passes, passes
        return passes, sent_of(self.policy, passes, _stopped(self.book, self.scan, at, passes), state)

    def _look(self, at: np.ndarray, limit: np.ndarray, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Tokens up to the first stop and whether it was the policy's own, for a stop asked anew in each draft."""
        book, policy = self.book, self.policy
        passes, stopped = limit.copy(), np.zeros(len(at), bool)
        left = np.flatnonzero(limit > 0)
        for window in (*WINDOWS, UNBOUNDED):
            if not len(left):
                break
            most, where = limit[left], at[left]
            width = min(window, int(most.max()))
            signals = book.signals(self._player or policy, where, width)
            answer = stops_at(policy, signals, lanes_of(state, left))
            rule = np.zeros(signals.shape, bool) if answer is None else answer
            stops = rule if book.ends is None else rule | book.ends_at(where[:, None], np.arange(width))
            lane, first = np.arange(len(left)), stops.argmax(axis=1)
            hit = stops[lane, first] & (first < most)
            found = np.where(hit, first + 1, most)
            known = hit | (most <= width)
            outran = known & book.missing(where, found)
            self.reads |= signals.were_read
            if signals.were_read and self._player is None:
                book.require(where[outran], found[outran])
            self.unrecorded += int(outran.sum())
            passes[left[known]] = found[known]
            stopped[left[known]] = (hit & rule[lane, first])[known]
            left = left[~known]
        return passes, stopped


def _stopped(book: Book, scan: Natural, at: np.ndarray, passes: np.ndarray) -> np.ndarray:
    """Whether the rule of ``scan`` ends drafts of ``passes`` tokens from ``at`` with their last one, bool like them."""
    if scan.rule is None:
        return np.zeros(len(at), bool)
    return (passes > 0) & scan.rule[book.address(at, passes - 1)]


def _walk_in_numbers(book: Book, policy: InOrder, scan: Natural | None, cost: Prices | None) -> Rows:
    """Text by text, in plain numbers: where each draft could end is known beforehand at every position."""
    rules = [] if scan is not None else [_everywhere(book, policy, rule) for rule in policy.rules()]
    scans = rules or [scan or Natural(book.unstopped, None, False)]
    at, drafted = walk_in_numbers(book, policy, cost, [each.length for each in scans])
    reads = policy.signal != "" or any(each.reads for each in scans)
    return _rows(book, policy, scans[0]._replace(reads=reads), at, drafted, drafted, 0)


def _everywhere(book: Book, policy: Policy, rule: Policy) -> Natural:
    """`natural` of a ``rule`` without memory that ``policy`` plays, which may look back over the draft too."""
    if judges_alone(rule):
        return natural(book, rule, policy)
    walker, budget = _Walker(book, rule, None, policy), budget_of(rule, ())
    blocks = np.split(np.arange(book.size), np.arange(BLOCK, book.size, BLOCK))
    length = np.concatenate([walker.draft(at, budget, ())[0] for at in blocks])
    return Natural(length, None, walker.reads)


def _walk_in_order(book: Book, policy: Policy, scan: Natural | None, cost: Prices | None) -> Rows:
    """Text by text: the policy's state lives on from one to the next."""
    table, walker = _Table(book, policy), _Walker(book, policy, scan)
    state = ask(policy, "start", 1, cost)
    for at in book.starts[:, None]:
        state = after_prompt(policy, walker.walk(at, state, table), cost)
    return _rows(book, policy, scan, *table.rows(), walker.unrecorded)


def _walk_counting(
    book: Book, policy: Policy, scan: Natural, cost: Prices | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Iteration by iteration, for a policy whose state follows from outcomes alone: (at, drafted, passes, 0).

    Arrays of one lane would cost tens of microseconds an iteration, so the policy is asked once for each transition
    that comes up, and a transition that is known costs a look-up.  Raises `Unseen` where an update reads signals.
    """
    states, learns, sends = States(policy, cost), overrides(policy, "update"), overrides(policy, "send")
    stopped = _stopped(book, scan, np.arange(book.size), scan.length).data if sends else None
    limits, run = (np.ascontiguousarray(values).data for values in (scan.length, book.accepted_run))
    budgets, number = states.budgets, states.start
    following: dict[tuple[int, int, int], int] = {}
    sent_of_passes: dict[tuple[int, int, bool], int] = {}
    visited: list[int] = []
    lengths: list[int] = []
    paid: list[int] = []
    for start in book.starts.tolist():
        at, end = start, int(book.end[start])
        while at < end:
            drafted, most = limits[at], budgets[number]
            stops = drafted <= most
            if not stops:
                drafted = most
            if stopped is not None:
                paid.append(drafted)
                key = number, drafted, stops and stopped[at]
                if key not in sent_of_passes:
                    sent_of_passes[key] = states.sent(*key)
                drafted = sent_of_passes[key]
            accepted = run[at]
            if accepted > drafted:
                accepted = drafted
            visited.append(at)
            lengths.append(drafted)
            if learns:
                step = number, drafted, accepted
                if step not in following:
                    following[step] = states.after(*step)
                number = following[step]
            at += accepted + 1
        number = states.next_prompt(number)
    rows = np.array(lengths, dtype=np.int64)
    return np.array(visited, dtype=np.int64), rows, np.array(paid, dtype=np.int64) if sends else rows, 0
