"""Policies against one of them, prompt by prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.plots.canvas import axes_or_new, describe, name_rows, note
from analysis.plots.letters import short_name
from analysis.plots.palette import BLACK, GREY, style
from analysis.replay.oracles import is_oracle
from analysis.replay.paired import paired
from analysis.replay.result import Totals


def plot_compare(data: Totals, ax: Axes | None = None, *, results: Sequence[Totals] = ()) -> Axes:
    """How much faster each of ``results`` is than the policy of ``data``, in per cent, paired by prompt, with 95 %.

    Left of the line it is slower.  All at the same prices.  Raises ValueError without results.
    """
    others = [result for result in results if result.policy != data.policy]
    if not others:
        raise ValueError(f"nothing to compare with {data.policy}; give results of other policies")
    ax = axes_or_new(ax, (6.4, 1.3 + 0.36 * len(others)))
    gains = [paired(data, other) for other in others]
    ends = [100 * (end - 1) for gain in gains for end in (gain.value, gain.low, gain.high) if not math.isnan(end)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = max(high - low, 1.0)
    for row, (other, gain) in enumerate(zip(others, gains, strict=True)):
        colour = BLACK if is_oracle(other.policy) else style(other.policy).color
        at = [100 * (gain.low - 1), 100 * (gain.high - 1)]
        if not math.isnan(gain.low):
            ax.plot(at, [row, row], color=colour, linewidth=1.8, solid_capstyle="butt")
        ax.plot(100 * (gain.value - 1), row, color=colour, marker="D" if is_oracle(other.policy) else "o", markersize=5)
        words = f"{100 * (gain.value - 1):+.1f}"
        if not math.isnan(gain.low):
            words += f" [{at[0]:+.1f}, {at[1]:+.1f}]"
        note(ax, (high + 0.06 * room, row), words, up="center")
    ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 2)))
    name_rows(ax, [short_name(other.policy) for other in others])
    ax.set_ylim(len(others) - 0.4, -0.7)
    ax.set_xlim(low - 0.05 * room, high + 0.45 * room)
    ax.grid(visible=False, axis="y")
    describe(ax, f"Faster than {short_name(data.policy)}, 95 %", "% faster, paired by prompt (below 0: slower)", "")
    return ax
