"""How numbers, intervals and policies are written on a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.intervals import Estimate


def number_text(value: Any) -> str:
    """1234 as 1,234; 0.123456 as 0.123; what is not finite by name."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def estimate_text(value: Any) -> str:
    """A number, and its interval where it has one: 0.123 [0.1, 0.2]."""
    if not hasattr(value, "low"):
        return number_text(value)
    if math.isnan(value.low):
        return number_text(value.value)
    return f"{number_text(value.value)} [{number_text(value.low)}, {number_text(value.high)}]"


def interval_text(value: Estimate) -> str:
    """A ratio never stands without its interval: 1.23 [1.10, 1.40]; [-] where one prompt says nothing of others."""
    if math.isnan(value.value):
        return "-"
    if math.isnan(value.low):
        return f"{value.value:.2f} [-]"
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def percent_text(value: Estimate) -> str:
    """A difference with its interval, in per cent, on two lines."""
    interval = "[-]" if math.isnan(value.low) else f"[{100 * value.low:+.0f},{100 * value.high:+.0f}]"
    return f"{100 * value.value:+.1f}\n{interval}"


def gain_text(ratio: Estimate) -> str:
    """A ratio as a gain with its interval, in per cent, on two lines."""
    ends = (ratio.value, ratio.low, ratio.high)
    value, low, high = (f"{100 * (end - 1):+.{0 if abs(end - 1) >= 0.0995 else 1}f}" for end in ends)
    return f"{value}\n[-]" if math.isnan(ratio.low) else f"{value}\n[{low}, {high}]"


def share_text(part: int, whole: int) -> str:
    """A share in per cent; a dash for a share of nothing."""
    return f"{part / whole:.0%}" if whole else "-"


def policy_text(text: str, width: int = 17) -> str:
    """A policy's text, broken after its name and its keys where it is too long for a column."""
    if len(text) <= width or text.startswith("oracle:"):
        return text
    return text.replace(":", ":\n ", 1).replace(",", ",\n ").replace("heuristic_", "heuristic_\n ")


def short_count(value: int) -> str:
    """A count in at most six characters: 12,345, then 123k and 1.23M."""
    if value < 100_000:
        return f"{value:,}"
    return f"{value / 1e3:.0f}k" if value < 999_500 else f"{value / 1e6:.2f}M"
