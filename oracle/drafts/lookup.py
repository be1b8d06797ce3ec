"""N-gram lookup: what followed the last tokens of a text where they first stood before.

The rule of transformers' ``PromptLookupCandidateGenerator`` (5.24): of n-gram sizes from the largest down, the leftmost
earlier occurrence of the last n tokens that anything follows; up to so many tokens of that, cut before one that ends a
text.  The first occurrence decides even where nothing is left of it then.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np


class Occurrences:
    """Where each n-gram of one growing text first stood; tokens that it has seen must not change."""

    def __init__(self, ngram: int, stop: Collection[int]) -> None:
        self._ngram, self._stop = ngram, frozenset(stop)
        self._after: dict[tuple[int, ...], int] = {}  # n-gram -> place of the token after its first occurrence
        self._known = 0  # places up to which n-grams are in there

    def candidates(self, text: Sequence[int], most: int) -> list[int]:
        """At most ``most`` tokens that may follow ``text``, the same as before with more at its end."""
        last = len(text) - 1
        for place in range(self._known + 1, last + 1):
            for size in range(1, min(self._ngram, place) + 1):
                self._after.setdefault(tuple(text[place - size : place]), place)
        self._known = max(self._known, last)
        for size in range(min(self._ngram, last), 0, -1):
            place = self._after.get(tuple(text[-size:]))
            if place is not None:
                return self._before_end(text[place : place + most])
        return []

    def _before_end(self, found: Sequence[int]) -> list[int]:
        ends = (at for at, token in enumerate(found) if token in self._stop)
        return list(found[: next(ends, len(found))])


def rounds(
    prompt: np.ndarray, text: np.ndarray, most: int, ngram: int, stop: Collection[int], limit: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of a round from each position of ``text`` (int [T]): tokens accepted (int32 [T]), and candidates (T arrays).

    A text of at most ``limit`` tokens has no round from its last token on: the library looks nothing up there.
    """
    known, size = [*prompt.tolist(), *text.tolist()], len(prompt)
    occurrences = Occurrences(ngram, stop)
    found, run = [], []
    for at in range(len(text)):
        said = occurrences.candidates(known[: size + at], most) if at + 1 < limit else []
        differs = (k for k, token in enumerate(said) if size + at + k >= len(known) or token != known[size + at + k])
        run.append(next(differs, len(said)))
        found.append(np.array(said, np.int32))
    return np.array(run, np.int32), found
