"""Simulated beside measured speedups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.intervals import Estimate
from analysis.plots.canvas import axes_or_new, describe, figure_of, legend, new_axes
from analysis.plots.letters import short_name
from analysis.plots.palette import GREY, INK, PAPER, styles


@dataclass(frozen=True)
class Comparison:
    """One policy's speedup, simulated and measured; where there are several data sets, on this one."""

    policy: str
    simulated: Estimate
    measured: Estimate
    dataset: str = ""


def simulated_vs_measured_panels(data: Sequence[Comparison]) -> Figure:
    """`plot_simulated_vs_measured` for each data set, side by side."""
    names = list(dict.fromkeys(point.dataset for point in data)) or [""]
    parts = [[point for point in data if point.dataset == name] for name in names]
    panels = new_axes(len(parts), columns=min(len(parts), 3), size=_square(max(map(len, parts))))
    for ax, part in zip(panels, parts, strict=True):
        plot_simulated_vs_measured(part, ax)
    return figure_of(panels[0])


def plot_simulated_vs_measured(data: Sequence[Comparison], ax: Axes | None = None) -> Axes:
    """Simulated against measured speedup, a point a policy with both intervals; on the diagonal the two agree."""
    if not data:
        raise ValueError("no policy to compare; give at least one Comparison")
    ax = axes_or_new(ax, _square(len(data)))
    looks = styles([point.policy for point in data])
    ends = np.array(
        [[getattr(each, end) for end in ("value", "low", "high")] for p in data for each in (p.simulated, p.measured)]
    )
    low, high = np.nanmin(ends), np.nanmax(ends)
    margin = max((high - low) * 0.08, 0.05)
    limits = (max(low - margin, 0), high + margin)
    ax.plot(limits, limits, color=GREY, linewidth=1, linestyle=(0, (4, 2)), label="equal", zorder=1)
    for point in data:
        look = looks[point.policy]
        off = point.simulated.value / point.measured.value - 1
        ax.errorbar(
            point.measured.value, point.simulated.value, xerr=_arms(point.measured), yerr=_arms(point.simulated),
            color=look.color, marker=look.marker, markersize=6, markeredgecolor=PAPER, markeredgewidth=0.6,
            linestyle="none", elinewidth=0.9, label=f"{short_name(point.policy)} ({off:+.1%})", zorder=3,
        )  # fmt: skip
    if limits[0] < 1 < limits[1]:
        for line in (ax.axhline, ax.axvline):
            line(1, color=INK, linewidth=0.6)
    ax.set_xlim(limits)
    ax.set_ylim(limits)
    ax.set_xticks(ax.get_yticks())
    ax.set_xlim(limits)
    ax.set_aspect("equal", anchor="N")  # the room that the square leaves is the legend's
    where = " on " + short_name(data[0].dataset) if data[0].dataset else ""
    describe(ax, f"Speedup{where}", "measured speedup over plain decoding", "simulated speedup")
    legend(ax, "upper center", below=0.13, title="policy (simulated over measured)")
    return ax


def _square(entries: int) -> tuple[float, float]:
    """Inches of a square of axes with a legend of that many entries, the diagonal and a title below."""
    return 4.6, 4.95 + 0.175 * (entries + 2)


def _arms(estimate: Estimate) -> np.ndarray:
    """Lengths below and above the value, [2, 1]; 0 where there is no interval."""
    arms = np.array([[estimate.value - estimate.low], [estimate.high - estimate.value]])
    return np.nan_to_num(np.maximum(arms, 0))
