"""Fits a cost model to measured runs.

Everything is fitted to timings taken inside real rounds: a pass that is timed alone is cheaper than the same pass in a
round, where the library prepares each drafting phase anew.  Prices are means, not medians: an iteration's seconds are
skewed, and what a run takes is their sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.belonging import ROLES, together
from analysis.cost import CostModel
from analysis.measured.disturbances import disturbed
from analysis.measured.prices import FEW, Rows, fit
from oracle.policies import Policy, parse
from oracle.policies.drawn import Random
from oracle.policies.library import fixed_length
from oracle.policies.names import recorded
from oracle.records.runs import PLAIN, Call, Runs
from oracle.records.shown import Shown

# What prices are fitted on: every lookahead and every context under the same conditions, in random order.
FIT = tuple(f"random:tokens=20,seed={seed}" for seed in range(4))
FIXED = tuple(f"constant:tokens={tokens}" for tokens in (1, 3, 8, 20))  # what they were fitted on before
_ONE_PROMPT = "prices of a single prompt have no standard errors: intervals do not hold their uncertainty"


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


@dataclass(frozen=True, repr=False)
class Calibration(Shown):
    """A cost model, what it was fitted on, and how well it fits."""

    cost: CostModel
    policies: tuple[str, ...]
    residuals: tuple[Residual, ...]
    calls: int
    disturbed: int  # of the calls, left out of the fit (``analysis.measured.disturbances``)
    # (number of the runs, of the prompt) -> how far that prompt moves the price vector: `prices.Fitted`
    moves: dict[tuple[int, int], np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    notes: tuple[str, ...] = ()  # whether the runs are of one pair and one machine, as far as that is not known

    def in_short(self) -> str:
        left_out = f", {self.disturbed:,} disturbed ones left out" if self.disturbed else ""
        return f"a draft step costs {self.cost.draft:.3g} {self.cost.unit}, fitted on {self.calls:,} calls{left_out}"

    def to_frame(self) -> pd.DataFrame:
        """One row a part of the cost model and a token count: `Residual`."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(each) for each in self.residuals])


def calibrate(runs: Runs | Sequence[Runs], policies: Sequence[str] | None = None) -> Calibration:
    """Fit a cost model in seconds to runs of ``policies`` and to plain decoding.

    By default these are the policies that drew their lengths (``FIT``); where none ran, those of ``FIXED``, or every
    one of fixed length if fewer than two of them did.  At least two different lengths must have been drafted, or a
    round's start could not be told from its steps.  Raises ValueError where they were not, where the policies did not
    run, or ran in different generators, and where the runs are of different pairs, RuntimeError where the seconds are
    too noisy for prices that make sense.
    """
    several = [runs] if isinstance(runs, Runs) else list(runs)
    notes = together(runs=several).expect().notes
    chosen = _choose(several, policies)
    calls = [[call for call in one.calls if call.policy in (*chosen, PLAIN)] for one in several]
    gone = [disturbed(one) for one in several]
    kept = [[call for call in some if call.key not in out] for some, out in zip(calls, gone, strict=True)]
    generator = _one_generator(kept, chosen)
    rows = _rows([Runs(one.meta, tuple(some)) for one, some in zip(several, kept, strict=True)])
    rounds, steps = rows.rounds, rows.steps
    if len(steps) < FEW or rounds[rounds.drafted > 0].drafted.nunique() < 2:
        raise ValueError("too little was measured to fit a cost model; use more prompts or longer texts")
    contexts = np.concatenate([table.context for table in (rounds, steps, rows.first)])
    fitted = fit(rows)
    cost = dataclasses.replace(
        fitted.cost,
        machine=several[0].meta.get("machine", {})
        | {"pair": several[0].meta.get("pair"), "generator": generator, "fitted_on": chosen}
        | {role: several[0].meta[role] for role in ROLES if several[0].meta.get(role)},
        measured_range={
            "tokens": [1, int(rounds.drafted.max()) + 1],  # one token: the same pass in plain decoding, if nowhere else
            "context": [int(contexts.min()), int(contexts.max())],  # of a first iteration too: its prompt
        },
    )
    total = sum(map(len, calls))
    return Calibration(
        cost,
        tuple(chosen),
        tuple(_residuals(cost, rounds, steps)),
        calls=total,
        disturbed=total - sum(map(len, kept)),
        moves=fitted.moves,
        notes=(*notes, *(() if cost.covariance else (_ONE_PROMPT,))),
    )


