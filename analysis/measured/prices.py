"""The price vector that fits measured iterations best, and how far it would differ on other prompts and repeats.

Both tables by count never fall, and no price is negative: tables are fitted as steps up, and every fit is a
non-negative least squares.  Errors are those of a bootstrap of clusters: prompts are drawn, and of each its repeats, so
that a machine that was slow for some seconds, or for one text, counts once and not as often as it was read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from analysis.cost import CostModel
from analysis.price_errors import PriceErrors, Tally

FEW = 5  # iterations below which a count is no point of a table
DRAWS = 300  # of the bootstrap: a standard error is then known to 4 %
_THIN = 1.3  # counts of drafting phases are at least so many times apart: one step more costs about as much as the last
_DIGITS = 5  # of the stored covariance


@dataclass(frozen=True)
class Rows:
    """Iterations that prices are fitted on; ``cell`` numbers the prompt and repeat of each."""

    rounds: pd.DataFrame  # with a draft, but the first of each call
    steps: pd.DataFrame  # of plain decoding, but the first of each call
    first: pd.DataFrame  # the first of each call, which reads the prompt
    prompts: dict[tuple[int, int], np.ndarray]  # the cells of each prompt: (number of the runs, number there)


@dataclass(frozen=True)
class _Fit:
    """One least squares: rows of a design that explain seconds."""

    design: np.ndarray  # float [n, p]
    seconds: np.ndarray  # float [n]
    cell: np.ndarray  # int [n]

    def solve(self) -> np.ndarray:
        return least_squares(self.design, self.seconds)

    def redrawn(self, weights: np.ndarray, found: np.ndarray) -> np.ndarray:
        """The coefficients float [B, p] where cell c counts ``weights[b, c]`` times; ``found`` where each counts once.

        Rows keep the weights that they have under ``found``.  What a draw says nothing of stays as it was found.
        """
        scale = _scale(self.design)
        fitted = self.design @ found
        root = np.sqrt(self.seconds.mean() / np.maximum(fitted, 1e-3 * self.seconds.mean() + 1e-12))
        design, seconds = self.design / scale * root[:, None], self.seconds * root
        order = np.argsort(self.cell, kind="stable")
        bounds = np.searchsorted(self.cell[order], np.arange(weights.shape[1] + 1))
        pieces = [order[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        squares = np.stack([design[piece].T @ design[piece] for piece in pieces])
        products = np.stack([design[piece].T @ seconds[piece] for piece in pieces])
        held = 1e-6 * np.trace(squares.sum(axis=0)) / len(found) + 1e-12
        total = np.tensordot(weights, squares, axes=1) + held * np.eye(len(found))
        right = weights @ products + held * found * scale
        return np.stack([_solve(each, side) for each, side in zip(total, right, strict=True)]) / scale


@dataclass(frozen=True)
class Fitted:
    """Prices, and how far each prompt moves the price vector (`CostModel.price_names`), float [p] each."""

    cost: CostModel
    moves: dict[tuple[int, int], np.ndarray]  # empty where there is one prompt; they add up to about nothing


def fit(rows: Rows, seed: int = 0) -> Fitted:
    """Prices in seconds, with their covariance where there are at least two prompts.

    Raises RuntimeError where a pass of the target would be free.
    """
    drafts, targets = _Drafts.of(rows.rounds), _Targets.of(rows.rounds, rows.steps)
    draft, target = drafts.fit.solve(), targets.fit.solve()
    rest = rows.rounds.rest_seconds.to_numpy()
    values = drafts.prices(draft[None]) | targets.prices(target[None]) | {"iteration": np.array([rest.mean()])}
    if values["verify"][0, 0] <= 0 or values["plain"][0] + values["plain_context"][0] <= 0:
        raise RuntimeError(
            "the measured seconds fit no cost model: in them a pass of the target over one token costs nothing beyond "
            "its context; measure more prompts, longer texts or more repeats on a machine that does nothing else"
        )
    cost = _model(values, drafts.knots, targets.knots)
    reading = _Reading.of(rows, cost)
    cost = _model(values | reading.prices(np.ones((1, reading.cells)), values), drafts.knots, targets.knots)
    if len(rows.prompts) < 2:
        return Fitted(cost, {})

    def redrawn(weights: np.ndarray) -> np.ndarray:
        """Price vectors float [B, p] where cell c counts ``weights[b, c]`` times."""
        drawn = drafts.prices(drafts.fit.redrawn(weights, draft)) | targets.prices(targets.fit.redrawn(weights, target))
        drawn |= {"iteration": _means(rest, rows.rounds.cell.to_numpy(), weights)}
        return _vectors(cost.price_names, drawn | reading.prices(weights, drawn))

    prompts = list(rows.prompts.values())
    spread = _covariance(redrawn(_draw(prompts, reading.cells, seed)), len(prompts))
    return Fitted(
        dataclasses.replace(cost, covariance=spread),
        dict(zip(rows.prompts, _moves(redrawn, prompts, reading.cells), strict=True)),
    )


def _moves(redrawn: Callable[[np.ndarray], np.ndarray], prompts: Sequence[np.ndarray], cells: int) -> np.ndarray:
    """How far each prompt moves the prices, float [P, p]: the jackknife's estimate, from the fit without it."""
    without = np.ones((1 + len(prompts), cells))  # the first is the fit with all
    for number, mine in enumerate(prompts, start=1):
        without[number, mine] = 0
    vectors = redrawn(without)
    return np.nan_to_num(vectors[0] - vectors[1:]) * (len(prompts) - 1) / len(prompts)


