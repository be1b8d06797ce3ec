"""What becomes of a draft from each position of each text, whatever kind of draft it is: all that analysis reads.

Of a *chain* draft the choice depends on the text before it alone, so its runs follow from where it agrees; of a *round*
draft it depends on where the round began, so its runs are recorded for each start.  Either way r(t) is how many tokens
would be accepted if drafting from t never stopped.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, repr=False)
class Outcomes:
    """Of P texts with N tokens; positions are flat indices."""

    offsets: np.ndarray  # int64 [P + 1], which positions are whose
    run: np.ndarray  # int64 [N], r(t), the end of the text included: 0 .. T - t
    max_new_tokens: np.ndarray  # int64 [P]
    prompt_lengths: np.ndarray  # int64 [P], tokens of the prompt
    most: int | None = None  # a run is recorded up to so many tokens; None: to its end

    @property
    def size(self) -> int:
        return len(self.run)

    @functools.cached_property
    def prompt_of(self) -> np.ndarray:
        """Prompt number of every position, int64 [N]."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @functools.cached_property
    def end(self) -> np.ndarray:
        """Flat index just after the text that each position belongs to, int64 [N]."""
        return self.offsets[1:][self.prompt_of]

    @functools.cached_property
    def context(self) -> np.ndarray:
        """Tokens before each position, prompt included, int64 [N]: the context length at which it is predicted."""
        return self.prompt_lengths[self.prompt_of] + self._local()

    @functools.cached_property
    def budget(self) -> np.ndarray:
        """Most tokens that a drafter may propose from each position, int64 [N]: max_new_tokens - emitted - 1."""
        return self.max_new_tokens[self.prompt_of] - self._local() - 1

    @functools.cached_property
    def accepted(self) -> np.ndarray:
        """Tokens accepted from each position if drafting never stopped, int64 [N].

        At most T - t - 1: the last token of a text always comes from the target (an accepted EOS counts as the bonus,
        and under a length limit the budget leaves room for one token of the target's).
        """
        return np.minimum(self.run, self.end - np.arange(self.size) - 1)

    @functools.cached_property
    def censored(self) -> np.ndarray:
        """Whether the end of the text, or of the record, cut the run from each position short, bool [N].

        The rule looks at lengths only, never at the draft's last choice, so that it does not select the runs that it
        keeps: a run that reaches the last position is known to be at least ``accepted`` long, no more.
        """
        at_end = np.arange(self.size) + self.accepted == self.end - 1
        return at_end if self.most is None else at_end | (self.accepted >= self.most)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Positions at which the oracle's iterations start, int64."""
        return chain(self.offsets, self.accepted + 1)

    def _local(self) -> np.ndarray:
        return np.arange(self.size) - self.offsets[self.prompt_of]


def chain_runs(agrees: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Run lengths of a chain draft from where it agrees (bool [N]), int64 [N]."""
    end = np.repeat(offsets[1:], np.diff(offsets))
    return np.minimum(next_true(~agrees), end) - np.arange(len(agrees))


def next_true(flags: np.ndarray) -> np.ndarray:
    """For each index the smallest index >= it where ``flags`` (bool [N]) is true, else N; int64 [N]."""
    size = len(flags)
    marked = np.where(flags, np.arange(size), size)
    return np.minimum.accumulate(marked[::-1])[::-1]


def chain(offsets: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Positions visited when every text is walked from its start by ``step`` (int [N], >= 1), int64.

    Following pointers is sequential by nature; over plain Python integers it costs some 50 ns a step.
    """
    following = (np.arange(len(step)) + step).tolist()
    visited: list[int] = []
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        at = start
        while at < end:
            visited.append(at)
            at = following[at]
    return np.array(visited, dtype=np.int64)