def check_policies(policies: Sequence[str]) -> None:
    """Raise ValueError unless a cost model can be fitted on these: drawn or fixed lengths, at least two of them."""
    for policy in policies:
        rule = recorded(policy)
        if rule is None or not _fittable(rule):
            raise ValueError(
                f"policy {policy!r} drafts neither drawn nor fixed lengths; fit on {FIT[0]}, or on constant ones, such "
                f"as {', '.join(FIXED)}"
            )
    if _lengths(policies) < 2:
        raise ValueError(
            f"fitting needs at least two lengths among the measured policies, got {policies or 'none'}; "
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
    """Those that ran and draw their lengths, else those of ``FIXED``, else every policy of fixed length."""
    rules = {policy: rule for policy in ran if (rule := recorded(policy)) is not None and _fittable(rule)}
    drawn = [policy for policy, rule in rules.items() if isinstance(rule, Random)]
    fixed = [policy for policy in rules if policy not in drawn]
    wanted = {parse(policy) for policy in FIXED}
    usual = [policy for policy in fixed if rules[policy] in wanted]
    return next((some for some in (drawn, usual) if _lengths(some) > 1), fixed)


def _fittable(rule: Policy) -> bool:
    return type(rule) is Random or fixed_length(rule) is not None


def _lengths(policies: Sequence[str]) -> int:
    """How many different lengths these policies draft."""
    found: set[int | None] = set()
    for rule in map(parse, policies):
        found |= set(range(1, rule.tokens + 1)) if isinstance(rule, Random) else {fixed_length(rule)}
    return len(found)


def _one_generator(calls: Sequence[Sequence[Call]], policies: Sequence[str]) -> str:
    found = sorted({call.generator for some in calls for call in some if call.policy in policies})
    if len(found) != 1:
        raise ValueError(f"the policies {', '.join(policies)} ran in {found}; a cost model describes one generator")
    return found[0]


def _rows(several: Sequence[Runs]) -> Rows:
    """Every iteration, once for each repeat."""
    table = pd.concat([runs.iterations().assign(run=number) for number, runs in enumerate(several)], ignore_index=True)
    table = table.assign(cell=table.groupby(["run", "prompt", "repeat"]).ngroup(), plain=table.policy == PLAIN)
    cells = table.drop_duplicates("cell").groupby(["run", "prompt"]).cell
    later = table.iteration > 0  # the first iteration of a call reads the prompt
    return Rows(
        rounds=pd.DataFrame(table[later & ~table.plain]),
        steps=pd.DataFrame(table[later & table.plain]),
        first=pd.DataFrame(table[~later]),
        prompts={(int(run), int(prompt)): mine.to_numpy() for (run, prompt), mine in cells},
    )


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
    counts = [int(count) for count, often in zip(*np.unique(tokens, return_counts=True), strict=True) if often >= FEW]
    return [_residual(part, count, measured[tokens == count], fitted[tokens == count]) for count in counts]


def _residual(part: str, tokens: int | None, measured: np.ndarray, fitted: np.ndarray) -> Residual:
    with np.errstate(divide="ignore", invalid="ignore"):
        scatter = float(np.median(np.abs(fitted / measured - 1)))
        error = float(fitted.mean() / measured.mean() - 1)
    return Residual(part, tokens, len(measured), float(measured.mean()), float(fitted.mean()), error, scatter)
