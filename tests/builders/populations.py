"""Populations of prompts whose acceptance is known, to draw data sets from: does an interval hold the truth?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.describe.statistics import Sample
from analysis.intervals import Estimate


def iid(rng: np.random.Generator, prompts: int, tokens: int) -> np.ndarray:
    """Agreements of each prompt, bool [prompts, tokens]: coin flips of .8."""
    return rng.random((prompts, tokens)) < 0.8


def between(rng: np.random.Generator, prompts: int, tokens: int) -> np.ndarray:
    """A rate of its own for each prompt, .76 on average, some near 1."""
    return rng.random((prompts, tokens)) < rng.beta(8, 2.5, prompts)[:, None]


def within(rng: np.random.Generator, prompts: int, tokens: int) -> np.ndarray:
    """Easy stretches (.95) and hard ones (.55) of 20 tokens on average, the same for all prompts."""
    return rng.random((prompts, tokens)) < np.where(_stretches(rng, prompts, tokens), 0.95, 0.55)


def both(rng: np.random.Generator, prompts: int, tokens: int) -> np.ndarray:
    """Such stretches, and prompts that differ."""
    odds = np.where(_stretches(rng, prompts, tokens), 2.6, 0.2) + 0.8 * rng.standard_normal(prompts)[:, None]
    return rng.random((prompts, tokens)) < 1 / (1 + np.exp(-odds))


def _stretches(rng: np.random.Generator, prompts: int, tokens: int) -> np.ndarray:
    turned = np.cumsum(rng.random((prompts, tokens)) < 0.05, axis=1)
    return (turned + rng.integers(2, size=prompts)[:, None]) % 2 == 0


KINDS: Mapping[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "iid": iid,
    "between": between,
    "within": within,
    "both": both,
}


@dataclass(frozen=True)
class Population:
    """Iterations of each of P prompts, all of them in a row."""

    whole: Sample
    first: np.ndarray  # int64 [P + 1], row at which the iterations of a prompt begin

    @staticmethod
    def of(kind: str, prompts: int = 4000, tokens: int = 128, seed: int = 0) -> Population:
        """Texts of a quarter of ``tokens`` to ``tokens`` tokens; the last one of each is the target's own."""
        rng = np.random.default_rng(seed)
        agrees = KINDS[kind](rng, prompts, tokens)
        known = rng.integers(tokens // 4, tokens, prompts)
        accepted = [_runs(flags[:size]) for flags, size in zip(agrees, known, strict=True)]
        counts = np.array([len(runs) for runs in accepted])
        first = np.append(0, np.cumsum(counts))
        censored = np.zeros(first[-1], bool)
        censored[first[1:] - 1] = True
        everywhere = np.array([int((runs * (runs + 1) // 2).sum()) for runs in accepted])
        prompt = np.repeat(np.arange(prompts), counts)
        return Population(Sample(prompt, np.concatenate(accepted), censored, known + 1, everywhere), first)

    def draw(self, rng: np.random.Generator, prompts: int) -> Sample:
        """A data set of so many prompts."""
        chosen = rng.integers(len(self.first) - 1, size=prompts)
        rows = np.concatenate([np.arange(self.first[each], self.first[each + 1]) for each in chosen])
        prompt = np.repeat(np.arange(prompts), self.first[chosen + 1] - self.first[chosen])
        whole = self.whole
        return Sample(
            prompt, whole.accepted[rows], whole.censored[rows], whole.lengths[chosen], whole.over_positions[chosen]
        )


def _runs(flags: np.ndarray) -> np.ndarray:
    ends = np.append(np.flatnonzero(~flags), len(flags))
    return np.diff(ends, prepend=-1) - 1


def coverage(
    population: Population, numbers: Callable[[Sample], Mapping[str, Estimate]], prompts: int, draws: int
) -> dict[str, float]:
    """How often the intervals of ``numbers`` hold the population's own values, among those there are; NaN without."""
    truth, rng = numbers(population.whole), np.random.default_rng(prompts)
    held: dict[str, list[float]] = {name: [] for name in truth}
    for _ in range(draws):
        for name, found in numbers(population.draw(rng, prompts)).items():
            none = np.isnan(found.low) or np.isnan(found.high)
            held[name].append(np.nan if none else float(found.low <= truth[name].value <= found.high))
    return {name: float(np.nanmean(each)) if np.isfinite(each).any() else np.nan for name, each in held.items()}


def calibrated(
    rng: np.random.Generator, prompts: int, tokens: int = 64, tilt: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores, float [prompts, tokens], and outcomes, bool, whose chance moves ``tilt`` times as much as the score."""
    scores = rng.beta(2, 0.8, (prompts, tokens))
    return scores, rng.random(scores.shape) < np.clip(0.5 + tilt * (scores - 0.5), 0, 1)
