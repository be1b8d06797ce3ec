"""Fits a head to a trace by maximum likelihood, and says how well it does on prompts that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from analysis.train.samples import Samples, samples
from oracle.policies.heads import Acceptance, Head, Lines, inputs, top_inputs
from oracle.records.prompts import digests
from oracle.records.trace import Trace

UNITS = 6  # of the hidden layer
_DECAY = 1e-4  # weight of squared weights beside the mean loss
_HELD_OUT = 5  # every fifth prompt tells how well the rest fits


@dataclass(frozen=True)
class Trained:
    """A head, and its mean loss in nats a token on held-out prompts beside that of always saying the mean rate."""

    head: Head
    tokens: int  # that it was fitted to
    loss: float | None  # None where there are too few prompts to hold any out
    plain_loss: float | None


def train(trace: Trace, policy: str, tokens: int | None = None) -> Trained:
    """Fit the head of ``policy`` to every prompt of a trace, for drafts of up to ``tokens``.

    Raises ValueError for a policy that is not trained, or a trace with too little in it.
    """
    if policy not in FITS:
        raise ValueError(f"policy {policy!r} is not trained; legal: {', '.join(FITS)}")
    fit, usual = FITS[policy]
    longest = usual if tokens is None else tokens
    found = samples(trace, longest, f"training {policy}", with_top=policy == "disco")
    if not 0 < found.accepted.sum() < len(found):
        raise ValueError("this trace has no both accepted and refused draft tokens to learn from; collect longer texts")
    loss, plain_loss = _held_out(found, fit, longest)
    learned = fit(found, longest)[0]
    of = {role: (trace.meta.get(role) or {}).get("model") for role in ("target", "draft")}
    about = {"dataset": trace.dataset, "run_id": trace.meta.get("run_id"), **of, "tokens": len(found), "loss": loss}
    return Trained(Head(policy, frozenset(digests(trace)), learned, about), len(found), loss, plain_loss)


Chance = Callable[[Samples], np.ndarray]  # of acceptance, float64 [S]
Fit = Callable[[Samples, int], tuple[Acceptance | Lines, Chance]]


def _held_out(found: Samples, fit: Fit, tokens: int) -> tuple[float | None, float | None]:
    """Mean loss on every fifth prompt of what the others teach, and of their mean rate alone."""
    out = found.prompt % _HELD_OUT == _HELD_OUT - 1
    known, asked = found.of(~out), found.of(out)
    if not len(asked) or not 0 < known.accepted.sum() < len(known):
        return None, None
    return _loss(fit(known, tokens)[1](asked), asked), _loss(np.full(len(asked), known.accepted.mean()), asked)


def _loss(chance: np.ndarray, found: Samples) -> float:
    return float(-np.log(np.clip(np.where(found.accepted, chance, 1 - chance), 1e-12, 1)).mean())


def fit_network(found: Samples, tokens: int, units: int = UNITS) -> tuple[Acceptance, Chance]:
    """A hidden layer of ``units`` on all signals and the place in the draft; 0 units are a logistic regression."""
    head = network(np.stack(_inputs(found)), found.accepted, units)
    return head, lambda asked: head.of(_inputs(asked))


def fit_top(found: Samples, tokens: int) -> tuple[Acceptance, Chance]:
    """A hidden layer on the largest probabilities, the entropy and the place in the draft."""
    head = network(np.stack(_top_inputs(found)), found.accepted, UNITS)
    return head, lambda asked: head.of(_top_inputs(asked))


def network(values: np.ndarray, accepted: np.ndarray, units: int) -> Acceptance:
    """The most likely network for inputs float [inputs, S] and what became of each token, bool [S]."""
    center, spread = values.mean(axis=1), values.std(axis=1)
    spread = np.where(spread > 1e-9, spread, 1.0)
    scaled, target = (values - center[:, None]) / spread[:, None], accepted.astype(np.float64)
    width = len(values) + 1
    inner = units * width

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        hidden, out = weights[:inner].reshape(units, width), weights[inner:]
        layer = np.tanh(hidden[:, :-1] @ scaled + hidden[:, -1:]) if units else scaled
        score = out[:-1] @ layer + out[-1]
        error = (1 / (1 + np.exp(-score)) - target) / len(target)
        steps = [layer @ error, [error.sum()]]
        if units:
            back = out[:-1, None] * error * (1 - layer**2)
            steps.insert(0, np.concatenate([back @ scaled.T, back.sum(axis=1, keepdims=True)], axis=1).ravel())
        value = float((np.logaddexp(0, score) - target * score).mean() + _DECAY * weights @ weights / 2)
        return value, np.concatenate(steps) + _DECAY * weights

    def curvature(weights: np.ndarray) -> np.ndarray:
        """Second derivatives of the loss of a network without a hidden layer."""
        chance = 1 / (1 + np.exp(-(weights[:-1] @ scaled + weights[-1])))
        all_inputs = np.vstack([scaled, np.ones(len(target))])
        return (all_inputs * (chance * (1 - chance) / len(target))) @ all_inputs.T + _DECAY * np.eye(width)

    size = inner + (units or len(values)) + 1
    start = np.random.default_rng(0).normal(0, 0.5, size)  # the same for the same trace
    if units:
        weights = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
    else:  # convex: a handful of Newton's steps, where the other method spends most of its time between them
        weights = minimize(loss, start, jac=True, hess=curvature, method="Newton-CG").x
    return Acceptance(center, spread, weights[:inner].reshape(units, width), weights[inner:])


def fit_lines(found: Samples, tokens: int) -> tuple[Lines, Chance]:
    """A logistic regression on the margin for each place in the draft; places with little data stay near their mean."""
    rate = np.log(found.accepted.mean() / (1 - found.accepted.mean()))
    slope, base = np.zeros(tokens), np.full(tokens, rate)
    for place in range(tokens):
        mine = found.of(found.position == place)
        if len(mine):
            slope[place], base[place] = _line(mine.margin.astype(np.float64), mine.accepted, rate)

    def chance(asked: Samples) -> np.ndarray:
        return 1 / (1 + np.exp(-(slope[asked.position] * asked.margin + base[asked.position])))

    return Lines(slope, base), chance


def _line(margin: np.ndarray, accepted: np.ndarray, rate: float) -> tuple[float, float]:
    """Slope and base of most likelihood; a unit of squared distance from (0, ``rate``) costs one token's nat."""

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        score = line[0] * margin + line[1]
        error = 1 / (1 + np.exp(-score)) - accepted
        off = line - [0.0, rate]
        value = float((np.logaddexp(0, score) - accepted * score).sum() + off @ off)
        return value, np.array([error @ margin, error.sum()]) + 2 * off

    slope, base = minimize(loss, np.array([0.0, rate]), jac=True, method="L-BFGS-B").x
    return float(slope), float(base)


def _inputs(found: Samples) -> list[np.ndarray]:
    return inputs(found.confidence, found.entropy, found.margin, found.position)


def _top_inputs(found: Samples) -> list[np.ndarray]:
    assert found.top is not None  # `train` asks for them
    return top_inputs(found.top, found.entropy, found.position)


# policy -> how it is fitted, and the most tokens of a draft that it is fitted for
FITS: dict[str, tuple[Fit, int]] = {"specdec++": (fit_network, 20), "margin": (fit_lines, 7), "disco": (fit_top, 20)}
