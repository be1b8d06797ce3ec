"""What a draft from each position would say, as addresses into flat arrays: how a trace holds it is known only here."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from dataclasses import dataclass, field

import numpy as np

from oracle.policies.contract import SIGNALS, Policy, Signals, Unavailable
from oracle.records.trace import Rounds, Trace, next_true, nothing_after

UNBOUNDED = np.iinfo(np.int64).max // 4
_BOOKS: dict[int, Book] = {}


class NotRecorded(Unavailable):
    """The trace lacks what a policy needs: a whole signal, what comes after a recorded overrun, or the end of a run."""


@dataclass(frozen=True, eq=False, repr=False)
class Book:
    """Where token k of the draft from position t stands, and how far it is known; N positions, V flat entries.

    Its address is t + k while k < text[t], and over[t] + k while k < recorded[t]; else V, an entry that stands for all
    that is not recorded.  In a trace of kind *chain* the first part is the text up to the draft's first disagreement
    and the second its overrun; in one of kind *round* a draft depends on where it began, and all of it stands in the
    second.
    """

    text: np.ndarray  # int64 [N]
    over: np.ndarray  # int64 [N]
    recorded: np.ndarray  # int64 [N]
    row: np.ndarray  # int64 [N], number of the overrun that the second part is, -1 where there is none
    offsets: np.ndarray  # int64 [rows + 1], entries of the overruns, counted from the first overrun on
    missed: np.ndarray  # bool [N], the draft leaves the text before its end: what is not recorded is not known
    run: np.ndarray  # int64 [N], leading tokens on which draft and target agree, end of text included
    accepted_run: np.ndarray  # int64 [N], the same, the last token of the text left to the target
    room: np.ndarray  # int64 [N], most tokens that a drafter may, or can, propose
    end: np.ndarray  # int64 [N], position just after the text
    starts: np.ndarray  # int64 [P], first position of each text
    sure: np.ndarray | None  # int64 [N], most tokens of which it is known how many are accepted; None: of any number
    max_overrun: int | None  # None: of rounds
    ends: np.ndarray | None  # bool [V], the token ends a draft as EOS; None: no recorded one does
    parts: dict[str, tuple[np.ndarray | None, ...]]  # signal -> the arrays that make up its V entries
    tops: tuple[np.ndarray, np.ndarray] | None = None  # float32 [entries, top_k] each: the two parts
    mute: bool = False  # the draft gives no probabilities at all
    _joined: dict[str, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def of(trace: Trace) -> Book:
        """The book of a trace, made once for as long as the trace lives."""
        key = id(trace)
        if key not in _BOOKS:
            _BOOKS[key] = _chain(trace) if trace.rounds is None else _round(trace, trace.rounds)
            weakref.finalize(trace, _BOOKS.pop, key, None)
        return _BOOKS[key]

    @property
    def size(self) -> int:
        return len(self.run)

    @functools.cached_property
    def entries(self) -> int:
        """V."""
        return self._base + int(self.offsets[-1])

    @functools.cached_property
    def known(self) -> np.ndarray:
        """Most tokens of each position's draft that do not outrun the record, int64 [N]."""
        # At the end of a text that stopped at the length limit the budget clips first: nothing is missing there.
        return np.where(self.missed, self.recorded, UNBOUNDED)

    @functools.cached_property
    def unstopped(self) -> np.ndarray:
        """Tokens of each position's draft that nothing but EOS and the room for it ends, int64 [N]."""
        return self.room if self.ends is None else np.minimum(self.first(self.ends), self.room)

    def address(self, at: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Of tokens ``k`` of the drafts from positions ``at``, int64; the two broadcast."""
        found = np.where(k < self.text[at], at, self.over[at])
        found += k
        np.copyto(found, self.entries, where=k >= self.recorded[at])
        return found

    def ends_at(self, at: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Whether tokens ``k`` of the drafts from ``at`` are known to be EOS, bool; only where there are ``ends``."""
        return self._ends_and_void[self.address(at, k)]

    @functools.cached_property
    def _ends_and_void(self) -> np.ndarray:
        return np.append(np.zeros(self.entries, bool) if self.ends is None else self.ends, False)

    def first(self, stops: np.ndarray) -> np.ndarray:
        """Tokens of each position's draft up to and with the first entry where ``stops`` (bool [V]) holds, int64 [N].

        `UNBOUNDED` where no recorded one does.
        """
        # The overruns hold several times the text's tokens: look up, never scan backwards.
        hits = np.append(np.flatnonzero(stops[self._base :]), UNBOUNDED)
        into = hits[np.searchsorted(hits, self.offsets[:-1])] - self.offsets[:-1]
        tail = np.append(
            np.where(into < np.diff(self.offsets), into + 1, UNBOUNDED), UNBOUNDED
        )  # of each overrun; of none
        length = self.text + tail[self.row]
        if self._base:
            within = next_true(stops[: self._base]) - np.arange(self.size)
            length = np.where(within < self.text, within + 1, length)
        return np.minimum(length, UNBOUNDED)

    def column(self, name: str, reader: object) -> np.ndarray:
        """A signal of all V entries, then NaN for what is not recorded, float32 [V + 1].

        `NotRecorded` where the trace lacks it.
        """
        parts = [part for part in self.parts[name] if part is not None]
        if len(parts) < len(self.parts[name]):
            who = f"policy {reader}" if isinstance(reader, Policy) else reader
            why = "n-gram lookup gives no probabilities" if self.mute else "collect one that has it"
            raise NotRecorded(
                f"this trace has no {name}: {who} needs it for every drafted token; "
                f"{why}, {'so' if self.mute else 'or'} take a policy that does without {name}"
            )
        if name not in self._joined:
            self._joined[name] = np.concatenate([*parts, np.full(1, np.nan, np.float32)])
        return self._joined[name]

    def top(self, k: int, reader: object) -> np.ndarray:
        """The ``k`` largest probabilities of all V entries, then NaN for what is not recorded, float32 [V + 1, k]."""
        if self.tops is None or self.tops[0].shape[1] < k:
            if self.mute:
                self.column("confidence", reader)  # says why
            held = (
                "no probabilities" if self.tops is None else f"only the {self.tops[0].shape[1]} largest probabilities"
            )
            raise NotRecorded(
                f"this trace has {held} beside the token's own: policy {reader} needs the {k} largest; "
                f"collect one with --top-k {k}"
            )
        if "top" not in self._joined:
            void = np.full((1, self.tops[0].shape[1]), np.nan, np.float32)
            self._joined["top"] = np.concatenate([*self.tops, void])
        return self._joined["top"][:, :k]

    def signals(self, reader: object, at: np.ndarray, width: int) -> Signals:
        """Of the first ``width`` tokens of the drafts from ``at`` (int64 [lanes]), fetched when they are read."""
        # Array operations are quick along their last axis: that had better be the many lanes than a few tokens.
        place = functools.cache(lambda: self.address(at, np.arange(width)[:, None]).T)
        return Signals(
            (len(at), width),
            lambda name: self.column(name, reader).take(place()),
            lambda k: self.top(k, reader).take(place(), axis=0),
        )

    def whole_signals(self, policy: Policy, at: np.ndarray, drafted: np.ndarray) -> Signals:
        """Of all ``drafted`` tokens (int64 [lanes]); reading them where they are not recorded raises `NotRecorded`."""
        signals = self.signals(policy, at, int(drafted.max(initial=0)))

        def read(name: str) -> np.ndarray:
            self.require(at, drafted)
            return getattr(signals, name)

        def top(k: int) -> np.ndarray:
            self.require(at, drafted)
            return signals.top(k)

        return Signals(signals.shape, read, top)

    def all_signals(self, policy: Policy) -> Signals:
        """Of every entry, each a draft of one token: [V, 1]."""
        return Signals(
            (self.entries, 1),
            lambda name: self.column(name, policy)[:-1, None],
            lambda k: self.top(k, policy)[:-1, None],
        )

    def missing(self, at: np.ndarray, drafted: np.ndarray) -> np.ndarray:
        """Whether drafts of ``drafted`` tokens from ``at`` outrun the record, bool like them."""
        return drafted > self.known[at]

    def require_outcomes(self, at: np.ndarray, sent: np.ndarray) -> None:
        """Raise `NotRecorded` unless it is known how many of ``sent`` tokens from positions ``at`` are accepted."""
        if self.sure is not None and np.any(sent > self.sure[at]):
            most, longest = int(self.sure.min()), int(sent[sent > self.sure[at]].max())
            raise NotRecorded(
                f"this policy sends {longest} tokens where all {most} that the trace recorded of a round are accepted: "
                f"what becomes of more is not known; lower its tokens to {most}, or record longer rounds"
            )

    def require(self, at: np.ndarray, drafted: np.ndarray) -> None:
        """Raise `NotRecorded` unless every token of these drafts is recorded."""
        missing = self.missing(at, drafted)
        if missing.any() and self.max_overrun is None:
            first = int(missing.argmax())
            raise NotRecorded(
                f"this policy reads {int(drafted[first])} tokens of a round of which {int(self.recorded[at[first]])} "
                "are "
                "recorded; lower the policy's tokens, or record longer rounds"
            )
        if missing.any():
            needed = int((drafted - self.run[at] - 1)[missing].max())
            raise NotRecorded(
                f"this policy reads signals {needed} tokens after a disagreement, the trace recorded "
                f"{self.max_overrun}; collect again with --max-overrun {needed}, or lower the policy's tokens"
            )

    @property
    def _base(self) -> int:
        """Entries of the first part: those of the text, or none."""
        return self.size if self.text.any() else 0


def _chain(trace: Trace) -> Book:
    over = trace.overruns
    if over is None:
        over = nothing_after(trace)
        trace = dataclasses.replace(trace, overruns=over)
    row = trace.next_overrun
    missed = row >= 0
    text = trace.run + missed
    size, first = (np.append(values, 0) for values in (np.diff(over.offsets), over.offsets[:-1]))
    ends = np.concatenate([trace.draft_ends, trace.overrun_ends])
    return _book(
        trace,
        room=trace.budget,
        text=text,
        over=trace.tokens + first[row] - text,
        recorded=text + np.where(missed, size[row], 0),
        row=row,
        offsets=over.offsets,
        ends=ends if ends.any() else None,
        parts={name: (getattr(trace, name), getattr(over, name)) for name in SIGNALS},
        tops=_tops(trace),
    )


def _tops(trace: Trace) -> tuple[np.ndarray, np.ndarray] | None:
    """The largest probabilities of the text's positions and of the overruns, float32 [entries, top_k] each."""
    found, size = [trace.extra.get(name) for name in ("draft_top", "draft_top_after")], trace.meta.get("top_k", 0)
    if found[0] is None or found[1] is None:
        return None
    return found[0].values.reshape(-1, size), found[1].values.reshape(-1, size)


def _round(trace: Trace, rounds: Rounds) -> Book:
    offsets = np.zeros(trace.tokens + 1, np.int64) if rounds.offsets is None else rounds.offsets  # run lengths alone
    ends = None if rounds.tokens is None else np.isin(rounds.tokens, trace.eos_token_ids)
    return _book(
        trace,
        room=_room(trace, rounds),
        text=np.zeros(trace.tokens, np.int64),
        over=offsets[:-1],
        recorded=np.diff(offsets),
        row=np.arange(trace.tokens),
        offsets=offsets,
        ends=ends if ends is not None and ends.any() else None,
        parts={name: (getattr(rounds, name),) for name in SIGNALS},
    )


def _room(trace: Trace, rounds: Rounds) -> np.ndarray:
    """`Book.room` of a round draft, int64 [N], by what its meta says of where rounds end."""
    clipped, ends = trace.meta.get("round_clipped", True), trace.meta.get("round_ends", False)
    room = trace.budget if clipped else np.where(trace.budget > 0, UNBOUNDED, 0)
    if not ends or rounds.offsets is None:
        return room
    size = np.diff(rounds.offsets)
    return np.minimum(room, np.where(size < rounds.limit, size, UNBOUNDED))


def _book(trace: Trace, **addresses) -> Book:
    return Book(
        missed=np.arange(trace.tokens) + trace.run < trace.end,
        sure=_sure(trace),
        run=trace.run,
        accepted_run=trace.accepted_run,
        end=trace.end,
        starts=trace.offsets[:-1],
        max_overrun=trace.max_overrun if trace.rounds is None else None,
        mute=trace.mute,
        **addresses,
    )


def _sure(trace: Trace) -> np.ndarray | None:
    """`Book.sure`: a run as long as the record of rounds goes may be longer, where the text leaves room for that."""
    if trace.rounds is None:
        return None
    left = trace.end - np.arange(trace.tokens) - 1
    return np.where((trace.run >= trace.rounds.limit) & (trace.run < left), trace.run, UNBOUNDED)


def known_draft(trace: Trace, at: int, limit: int, reader: str) -> Signals:
    """Signals [1, k] of the first k <= ``limit`` tokens of the draft from flat position ``at``, all of them known."""
    book = Book.of(trace)
    return book.signals(reader, np.array([at]), min(limit, int(book.recorded[at])))
