"""What an iteration of speculative decoding costs."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from oracle.records.typed import Count, Number, Object, Positive, Price, Text, check, read_json, says, short
from oracle.records.whole import write_whole

if TYPE_CHECKING:
    from oracle.records.trace import Trace

SCHEMA_VERSION = 1
DEFAULT_DRAFT = 0.1  # price of a draft step, in target steps, where none was measured
LOOKUP_DRAFT = 0.0  # the same of an n-gram lookup, which runs no model
# Prices that are one number each, in the order of the price vector (`CostModel.price_names`).
_SINGLE = (
    *("draft", "draft_first", "draft_context", "verify_context", "iteration"),
    *("plain", "plain_context", "draft_prefill", "target_prefill"),
)
PAIR_FACTS = ("pair", "target", "draft", "dtype")  # in ``machine``: which pair was measured, and in what number format


_Range = Annotated[list[Count], Field(min_length=2, max_length=2), says("a list of two whole numbers, low and high")]


@with_config(ConfigDict(extra="allow"))
class _Ranges(TypedDict, total=False):
    """Lowest and highest that was measured."""

    tokens: _Range
    context: _Range


@with_config(ConfigDict(extra="forbid"))
class _Fields(TypedDict, total=False):
    """The fields of a cost model, as they may be handed over or stored."""

    draft: Price
    draft_first: Price | None
    draft_phase: tuple[tuple[Positive, Price], ...]
    draft_context: Price
    verify: tuple[tuple[Positive, Price], ...]
    verify_context: Price
    iteration: Price
    plain: Price | None
    plain_context: Price | None
    draft_prefill: Price
    target_prefill: Price
    unit: Text
    machine: Object
    measured_range: _Ranges
    covariance: tuple[tuple[Number, ...], ...]


@dataclass(frozen=True)
class CostModel:
    """Prices of the passes that make up a run, all in one unit (seconds, or steps of the target).

    ``CostModel(draft=0.1)`` is the textbook case: a draft step costs 0.1 of a target step, and verifying several tokens
    costs the same as producing one.  Where a field is None, the field in brackets is used.

    Context is all that a pass attends to: the prompt and the text so far.  That holds for an encoder-decoder too, whose
    decoder attends to the encoded prompt besides its own text; what its encoder takes, once a prompt, is prefill.
    """

    draft: float  # a draft step that reads one token; where there is a draft_phase: one beyond its last count
    draft_first: float | None = None  # the first step of a round: reads two tokens and starts the round (draft)
    draft_context: float = 0.0  # added to a draft step for each token of context
    verify: tuple[tuple[int, float], ...] = ((1, 1.0),)  # (tokens, cost) of a target pass; linear between and beyond
    verify_context: float = 0.0  # added to a target pass for each token of context
    iteration: float = 0.0  # added to every iteration of a run with a draft
    plain: float | None = None  # a one-token step of the target without a draft (verify at one token)
    plain_context: float | None = None  # added to it for each token of context (verify_context)
    draft_prefill: float = 0.0  # reading the prompt, for each of its tokens
    target_prefill: float = 0.0
    unit: str = "target step"
    machine: dict = field(default_factory=dict, compare=False)  # where and how it was measured
    measured_range: dict = field(default_factory=dict, compare=False)  # {"tokens": [low, high], "context": [low, high]}
    # (tokens, cost) of a whole drafting phase, linear between; empty: draft_first, then draft for each further step
    draft_phase: tuple[tuple[int, float], ...] = ()
    # Of the prices as `price_names` lists them: row i of the lower triangle has i + 1 numbers; empty: not known
    covariance: tuple[tuple[float, ...], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        given = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name, value in check(_Fields, given, "cost").items():
            object.__setattr__(self, name, value)
        if not self.verify:
            raise ValueError("cost: verify is (); token counts must start at 1 and increase")
        _check_curve("verify", self.verify, above_zero=True)
        _check_curve("draft_phase", self.draft_phase)
        if self.plain == 0 and not self.plain_context:
            raise ValueError("cost: plain is 0; it must be above 0 (or null: the price of verifying one token)")
        for name, (low, high) in ((name, self.measured_range.get(name, (0, 0))) for name in ("tokens", "context")):
            if low > high:
                raise ValueError(f"cost: measured_range.{name} is [{low}, {high}]; the lower end must come first")
        if self.covariance:
            _check_covariance(self.covariance, len(self.price_names))

    @property
    def price_names(self) -> tuple[str, ...]:
        """Every price of this model, in the order of its price vector: single ones, then the two tables by count."""
        single = [name for name in _SINGLE if getattr(self, name) is not None]
        tables = [f"{name}.{count}" for name in ("draft_phase", "verify") for count, _ in getattr(self, name)]
        return (*single, *tables)

    def verification(self, tokens: np.ndarray) -> np.ndarray:
        """Cost of a target pass over ``tokens`` (int array, >= 1) at context length 0.

        Linear between the measured counts; beyond the last one the last slope goes on (one count alone is flat).
        """
        counts, costs = (np.array(column, dtype=float) for column in zip(*self.verify, strict=True))
        slope = (costs[-1] - costs[-2]) / (counts[-1] - counts[-2]) if len(counts) > 1 else 0.0
        return np.interp(tokens, counts, costs) + slope * np.maximum(np.asarray(tokens) - counts[-1], 0)

    def drafting(self, drafted: np.ndarray, context: np.ndarray | float = 0) -> np.ndarray:
        """Cost of drafting ``drafted`` tokens (int array, >= 0) from context length ``context``."""
        steps = self.phase(drafted)
        if not self.draft_context:
            return np.where(drafted > 0, steps, 0.0)
        # Step j of the round reads context + j tokens: the sum over the round is k * context + k (k - 1) / 2.
        growth = self.draft_context * drafted * (context + (drafted - 1) / 2)
        return np.where(drafted > 0, steps, 0.0) + growth

    def phase(self, drafted: np.ndarray) -> np.ndarray:
        """Cost of a drafting phase of ``drafted`` tokens (int array, >= 1), what its context adds left out."""
        steps = np.maximum(drafted, 1)
        if not self.draft_phase:
            first = self.draft if self.draft_first is None else self.draft_first
            return first + (steps - 1) * self.draft
        counts, costs = (np.array(column, dtype=float) for column in zip(*self.draft_phase, strict=True))
        return np.interp(steps, counts, costs) + self.draft * np.maximum(steps - counts[-1], 0)

    def round(
        self, drafted: np.ndarray, context: np.ndarray | float = 0, passes: np.ndarray | None = None
    ) -> np.ndarray:
        """Cost of an iteration: ``passes`` draft steps, a verification of drafted + 1 tokens, the constant.

        ``passes`` (int array, default: ``drafted``) is more where drafted tokens are dropped before verification.
        """
        drafted = np.asarray(drafted)
        target = self.verification(drafted + 1) + self.verify_context * context
        return self.drafting(drafted if passes is None else passes, context) + target + self.iteration

    @property
    def rounds_vary(self) -> bool:
        """Whether `round` depends on the context length."""
        return bool(self.draft_context or self.verify_context)

    def step(self, context: np.ndarray | float = 0) -> np.ndarray:
        """Cost of a one-token step of the target without a draft."""
        base = self.verify[0][1] if self.plain is None else self.plain
        slope = self.verify_context if self.plain_context is None else self.plain_context
        return base + slope * np.asarray(context, dtype=float)

    def for_any_pair(self) -> CostModel:
        """The same prices without the facts of the pair that they were measured on, to price another pair with them."""
        kept = {name: fact for name, fact in self.machine.items() if name not in PAIR_FACTS}
        return dataclasses.replace(self, machine=kept)

    def outside_range(self, drafted: np.ndarray, context: np.ndarray) -> str | None:
        """Says how far verified tokens (drafted + 1) or context lengths leave what was measured, else None."""
        found = []
        for name, values in (("tokens", np.asarray(drafted) + 1), ("context", np.asarray(context))):
            if name in self.measured_range and len(values):
                low, high = self.measured_range[name]
                share = float(np.mean((values < low) | (values > high)))
                if share > 0:
                    seen = f"{values.min()}-{values.max()}"
                    found.append(f"{name} {seen} outside the measured {low}-{high} in {share:.1%} of iterations")
        return "; ".join(found) or None

    def save(self, path: str | Path) -> None:
        """Write it as JSON, whole, making the folder.  Raises OSError that names the file."""
        stored = {"schema": SCHEMA_VERSION, **dataclasses.asdict(self)}
        matrix = stored.pop("covariance")  # hundreds of numbers: a line a row, not a line a number
        text = json.dumps(stored, indent=1, allow_nan=False)
        if matrix:
            rows = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in matrix)
            text = f'{text[:-2]},\n "covariance": [\n{rows}\n ]\n}}'
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(Path(path), lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))

    @staticmethod
    def load(path: str | Path) -> CostModel:
        """Read a cost model.  Raises ValueError that names the file and what is wrong with it."""
        try:
            stored = read_json(Path(path))
        except (OSError, ValueError) as error:
            problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise ValueError(
                f"{path}: not a readable cost model ({problem[:200]}); `oracle calibrate {path}` makes one"
            ) from None
        version = stored.pop("schema", None)
        if type(version) is not int or version != SCHEMA_VERSION:
            raise ValueError(f"{path}: cost model schema {short(version)}, this version reads {SCHEMA_VERSION}")
        known = {item.name for item in dataclasses.fields(CostModel)}
        if unknown := set(stored) - known:
            raise ValueError(f"{path}: unknown field {short(min(unknown))}; legal: {', '.join(sorted(known))}")
        if "draft" not in stored:
            raise ValueError(f"{path}: draft is missing: the price of a draft step")
        try:
            return CostModel(**stored)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def assumed(trace: Trace) -> CostModel:
    """Prices of a trace where none were measured: a draft step of a tenth of a target step, of nothing for a lookup."""
    return CostModel(draft=LOOKUP_DRAFT if trace.mute else DEFAULT_DRAFT)


def _check_curve(name: str, curve: tuple[tuple[int, float], ...], above_zero: bool = False) -> None:
    """Raise ValueError unless counts start at 1 and increase, and costs never fall."""
    counts, costs = [count for count, _ in curve], [cost for _, cost in curve]
    if counts and (counts[0] != 1 or sorted(set(counts)) != counts):
        raise ValueError(f"cost: {name} is {short(curve)}; token counts must start at 1 and increase")
    if sorted(costs) != costs or (above_zero and costs[0] <= 0):
        wanted = "costs must be above 0 and never fall" if above_zero else "costs must never fall"
        raise ValueError(f"cost: {name} is {short(curve)}; {wanted} as tokens are added")


def _check_covariance(rows: tuple[tuple[float, ...], ...], prices: int) -> None:
    """Raise ValueError unless the lower triangle is that of a covariance matrix of so many prices."""
    if [len(row) for row in rows] != list(range(1, prices + 1)):
        raise ValueError(
            f"cost: covariance has {len(rows)} rows; it must be a lower triangle, one row for each of {prices} prices"
        )
    full = symmetric(rows)
    spread = np.sqrt(np.maximum(np.diag(full), 0))
    scale = np.where(spread > 0, spread, 1)
    # Stored numbers are rounded, and prices that move together make it singular.
    if np.linalg.eigvalsh(full / scale / scale[:, None]).min(initial=0) < -1e-3:
        raise ValueError("cost: covariance is no covariance matrix: it gives some sum of prices a negative variance")


def symmetric(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """The matrix float [p, p] of a lower triangle."""
    full = np.zeros((len(rows), len(rows)))
    for number, row in enumerate(rows):
        full[number, : number + 1] = full[: number + 1, number] = row
    return full


def iid_tokens_per_iteration(acceptance: float, tokens: int) -> float:
    """Expected emitted tokens an iteration when each drafted token is accepted independently.

    (1 - a^(k+1)) / (1 - a): Leviathan et al., Fast Inference from Transformers via Speculative Decoding, equation 1.
    """
    if acceptance == 1:
        return tokens + 1.0
    return (1 - acceptance ** (tokens + 1)) / (1 - acceptance)


def iid_speedup(acceptance: float, tokens: int, cost: CostModel) -> float:
    """Speedup of a constant lookahead under independent acceptance (their theorem 3.8, with this cost model)."""
    return float(iid_tokens_per_iteration(acceptance, tokens) * cost.step() / cost.round(np.asarray(tokens)))