def least_squares(design: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Coefficients [p], none negative, of seconds [n] = design [n, p] @ coefficients, by weighted least squares.

    A disturbance is as likely in any moment, so the variance grows with the duration, and rows are weighted by 1 /
    fitted: the quasi-likelihood of a variance proportional to the mean (Wedderburn 1974).  The fitted seconds then add
    up to the measured ones, which least squares without these weights does not do.
    """
    scale = _scale(design)
    scaled = design / scale
    weight, solution = np.ones(len(seconds)), np.zeros(design.shape[1])
    for _ in range(50):
        root = np.sqrt(weight)[:, None]
        # The triangle of a QR decomposition says all that the rows say, and there may be hundreds of thousands.
        triangle = np.asarray(np.linalg.qr(np.column_stack([scaled, seconds]) * root, mode="r"))
        solution, _ = nnls(triangle[:, :-1], triangle[:, -1])
        fitted = np.maximum(scaled @ solution, 1e-3 * seconds.mean() + 1e-12)
        before, weight = weight, seconds.mean() / fitted
        if np.allclose(before, weight, rtol=1e-9, atol=0):
            break
    return solution / scale


@dataclass(frozen=True)
class _Drafts:
    """Drafting k tokens from context n takes phase(k) + slope (k n + k (k - 1) / 2), as CostModel prices it."""

    knots: np.ndarray
    fit: _Fit

    @staticmethod
    def of(rounds: pd.DataFrame) -> _Drafts:
        drafted = rounds.loc[rounds.drafted > 0]
        k, n = drafted.drafted.to_numpy(), drafted.context.to_numpy()
        knots = _thinned(_often(drafted, k))
        design = np.column_stack([_stairs(k, knots), k * n + k * (k - 1) / 2])
        return _Drafts(knots, _Fit(design, drafted.draft_seconds.to_numpy(), drafted.cell.to_numpy()))

    def prices(self, found: np.ndarray) -> dict[str, np.ndarray]:
        """Of coefficients float [B, p]."""
        phase = np.cumsum(found[:, :-1], axis=1)
        step = (phase[:, -1] - phase[:, 0]) / (self.knots[-1] - self.knots[0])
        return {"draft": step, "draft_context": found[:, -1], "draft_phase": phase}


@dataclass(frozen=True)
class _Targets:
    """A pass of the target over m tokens takes verify(m), one without a draft plain; context adds the same to both."""

    knots: np.ndarray
    fit: _Fit

    @staticmethod
    def of(rounds: pd.DataFrame, steps: pd.DataFrame) -> _Targets:
        passes = [rounds.assign(tokens=rounds.drafted + 1, plain=0, seconds=rounds.verify_seconds)]
        if np.sum(rounds.drafted == 0) < FEW:
            # Rounds without a draft are rare (a last token): the same forward pass in plain decoding stands for them.
            around = float(np.median(rounds.verify_seconds - rounds.forward_seconds))
            passes.append(steps.assign(tokens=1, plain=0, seconds=steps.forward_seconds + around))
        verified = pd.concat(passes)
        knots = np.union1d(_often(verified, verified.tokens.to_numpy()), 1)
        passes.append(steps.assign(tokens=1, plain=1, seconds=steps.verify_seconds))
        table = pd.concat(passes)
        plain = table.plain.to_numpy()
        stairs = _stairs(table.tokens.to_numpy(), knots) * (1 - plain)[:, None]
        design = np.column_stack([stairs, plain, table.context.to_numpy()])
        return _Targets(knots, _Fit(design, table.seconds.to_numpy(), table.cell.to_numpy()))

    def prices(self, found: np.ndarray) -> dict[str, np.ndarray]:
        """Of coefficients float [B, p]."""
        slope = found[:, -1]
        curve = np.cumsum(found[:, :-2], axis=1)
        return {"verify": curve, "plain": found[:, -2], "verify_context": slope, "plain_context": slope}


@dataclass(frozen=True)
class _Reading:
    """Reading the prompt, a call's start included: first iterations less what later ones cost; sums by cell."""

    plain: np.ndarray  # float [cells, 4]: seconds, calls, context, tokens of the prompt, of plain decoding
    drafts: np.ndarray  # float [cells, 2]: seconds and tokens of the prompt, with a draft
    paid: np.ndarray  # float [cells, p], how often each price is paid in those
    names: tuple[str, ...]  # of the p prices

    @staticmethod
    def of(rows: Rows, cost: CostModel) -> _Reading:
        cells, errors = sum(map(len, rows.prompts.values())), PriceErrors(cost)
        first = rows.first.assign(
            seconds=rows.first.draft_seconds + rows.first.verify_seconds + rows.first.rest_seconds
        )
        plain, drafts = first.loc[first.plain], first.loc[~first.plain]

        def sums(table: pd.DataFrame, values: np.ndarray | pd.Series | None = None) -> np.ndarray:
            return np.bincount(table.cell, weights=values, minlength=cells).astype(float)

        paid = np.zeros((cells, len(cost.price_names)))
        for cell, mine in drafts.groupby("cell"):
            paid[int(str(cell))] = errors.rounds(Tally.of(mine.drafted.to_numpy(), mine.context.to_numpy()))
        return _Reading(
            np.stack([sums(plain, plain.seconds), sums(plain), sums(plain, plain.context)], axis=1),
            np.stack([sums(drafts, drafts.seconds), sums(drafts, drafts.context)], axis=1),
            paid,
            cost.price_names,
        )

    @property
    def cells(self) -> int:
        return len(self.plain)

    def prices(self, weights: np.ndarray, others: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Where cell c counts ``weights[b, c]`` times and the ``others`` are the prices of draw b."""
        seconds, calls, context = (weights @ self.plain).T
        alone = seconds - calls * others["plain"] - context * others["plain_context"]
        both_seconds, both_context = (weights @ self.drafts).T
        both = both_seconds - ((weights @ self.paid) * _vectors(self.names, others)).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            target = np.maximum(0, alone / context)
            return {"target_prefill": target, "draft_prefill": np.maximum(0, both / both_context - target)}


def _model(values: Mapping[str, np.ndarray], draft_knots: np.ndarray, verify_knots: np.ndarray) -> CostModel:
    """The first of the draws of each price, as a cost model."""
    given: dict[str, Any] = {
        name: tuple(zip(knots.tolist(), values[name][0].tolist(), strict=True))
        for name, knots in (("draft_phase", draft_knots), ("verify", verify_knots))
    }
    given |= {name: float(drawn[0]) for name, drawn in values.items() if name not in given}
    return CostModel(**given, unit="s")


def _vectors(names: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Price vectors float [B, p] in the order of ``names``; prices that are not known yet are 0."""
    draws = len(values["draft"])
    single = [values.get(name, np.zeros(draws)) for name in names if "." not in name]
    return np.column_stack([*single, values["draft_phase"], values["verify"]])


def _covariance(vectors: np.ndarray, prompts: int) -> tuple[tuple[float, ...], ...]:
    """Lower triangle of the covariance of drawn price vectors [B, p].

    Draws of P clusters from P have (P - 1) / P of the variance.
    """
    usable = vectors[np.isfinite(vectors).all(axis=1)]  # in some draws nothing of a kind may have been seen
    if len(usable) < 2:
        return ()
    spread = np.cov(usable.T) * prompts / (prompts - 1)
    return tuple(tuple(float(f"{value:.{_DIGITS}g}") for value in row[: at + 1]) for at, row in enumerate(spread))


def _draw(prompts: Sequence[np.ndarray], cells: int, seed: int) -> np.ndarray:
    """How often each cell counts in each draw, float [B, cells]: prompts are drawn, and of each its repeats."""
    random, weights = np.random.default_rng(seed), np.zeros((DRAWS, cells))
    for row in weights:
        for number in random.integers(len(prompts), size=len(prompts)):
            mine = prompts[number]
            row += np.bincount(mine[random.integers(len(mine), size=len(mine))], minlength=cells)
    return weights


def _means(values: np.ndarray, cell: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean of ``values`` [n] where cell c counts ``weights[b, c]`` times, float [B]."""
    sums, sizes = (np.bincount(cell, weights=each, minlength=weights.shape[1]) for each in (values, None))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (weights @ sums) / (weights @ sizes)


def _solve(squares: np.ndarray, products: np.ndarray) -> np.ndarray:
    """The non-negative least squares of normal equations: squares [p, p] @ coefficients = products [p]."""
    lower = cholesky(squares, lower=True)
    return nnls(lower.T, solve_triangular(lower, products, lower=True))[0]


def _scale(design: np.ndarray) -> np.ndarray:
    scale = np.abs(design).max(axis=0)
    return np.where(scale > 0, scale, 1.0)


def _stairs(counts: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Columns of the price at the first knot and of the steps up to each later one, float [n, knots]."""
    hats = np.stack([np.interp(counts, knots, hat) for hat in np.eye(len(knots))], axis=1)
    return np.cumsum(hats[:, ::-1], axis=1)[:, ::-1]


def _often(table: pd.DataFrame, counts: np.ndarray) -> np.ndarray:
    """The ``counts`` [n] of these iterations that were seen often, repeats of an iteration as one, and the largest."""
    single = ~table.duplicated(["run", "policy", "prompt", "iteration"]).to_numpy()
    seen, often = np.unique(counts[single], return_counts=True)
    # Clipped drafts near the end of a text have many lengths, each seen a few times: they are no points of the curve.
    return np.union1d(seen[often >= max(FEW, often.max() / 20)], counts.max())


def _thinned(counts: np.ndarray) -> np.ndarray:
    """Some of the ``counts``, further apart as they grow; the first is 1, to which the first piece is drawn out."""
    kept = [1]
    for count in counts[counts > 1].tolist():
        if count >= _THIN * kept[-1]:
            kept.append(count)
    if counts[0] > 1 and len(kept) > 2:
        del kept[1]  # two points say where a piece lies: that at 1 would else have none of its own
    if kept[-1] < counts[-1]:
        kept.append(int(counts[-1]))
    return np.array(kept)
