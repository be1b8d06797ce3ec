"""Fits a cost model to measured runs.

Everything is fitted to timings taken inside real rounds: a pass that is timed alone is cheaper than the same pass in a
round, where the library prepares each drafting phase anew.  Prices are means, not medians: an iteration's seconds are
skewed, and what a run takes is their sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression, nnls

from analysis.belonging import ROLES, together
from analysis.cost import CostModel
from analysis.measured.disturbances import disturbed
from oracle.policies import parse
from oracle.policies.library import fixed_length
from oracle.policies.names import recorded
from oracle.records.runs import PLAIN, Runs

FIT = ("constant:tokens=1", "constant:tokens=3", "constant:tokens=8", "constant:tokens=20")
_FEW = 5  # rows below which a point of the verification curve is not trusted
_SECONDS = ["draft_seconds", "verify_seconds", "forward_seconds", "rest_seconds"]


@dataclass(frozen=True)
class Residual:
    """How one part of the cost model fits the rows with one token count (drafted, or verified; None: all)."""

    part: str  # draft, verify, iteration or plain
    tokens: int | None
    rows: int
    measured: float  # mean seconds
    fitted: float
    error: float  # fitted / measured - 1
    scatter: float  # median of |fitted / measured - 1| over the rows


@dataclass(frozen=True)
class Calibration:
    """A cost model, what it was fitted on, and how well it fits."""

    cost: CostModel
    policies: tuple[str, ...]
    residuals: tuple[Residual, ...]
    calls: int
    disturbed: int  # of the calls, left out of the fit (``analysis.measured.disturbances``)
    notes: tuple[str, ...] = ()  # whether the runs are of one pair and one machine, as far as that is not known


def calibrate(runs: Runs | Sequence[Runs], policies: Sequence[str] | None = None) -> Calibration:
    """Fit a cost model in seconds to runs of ``policies`` and to plain decoding.

    By default these are the policies of ``FIT`` that ran, or every one of fixed length if fewer than two of them did.
    The policies must draft a fixed length and be at least two different ones, or a round's start could not be told from
    its steps.  Raises ValueError where they are not, did not run, or ran in different generators, and where the runs
    are of different pairs, RuntimeError where the seconds are too noisy for prices that make sense.
    """
    several = [runs] if isinstance(runs, Runs) else list(runs)
    notes = together(runs=several).expect().notes
    chosen = _choose(several, policies)
    calls = [[call for call in one.calls if call.policy in (*chosen, PLAIN)] for one in several]
    gone = [disturbed(one) for one in several]
    kept = [[call for call in some if call.key not in out] for some, out in zip(calls, gone, strict=True)]
    rows = _mean_rows([Runs(one.meta, tuple(some)) for one, some in zip(several, kept, strict=True)])
    generator = _one_generator(rows, chosen)
    later = rows.loc[rows.iteration > 0]  # the first iteration of a call reads the prompt
    rounds, steps = later.loc[later.policy != PLAIN], later.loc[later.policy == PLAIN]
    if len(steps) < _FEW or rounds[rounds.drafted > 0].drafted.nunique() < 2:
        raise ValueError("too little was measured to fit a cost model; use more prompts or longer texts")
    plain, plain_context = _fit_plain(steps)
    draft = _fit_draft(rounds.loc[rounds.drafted > 0])
    verify, verify_context = _fit_verify(rounds, steps)
    if verify[0][1] <= 0 or plain + plain_context <= 0:
        raise RuntimeError(
            "the measured seconds fit no cost model: in them a pass of the target over one token costs nothing beyond "
            "its context; measure more prompts, longer texts or more repeats on a machine that does nothing else"
        )
    cost = CostModel(
        **draft,
        verify=verify,
        verify_context=verify_context,
        iteration=float(rounds.rest_seconds.mean()),
        plain=plain,
        plain_context=plain_context,
        unit="s",
        machine=several[0].meta.get("machine", {})
        | {"pair": several[0].meta.get("pair"), "generator": generator, "fitted_on": chosen}
        | {role: several[0].meta[role] for role in ROLES if several[0].meta.get(role)},
        measured_range={
            "tokens": [1, int(rounds.drafted.max()) + 1],  # one token: the same pass in plain decoding, if nowhere else
            "context": [int(rows.context.min()), int(rows.context.max())],  # of a first iteration too: its prompt
        },
    )
    cost = _with_prefill(cost, rows)
    total = sum(map(len, calls))
    return Calibration(
        cost,
        tuple(chosen),
        tuple(_residuals(cost, rounds, steps)),
        calls=total,
        disturbed=total - sum(map(len, kept)),
        notes=notes,
    )


def check_policies(policies: Sequence[str]) -> None:
    """Raise ValueError unless a cost model can be fitted on these: fixed lengths, at least two of them."""
    for policy in policies:
        rule = recorded(policy)
        if rule is None or fixed_length(rule) is None:
            raise ValueError(
                f"policy {policy!r} does not draft a fixed length; fit on constant ones, such as {', '.join(FIT)}"
            )
    if _lengths(policies) < 2:
        raise ValueError(
            f"fitting needs at least two constant lengths among the measured policies, got {policies or 'none'}; "
            f"measure {', '.join(FIT)}"
        )


def _choose(several: Sequence[Runs], policies: Sequence[str] | None) -> list[str]:
    ran = list(dict.fromkeys(policy for runs in several for policy in runs.policies))
    chosen = _usual(ran) if policies is None else list(policies)
    for policy in chosen:
        for runs in several:
            runs.of(policy)  # says what did run, where this one did not
    check_policies(chosen)
    return chosen


def _usual(ran: Sequence[str]) -> list[str]:
    """Those of ``FIT`` that ran; every policy of fixed length where they are too few."""
    wanted = {parse(policy) for policy in FIT}
    rules = {policy: recorded(policy) for policy in ran}
    fixed = [policy for policy, rule in rules.items() if rule is not None and fixed_length(rule) is not None]
    usual = [policy for policy in fixed if rules[policy] in wanted]
    return usual if _lengths(usual) > 1 else fixed


def _lengths(policies: Sequence[str]) -> int:
    return len({fixed_length(parse(policy)) for policy in policies})


def _one_generator(rows: pd.DataFrame, policies: Sequence[str]) -> str:
    found = sorted(set(rows[rows.policy.isin(policies)].generator))
    if len(found) != 1:
        raise ValueError(f"the policies {', '.join(policies)} ran in {found}; a cost model describes one generator")
    return found[0]


def _mean_rows(several: Sequence[Runs]) -> pd.DataFrame:
    """One row an iteration, means of its seconds over the repeats that went the same way."""
    table = pd.concat([runs.iterations().assign(run=number) for number, runs in enumerate(several)])
    same = ["run", "policy", "generator", "prompt", "iteration", "position", "drafted", "accepted", "context"]
    return pd.DataFrame(table.groupby(same, as_index=False)[_SECONDS].mean())


def _fit_plain(steps: pd.DataFrame) -> tuple[float, float]:
    design = np.stack([np.ones(len(steps)), steps.context], axis=1)
    base, slope = least_squares(design, steps.verify_seconds.to_numpy())
    return float(base), float(slope)


def _fit_draft(rounds: pd.DataFrame) -> dict[str, float]:
    """k steps from context n take first + (k - 1) step + slope (k n + k (k - 1) / 2), as CostModel prices them."""
    k, n = rounds.drafted.to_numpy(), rounds.context.to_numpy()
    design = np.stack([np.ones(len(k)), k - 1, k * n + k * (k - 1) / 2], axis=1)
    first, step, slope = least_squares(design, rounds.draft_seconds.to_numpy())
    return {"draft": float(step), "draft_first": float(first), "draft_context": float(slope)}


def _fit_verify(rounds: pd.DataFrame, steps: pd.DataFrame) -> tuple[tuple[tuple[int, float], ...], float]:
    """The verification curve, linear between counts that were measured often, and the slope per context token."""
    tokens, context = rounds.drafted.to_numpy() + 1, rounds.context.to_numpy()
    seconds = rounds.verify_seconds.to_numpy()
    if np.sum(tokens == 1) < _FEW:
        # Rounds without a draft are rare (a last token): the same forward pass in plain decoding stands for them.
        around = float(np.median(rounds.verify_seconds - rounds.forward_seconds))
        tokens = np.append(tokens, np.ones(len(steps), int))
        context = np.append(context, steps.context)
        seconds = np.append(seconds, steps.forward_seconds + around)
    counts, often = np.unique(tokens, return_counts=True)
    # Clipped drafts near the end of a text have many lengths, each seen a few times: they are no points of the curve.
    enough = often >= max(_FEW, often.max() / 20)
    knots = np.union1d(counts[enough], [1, counts[-1]])
    hats = np.stack([np.interp(tokens, knots, row) for row in np.eye(len(knots))], axis=1)
    *curve, slope = least_squares(np.column_stack([hats, context]), seconds)
    level = isotonic_regression(curve, weights=hats.sum(axis=0)).x
    return tuple((int(count), float(cost)) for count, cost in zip(knots, level, strict=True)), float(slope)


def _with_prefill(cost: CostModel, rows: pd.DataFrame) -> CostModel:
    """Add the price of reading the prompt, a call's start included: first iterations less what later ones cost."""
    first = rows[rows.iteration == 0]
    seconds = first.draft_seconds + first.verify_seconds + first.rest_seconds
    plain = first.policy == PLAIN
    alone = (seconds[plain] - cost.step(first.context[plain])).sum() / first.context[plain].sum()
    target = max(0.0, float(alone))
    beyond = seconds[~plain] - cost.round(first.drafted[~plain].to_numpy(), first.context[~plain].to_numpy())
    both = float(beyond.sum() / first.context[~plain].sum())
    return dataclasses.replace(cost, target_prefill=target, draft_prefill=max(0.0, both - target))


