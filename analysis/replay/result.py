"""What a replay found: one row an iteration, and every summary of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from analysis.cost import CostModel
from analysis.intervals import Estimate, ratio
from analysis.price_errors import NO_SHIFTS, apart
from oracle.records.shown import Shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Totals(Shown):
    """What each of P texts costs under a policy, and what follows from that."""

    policy: str
    plain_seconds: np.ndarray  # float [P], price of decoding each text without a draft
    prefill_seconds: np.ndarray  # float [P, 2], reading the prompt: with a draft, without
    prompt_seconds: np.ndarray  # float [P], price of each text's iterations
    # How far the errors of the prices move the logs of both totals (`PriceErrors.shifts`), float [r]; r = 0: not known
    plain_shifts: np.ndarray = field(default_factory=NO_SHIFTS.copy, kw_only=True)
    shifts: np.ndarray = field(default_factory=NO_SHIFTS.copy, kw_only=True)

    def in_short(self) -> str:
        return f"{self.policy}: speedup {self.speedup_estimate()}, {len(self.prompt_seconds):,} prompts"

    def to_frame(self) -> pd.DataFrame:
        """One row a prompt: its price without a draft and with the policy, in the cost model's unit."""
        import pandas as pd

        return pd.DataFrame({"plain_seconds": self.plain_seconds, "seconds": self.prompt_seconds})

    @property
    def speedup(self) -> float:
        """Plain decoding over decoding with this policy; a ratio of totals, the reading of the prompt left out."""
        return float(self.plain_seconds.sum() / self.prompt_seconds.sum())

    @property
    def total_speedup(self) -> float:
        """The same with the reading of the prompt in both totals."""
        with_draft, without = self.prefill_seconds.sum(axis=0)
        return float((self.plain_seconds.sum() + without) / (self.prompt_seconds.sum() + with_draft))

    def speedup_estimate(self) -> Estimate:
        """The speedup with its 95 % interval (``analysis.intervals``), NaN for one prompt only.

        It is over prompts, and over the prices where these have standard errors (`prices_vary`).
        """
        return ratio(self.plain_seconds, self.prompt_seconds, log_variance=self.price_variance())

    @property
    def prices_vary(self) -> bool:
        """Whether the prices have standard errors, so that intervals hold their uncertainty too."""
        return len(self.shifts) > 0

    def price_variance(self, baseline: Totals | None = None) -> float:
        """Variance, from the prices' errors, of the log of plain decoding's (or ``baseline``'s) total over this one.

        0 where the errors of the prices are not known.
        """
        return apart(self.plain_shifts if baseline is None else baseline.shifts, self.shifts)

    def speedup_interval(self) -> tuple[float, float]:
        """The interval alone, (low, high)."""
        found = self.speedup_estimate()
        return found.low, found.high


@dataclass(frozen=True, repr=False)
class SimulationResult(Totals):
    """One row an iteration (I of them), in order; every summary is derived from the rows."""

    cost: CostModel
    prompt: np.ndarray  # int64 [I], number of the prompt in the trace
    position: np.ndarray  # int64 [I], tokens of the text before the iteration
    drafted: np.ndarray  # int64 [I]
    accepted: np.ndarray  # int64 [I]
    seconds: np.ndarray  # float [I], price of the iteration in the cost model's unit
    passes: np.ndarray  # int64 [I], draft passes paid: more than `drafted` where a policy drops tokens
    unrecorded: int = 0  # iterations whose draft outran the recorded overrun: `drafted` is exact unless EOS came there

    def in_short(self) -> str:
        counts = f"{self.iterations:,} iterations, {self.draft_tokens:,} drafted, {self.accepted_tokens:,} accepted"
        return f"{super().in_short()}, {counts}"

    def to_frame(self) -> pd.DataFrame:
        """One row an iteration: prompt (number in the trace), position, drafted, accepted, seconds."""
        import pandas as pd

        names = ("prompt", "position", "drafted", "accepted", "seconds")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    @property
    def iterations(self) -> int:
        return len(self.prompt)

    @property
    def tokens(self) -> int:
        return int(self.accepted.sum()) + self.iterations

    @property
    def draft_tokens(self) -> int:
        return int(self.drafted.sum())

    @property
    def draft_passes(self) -> int:
        return int(self.passes.sum())

    @property
    def accepted_tokens(self) -> int:
        return int(self.accepted.sum())

    @property
    def wasted(self) -> int:
        """Drafted tokens that were not kept."""
        return self.draft_tokens - self.accepted_tokens

    @property
    def accepted_share(self) -> float:
        """accepted / drafted; nan where nothing was drafted.  Falls as more is drafted: not an acceptance rate."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else float("nan")

    @property
    def tokens_per_iteration(self) -> float:
        """Tokens that a target pass yields: mean accepted + 1."""
        return self.tokens / self.iterations

    @property
    def totals(self) -> Totals:
        """Without the rows."""
        return Totals(**{each.name: getattr(self, each.name) for each in fields(Totals)})
