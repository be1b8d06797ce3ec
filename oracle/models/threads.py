"""How many processor threads to run a pair on, found by trying: torch's own choice is one a core.

A small model is slower on two threads than on one, and on a machine that does something else besides, much slower:
whoever waits for the last thread waits for the other job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from oracle.models.pair import Pair
    from oracle.models.view import View

SECONDS = 0.3  # that trying one number takes, about, beyond the first passes
FEWEST, MOST = 3, 30  # passes of each number that is tried
ENOUGH = 1.1  # fewer threads are taken where more of them are not faster than by this


@dataclass(frozen=True)
class Choice:
    """How many threads were chosen, and what a draft step and a target step take on each number that was tried."""

    threads: int
    seconds: dict[int, float]

    def __str__(self) -> str:
        tried = ", ".join(f"{1000 * each:.3g} ms on {number}" for number, each in self.seconds.items())
        return f"{self.threads} (a token of both models takes {tried}; --threads sets another)"


def choose(pair: Pair, clock: Callable[[], float] = time.perf_counter) -> Choice | None:
    """Try one thread, half of torch's and all of them, and set the number that is best.

    None, and nothing is changed, where there is nothing to choose: one core, or models that run elsewhere.
    """
    import torch

    from oracle.models.decoding import neutral

    most = torch.get_num_threads()
    views = _on_processor(pair)
    if most == 1 or not views:
        return None
    seconds: dict[int, float] = {}
    with torch.inference_mode(), neutral(pair):
        for threads in sorted({1, most // 2, most}):
            torch.set_num_threads(threads)
            _passes(views)  # the first one makes what later ones find made
            begun, count = clock(), 0
            while count < FEWEST or (count < MOST and clock() - begun < SECONDS):
                _passes(views)
                count += 1
            seconds[threads] = (clock() - begun) / count
    best = min(seconds.values())
    chosen = next(number for number, each in seconds.items() if each <= ENOUGH * best)
    torch.set_num_threads(chosen)
    return Choice(chosen, seconds)


def _on_processor(pair: Pair) -> list[View]:
    from oracle.models.view import views

    found = views(pair)
    return list(found) if all(view.device.type == "cpu" for view in found) else []


def _passes(views: list[View]) -> None:
    """One token read by each model; an encoder reads it as the prompt of an empty text."""
    import torch

    prompt = np.zeros(1, np.int64)
    for view in views:
        view.after(torch.from_numpy(view.opening(prompt)), prompt)
