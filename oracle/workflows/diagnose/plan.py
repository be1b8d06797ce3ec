"""A budget of seconds as prompts, repeats and lengths: pure functions of what a quick probe found."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oracle.measure import WARM_UP

LENGTHS = (128, 96, 64, 48, 32)  # limits of a text that are tried, the longest one first
FEW = 6  # prompts to clock, in tuning and in the check, before texts are made longer
FEW_RECORDED = 10  # the same of recorded ones: of fewer a gain over a fixed length has no interval
REPEAT_FROM = 24  # prompts to clock before a call is made three times: more prompts tell more than more repeats
REPEATS = (3, 5)  # calls each where there are many prompts, and at most where there are no more prompts
MOST_RECORDED = 200  # prompts to record for the tuning
LEAST = 4  # prompts in all, two of them for the check: one prompt says nothing of others
# Of the time that there is for models.  Prices need few calls, and the check clocks the default again; which setting is
# best hangs on how many prompts were recorded, one of which costs a third of one that is clocked, or less.
TUNING, RECORDING, CHECK = 0.25, 0.3, 0.45
_OVERHEAD, _OVERHEAD_EACH = 8.0, 8.0  # seconds of computing: once, and for each draft
_RECORD = {"plain": 0.5, "assisted": 1.6}  # price of recording a prompt, in plain calls


@dataclass(frozen=True)
class Speed:
    """What the probe clocked; seconds."""

    prefill: float  # of a call, up to its first token
    step: float  # a further token without a draft
    drawn: float  # a further token with a draft of lengths drawn anew each time, which prices are fitted on
    texts: tuple[tuple[int, bool], ...]  # of each text: its tokens, and whether it came to its own end

    def tokens(self, limit: int) -> float:
        """Mean length of the texts under a limit: one that did not end by itself would go on to it."""
        return sum(min(size, limit) if ended else limit for size, ended in self.texts) / len(self.texts)

    def plain(self, limit: int) -> float:
        """A call without a draft."""
        return self.prefill + self.step * self.tokens(limit)

    def random(self, limit: int) -> float:
        """A call with drawn lengths."""
        return self.prefill + self.drawn * self.tokens(limit)

    def drafted(self, limit: int) -> float:
        """A call with any other policy: somewhere between the two."""
        return (self.plain(limit) + self.random(limit)) / 2


@dataclass(frozen=True)
class Plan:
    """What is done for each draft, and how much is left for the check."""

    recorded: int  # prompts that settings are tuned on
    measured: int  # the first of these, which are clocked too
    repeats: int  # calls of each kind on each of those
    max_new_tokens: int
    kept: int  # other prompts, at most so many, for the check
    seconds: float  # that all of it is expected to take


class TooShort(ValueError):
    """A budget that the least of all plans would not keep to."""


def plan(
    speed: Speed,
    budget: float,
    available: int,
    drafts: int = 1,
    length: int | None = None,
    *,
    spent: float = 0.0,
    reference: str = "plain",
    strict: bool = True,
) -> Plan:
    """What to do in ``budget`` seconds: texts as long as some prompts allow, then prompts, then repeats.

    ``length`` is a limit of the texts that somebody asked for; so many seconds are ``spent`` already.  Raises
    `TooShort`, a ValueError, with the least that would do (where not ``strict``, the least is done), and ValueError for
    fewer than `LEAST` prompts.
    """
    expect_prompts(available)
    seconds = budget - spent
    tried = LENGTHS if length is None else (length,)
    works = [_Work(speed, limit, available, drafts, reference) for limit in tried]
    for work in works:
        if work.fits(seconds, FEW):
            return work.plan(seconds, FEW)
    if works[-1].fits(seconds, 2) or not strict:
        return works[-1].plan(seconds, 2)
    least = spent + works[-1].least
    raise TooShort(
        f"a budget of {told(budget)} is too small: {'one draft' if drafts == 1 else f'{drafts} drafts'} with texts "
        f"of at most {tried[-1]} tokens take at least about {told(least)} here; give --budget {_rounded_up(least)}"
        + ("" if length is None or length <= LENGTHS[-1] else " or a smaller --max-new-tokens")
    )


def check_row(plain: float, drafted: float, policies: int, reference: str) -> float:
    """Seconds that a prompt of the check takes: recorded, then clocked without a draft and with each policy."""
    return (1 + _RECORD[reference]) * plain + policies * drafted


def check_warm_up(plain: float, drafted: float, policies: int, limit: int) -> float:
    """Seconds of the calls before those that count, which are cut at ``WARM_UP`` tokens."""
    return (plain + policies * drafted) * min(1.0, WARM_UP / limit)


def check_plan(seconds: float, row: float, kept: int) -> tuple[int, int]:
    """Prompts (at least 2) and repeats of the check, where all calls on a prompt take ``row`` seconds."""
    return _shape(max(2, int(seconds / row)) if row > 0 else kept, kept)


def expect_prompts(available: int, left_out: str = "") -> None:
    """Raise ValueError for fewer prompts than can be dealt into two parts that each say something."""
    if available < LEAST:
        more = f" ({left_out})" if left_out else ""
        raise ValueError(
            f"{available} usable prompt{'' if available == 1 else 's'}{more}: a setting is chosen on some prompts and "
            f"checked on others, so at least {LEAST} are needed, and from 20 on the answer is worth something; give "
            "more prompts"
        )


@dataclass(frozen=True)
class _Work:
    """What things take under one limit of the texts."""

    speed: Speed
    limit: int
    available: int
    drafts: int
    reference: str

    @property
    def row(self) -> float:
        """Clocking a prompt for one draft: plain, the library's default, a constant, two that draw."""
        return self.speed.plain(self.limit) + 2 * self.speed.drafted(self.limit) + 2 * self.speed.random(self.limit)

    @property
    def record(self) -> float:
        return _RECORD[self.reference] * self.speed.plain(self.limit)

    @property
    def check(self) -> float:
        """Checking a prompt: plain and three policies, and recording it."""
        return check_row(self.speed.plain(self.limit), self.speed.drafted(self.limit), 3, self.reference)

    @property
    def fixed(self) -> float:
        """What is spent whatever the number of prompts."""
        warm = 5 * self.drafts + 4
        return _OVERHEAD + _OVERHEAD_EACH * self.drafts + warm * self.speed.drafted(min(WARM_UP, self.limit))

    @property
    def least(self) -> float:
        return self.fixed + self._spent(2, 2, 2)

    def fits(self, seconds: float, prompts: int) -> bool:
        """Whether so many prompts (or all that there are) can be clocked in both parts."""
        checked = min(prompts, self.available - self._tuning)
        return self.fixed + self._spent(min(prompts, self._tuning), self._recorded(prompts), checked) <= seconds

    def plan(self, seconds: float, prompts: int) -> Plan:
        """Where so many prompts in both parts fit."""
        work, checked = seconds - self.fixed, min(prompts, self.available - self._tuning)
        cells = max(min(prompts, self._tuning), int(TUNING * work / self.drafts / self.row))
        measured, repeats = _shape(cells, self._tuning)
        left = work - self.drafts * measured * repeats * self.row - checked * self.check
        recorded = int(min(RECORDING * work, left) / self.drafts / self.record)
        recorded = max(measured, self._recorded(prompts), min(MOST_RECORDED, self._tuning, recorded))
        left += checked * self.check - self.drafts * recorded * self.record
        kept, again = _shape(max(checked, int(min(CHECK * work, left) / self.check)), self.available - recorded)
        spent = self.fixed + self._spent(measured * repeats, recorded, kept * again)
        return Plan(recorded, measured, repeats, self.limit, self.available - recorded, spent)

    def _recorded(self, prompts: int) -> int:
        """How many are recorded at least where so many are clocked."""
        return min(self._tuning, prompts if prompts < FEW else max(prompts, FEW_RECORDED))

    @property
    def _tuning(self) -> int:
        """Most prompts for the tuning: some six of ten where there are few."""
        return min(self.available - 2, max(2, math.ceil(0.6 * self.available)))

    def _spent(self, cells: int, recorded: int, checked: int) -> float:
        return self.drafts * (cells * self.row + recorded * self.record) + checked * self.check


def _shape(cells: int, most: int) -> tuple[int, int]:
    """So many calls of a kind as (prompts, repeats), of ``most`` prompts."""
    usual, limit = REPEATS
    if cells >= usual * min(REPEAT_FROM, most):
        repeats = usual
        while repeats < limit and cells >= (repeats + 1) * most:
            repeats += 1
        return min(most, cells // repeats), repeats
    return min(cells, most), 1


def told(seconds: float) -> str:
    """40 s, 5 min, 1.5 h."""
    if seconds < 90:
        return f"{max(1, math.ceil(seconds))} s"
    return f"{math.ceil(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _rounded_up(seconds: float) -> str:
    """As it is written on the command line."""
    return f"{10 * math.ceil(seconds / 10)}s" if seconds < 90 else f"{math.ceil(seconds / 60)}m"
