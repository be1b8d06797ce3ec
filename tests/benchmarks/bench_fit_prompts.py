"""How often the intervals of fits and of Kaplan-Meier hold the truth where the acceptance differs between prompts.

``python tests/benchmarks/bench_fit_prompts.py [seeds] [prompts ...] [families ...]`` prints the coverage of the 95 %
intervals over prompts, and of those that take iterations as independent, for texts whose acceptances follow a beta
distribution.  The truth is what a fit to 40,000 such texts finds.  All families but the slow mixture where none is
named.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from analysis.fit.distributions import FAMILIES, Counts, fit, kaplan_meier  # noqa: E402
from tests.builders.flips import beta, sample  # noqa: E402

MEAN, LENGTH = 0.8, 64
PLACES = (1, 3, 6, 12)  # where the survival is looked at


def tables(prompts: int, sd: float, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """The same runs with and without their prompts."""
    found = sample(beta(prompts, LENGTH, MEAN, sd, rng))
    known = Counts.from_samples(found.accepted, found.censored, found.prompt)
    return known, Counts(known.events, known.censored)


def numbers(counts: Counts, families: list[str]) -> dict[str, tuple[float, float, float]]:
    """(value, low, high) of each parameter and of the survival, by name."""
    found = {
        f"{family} {name}": (each.value, each.low, each.high)
        for family in families
        for name, each in fit(counts, family).parameters.items()
    }
    km = kaplan_meier(counts)
    for k in PLACES:
        if k < km.k.size:
            found[f"P(SL >= {k})"] = (km.survival[k], km.low[k], km.high[k])
    return found


def coverage(seeds: int, prompts: int, sd: float, families: list[str]) -> None:
    _, many = tables(40_000, sd, np.random.default_rng(99))
    truth = {name: value for name, (value, _, _) in numbers(many, families).items()}
    inside = {name: np.zeros(2) for name in truth}
    for seed in range(seeds):
        for which, counts in enumerate(tables(prompts, sd, np.random.default_rng([prompts, seed]))):
            for name, (_, low, high) in numbers(counts, families).items():
                inside[name][which] += low <= truth[name] <= high
    for name, counted in inside.items():
        over, alone = counted / seeds
        print(f"{prompts} prompts, SD {sd}, {name}: {over:.3f} over prompts, {alone:.3f} as independent", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    named = [each for each in given if each in FAMILIES]
    times, *counts_of_prompts = [int(each) for each in given if each not in FAMILIES] or [500]
    for count in counts_of_prompts or [5, 10, 20, 60]:
        for spread in (0.05, 0.1):
            coverage(times, count, spread, named or [each for each in FAMILIES if each != "geometric-mixture"])
