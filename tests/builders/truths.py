"""Traces whose truth is known: where acceptance varies, and whether the confidence foretells it."""

from __future__ import annotations

import dataclasses

import numpy as np

from builders.flips import beta, coins, markov
from builders.synthetic import synthetic
from oracle.records.trace import Trace

LENGTH, ACCEPTANCE = 64, 0.8
TRUTHS = ("coins", "between", "within", "both", "signal")


def known(truth: str, prompts: int, seed: int) -> Trace:
    """``prompts`` texts of one of the `TRUTHS`.

    coins: i.i.d. acceptance, useless signals; between: acceptance differs by prompt; within: a Markov chain;
    both: such chains whose acceptance differs by prompt; signal: coins, and a confidence that foretells each.
    """
    rng = np.random.default_rng(seed)
    if truth in ("coins", "signal"):
        agrees = coins(prompts, LENGTH, ACCEPTANCE, rng)
    elif truth == "between":
        agrees = beta(prompts, LENGTH, ACCEPTANCE, 0.15, rng)
    elif truth == "within":
        agrees = markov(prompts, LENGTH, ACCEPTANCE, 0.5, rng)
    else:
        agrees = markov(prompts, LENGTH, rng.choice([0.6, 0.95], (prompts, 1)), 0.5, rng)
    base = synthetic(prompts, LENGTH, seed=seed)
    flat = agrees.ravel()
    wrong = np.flatnonzero(~flat)
    room = np.clip(LENGTH - wrong % LENGTH - 2, 0, 32)
    offsets = np.concatenate([[0], np.cumsum(room)])
    signals = _signals(flat, truth == "signal", rng)
    after = _signals(rng.random(offsets[-1]) < 0, truth == "signal", rng)
    tokens = rng.integers(1, 1000, offsets[-1]).astype(np.int32)
    over = dataclasses.replace(base.overruns, position=wrong, offsets=offsets, tokens=tokens, **after)
    draft = np.where(flat, base.target_tokens, 1000).astype(np.int32)
    return dataclasses.replace(base, draft_tokens=draft, overruns=over, **signals)


def _signals(agrees: np.ndarray, useful: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
    # A confidence that is high where the token will be accepted, and low elsewhere, with some noise between them.
    level = rng.beta(np.where(agrees, 5.0, 1.5), np.where(agrees, 1.5, 5.0)) if useful else rng.random(len(agrees))
    confidence = level.astype(np.float32)
    return {"confidence": confidence, "entropy": 1 - confidence, "margin": confidence / 2}
