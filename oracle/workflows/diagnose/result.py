"""What a diagnosis found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.diagnosis import words
from analysis.diagnosis.found import Answer, Found
from analysis.intervals import ends
from oracle.records.shown import Shown
from oracle.settings import Settings
from oracle.workflows.diagnose.plan import Plan

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Diagnosis(Shown):
    """Whether a draft pays, why, and what to set; every number that the sentences rest on is in ``found``."""

    target: str
    draft: str  # the best one
    data: str
    machine: dict  # where it was measured
    answer: Answer  # whether what is recommended is faster than no draft; "slower" where that is no draft itself
    policy: str  # what to use; "none": no draft
    settings: tuple[Settings, ...]  # lines to paste, one entry an engine
    found: Found
    plan: Plan
    seconds: float  # that it took, earlier runs included
    folder: str
    report: str  # the page about the tuning prompts

    def in_short(self) -> str:
        return f"{self.answer}: {self.policy}, {self.speedup} times the speed of no draft, {self.data}"

    def to_frame(self) -> pd.DataFrame:
        """One row a way of decoding that the check clocked."""
        import pandas as pd

        rows = [
            {
                "role": arm.role,
                "policy": arm.policy,
                "ms_per_token": arm.ms_per_token,
                **ends("speedup", arm.speedup),
                **ends("over_default", arm.over_default),
            }
            for arm in self.found.check.arms
        ]
        return pd.DataFrame(rows)

    @property
    def speedup(self):
        """Measured, of what is recommended (of the best fixed length where that is no draft), over no draft."""
        return self.found.check.arm(self.found.ran_as).speedup

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in words, paragraph by paragraph."""
        parts = (words.headline, words.why, words.change, words.drafts, words.surer)
        return tuple(line for each in parts for line in each(self.found))
