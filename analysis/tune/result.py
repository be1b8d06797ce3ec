"""What `tune` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analysis.gains.heldout import HeldOut
from analysis.intervals import Estimate, ends
from oracle.records.shown import Shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Surface:
    """The speedup of a rule over its threshold and its cap, each setting on all prompts: T thresholds, C caps."""

    family: str
    thresholds: tuple[float, ...]  # rising; 0, the first, is off: the constants
    caps: tuple[int, ...]  # rising
    speedup: tuple[tuple[float, ...], ...]  # [T][C]; NaN where the record is too short
    in_group: tuple[tuple[bool, ...], ...]  # [T][C], not distinguishable from the best of all that was tried
    best: tuple[float, int]  # the fastest of them, (threshold, cap)
    chosen: tuple[float, int] | None  # the one that is advised, where it is one of them
    default: tuple[float, int]  # the library's own


@dataclass(frozen=True)
class Looked:
    """One family, tuned: each half of the prompts judged under the setting that was best on the other half."""

    family: str
    best: str  # its best setting on all prompts
    tried: int
    in_sample: float  # speedup of ``best`` on the prompts that chose it
    speedup: Estimate  # over no draft, held out; the interval holds for all such looks at once, 95 %
    over_constant: Estimate  # over the tuned constant, paired and held out; likewise


@dataclass(frozen=True)
class Tried:
    """One setting on all prompts; each interval holds for all settings and both comparisons at once, 95 %."""

    policy: str
    family: str
    speedup: Estimate  # over no draft
    over_constant: Estimate  # over the best constant, paired
    in_group: bool  # not distinguishable from the best


@dataclass(frozen=True, repr=False)
class Tuned(Shown):
    """Which policy to use on a trace, and how well that is known.  Speedups and gains are ratios of seconds."""

    policy: str  # what to use; "none": no draft
    speedup: Estimate  # of that choice over no draft, on prompts that had no part in it; exactly 1 for "none"
    over_constant: Estimate  # paired, held out: the best of all that was tried over the tuned constant
    constant: str  # the best constant on all prompts
    group: tuple[str, ...]  # settings that are not distinguishable from the best, fastest first; may hold "none"
    simplest: str  # of the group (`analysis.tune.simplicity`)
    optimism: float  # of the fastest: speedup on the prompts that chose it over that on others, less 1; NaN: too few
    sentences: tuple[str, ...]
    surface: Surface | None  # threshold x cap of `dynamic`; None where it was not tried
    tried: int  # settings
    prompts: int
    held: HeldOut | None = field(default=None, repr=False)  # the evidence that ``policy`` rests on
    looks: tuple[Looked, ...] = ()
    settings: tuple[Tried, ...] = field(default=(), repr=False)  # all that was tried, fastest first
    chosen: dict[str, int] = field(default_factory=dict)  # setting -> how many of the folds chose it
    folds: int = 0
    left_out: dict[str, str] = field(default_factory=dict)  # family -> why the record does not do for it

    def in_short(self) -> str:
        return f"{self.policy}: speedup {self.speedup}, {self.tried:,} settings tried on {self.prompts:,} prompts"

    def to_frame(self) -> pd.DataFrame:
        """One row a setting, fastest first; the intervals hold for all of them at once."""
        import pandas as pd

        rows = [
            {
                "policy": each.policy,
                "family": each.family,
                **ends("speedup", each.speedup),
                **ends("over_constant", each.over_constant),
                "may_be_best": each.in_group,
            }
            for each in self.settings
        ]
        return pd.DataFrame(rows)
