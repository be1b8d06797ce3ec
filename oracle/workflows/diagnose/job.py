"""One diagnosis under way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oracle.models.pair import Pair
from oracle.workflows.diagnose.kept import Kept
from oracle.workflows.diagnose.stages import Work, reference


@dataclass(frozen=True)
class Job:
    """What was asked for, and where it stands."""

    pairs: tuple[Pair, ...]
    names: tuple[str, ...]  # of the drafts
    prompts: Any  # the usable ones, in the order of their use
    out: Path
    budget: float
    work: Work
    kept: Kept
    begun: float  # on the clock, less what earlier runs have spent
    tell: Callable[[str], None]

    @property
    def spent(self) -> float:
        return time.monotonic() - self.begun

    @property
    def assisted(self) -> bool:
        """Whether texts are recorded from assisted runs, prompt by prompt."""
        return reference(self.pairs[0]) == "assisted"

    def saved(self, **plan: Any) -> Job:
        """The same, noted in the folder; with the plan of the check where that is given."""
        kept = replace(self.kept, spent=self.spent)
        return replace(self, kept=(kept.checked(**plan) if plan else kept).save(self.out))