def least_squares(design: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Coefficients [p], none negative, of seconds [n] = design [n, p] @ coefficients, by weighted least squares.

    A disturbance is as likely in any moment, so the variance grows with the duration, and rows are weighted by 1 /
    fitted: the quasi-likelihood of a variance proportional to the mean (Wedderburn 1974).  The fitted seconds then add
    up to the measured ones, which least squares without these weights does not do.
    """
    scale = np.abs(design).max(axis=0)
    scale[scale == 0] = 1
    scaled = design / scale
    weight, solution = np.ones(len(seconds)), np.zeros(design.shape[1])
    for _ in range(50):
        root = np.sqrt(weight)
        solution, _ = nnls(scaled * root[:, None], seconds * root)
        fitted = np.maximum(scaled @ solution, 1e-3 * seconds.mean() + 1e-12)
        before, weight = weight, seconds.mean() / fitted
        if np.allclose(before, weight, rtol=1e-9, atol=0):
            break
    return solution / scale


def _residuals(cost: CostModel, rounds: pd.DataFrame, steps: pd.DataFrame) -> list[Residual]:
    k, n = rounds.drafted.to_numpy(), rounds.context.to_numpy()
    drafted = k > 0
    draft = rounds.draft_seconds.to_numpy()[drafted]
    verify = cost.verification(k + 1) + cost.verify_context * n
    constant = np.full(len(rounds), cost.iteration)
    plain = cost.step(steps.context.to_numpy())
    return [
        *_by_tokens("draft", k[drafted], draft, cost.drafting(k[drafted], n[drafted])),
        *_by_tokens("verify", k + 1, rounds.verify_seconds.to_numpy(), verify),
        _residual("iteration", None, rounds.rest_seconds.to_numpy(), constant),
        _residual("plain", None, steps.verify_seconds.to_numpy(), plain),
    ]


def _by_tokens(part: str, tokens: np.ndarray, measured: np.ndarray, fitted: np.ndarray) -> list[Residual]:
    counts = [int(count) for count, often in zip(*np.unique(tokens, return_counts=True), strict=True) if often >= _FEW]
    return [_residual(part, count, measured[tokens == count], fitted[tokens == count]) for count in counts]


def _residual(part: str, tokens: int | None, measured: np.ndarray, fitted: np.ndarray) -> Residual:
    with np.errstate(divide="ignore", invalid="ignore"):
        scatter = float(np.median(np.abs(fitted / measured - 1)))
        error = float(fitted.mean() / measured.mean() - 1)
    return Residual(part, tokens, len(measured), float(measured.mean()), float(fitted.mean()), error, scatter)
