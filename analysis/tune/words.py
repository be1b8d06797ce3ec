"""What `tune` found, in sentences; each carries the numbers that it rests on."""

from __future__ import annotations

import math

from analysis.tune.result import Tuned
from analysis.verdict import NO_DRAFT


def sentences(found: Tuned) -> tuple[str, ...]:
    """Everything that is to be said of it, the advice first."""
    return (_advice(found),)


def _advice(found: Tuned) -> str:
    if found.policy == NO_DRAFT:
        return f"No setting is seen to beat no draft: of {found.tried} that were tried none pays. Use no draft."
    known = "" if math.isnan(found.speedup.low) else " on prompts that did not choose it"
    return f"Use {found.policy}: {found.speedup} times as fast as no draft{known}."
