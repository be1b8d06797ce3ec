"""Agreements of made-up texts, where the truth is known, and the oracle's iterations that follow from them."""

from __future__ import annotations

import numpy as np

from analysis.describe.statistics import Sample
from oracle.records.outcomes import Outcomes, chain_runs


def coins(prompts: int, length: int, acceptance: float | np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Independent agreements, bool [prompts, length]; ``acceptance`` of all, or [prompts, 1]."""
    return rng.random((prompts, length)) < acceptance


def beta(prompts: int, length: int, mean: float, sd: float, rng: np.random.Generator) -> np.ndarray:
    """Agreements that are independent within prompts, whose acceptances follow a beta distribution."""
    concentration = mean * (1 - mean) / sd**2 - 1
    return coins(prompts, length, rng.beta(mean * concentration, (1 - mean) * concentration, (prompts, 1)), rng)


def markov(prompts: int, length: int, acceptance: float, correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Agreements of which neighbours within a prompt have this correlation."""
    found = coins(prompts, length, acceptance, rng)
    kept = rng.random((prompts, length)) < correlation  # as the token before it
    for at in range(1, length):
        found[:, at] = np.where(kept[:, at], found[:, at - 1], found[:, at])
    return found


def sample(agrees: np.ndarray, length: int | np.ndarray | None = None, most: int | None = None) -> Sample:
    """The oracle's iterations of texts that agree so (bool [prompts, tokens]); a text ends after its ``length``.

    ``most``: as a round draft's record has them, runs up to so many tokens.
    """
    prompts, width = agrees.shape
    lengths = np.broadcast_to(width if length is None else length, prompts)
    flat = agrees[np.arange(width) < lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    run = chain_runs(flat, offsets)
    found = Outcomes(offsets, run if most is None else np.minimum(run, most), lengths, np.full(prompts, 16), most)
    at = found.starts
    everywhere = np.add.reduceat(found.accepted, offsets[:-1])
    return Sample(found.prompt_of[at], found.accepted[at], found.censored[at], lengths, everywhere)
