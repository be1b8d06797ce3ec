"""Simulated beside measured speedups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.intervals import Estimate
from analysis.plots.canvas import axes_or_new, describe, figure_of, legend, name_rows, new_axes
from analysis.plots.letters import short_name
from analysis.plots.palette import GREY, INK, PAPER, SKY, styles


@dataclass(frozen=True)
class Comparison:
    """One policy's speedup, simulated and measured; where there are several data sets, on this one."""

    policy: str
    simulated: Estimate
    measured: Estimate
    dataset: str = ""
    error: Estimate | None = None  # simulated / measured - 1, paired by prompt; None where it was not paired


def simulated_vs_measured_panels(data: Sequence[Comparison], margin: float | None = None) -> Figure:
    """`plot_simulated_vs_measured` for each data set, and below each its `plot_errors`, where there are any."""
    names = list(dict.fromkeys(point.dataset for point in data)) or [""]
    parts = [[point for point in data if point.dataset == name] for name in names]
    paired = any(point.error is not None for point in data)
    columns = min(len(parts), 3) if not paired else len(parts)
    panels = new_axes(len(parts) * (1 + paired), columns=columns, size=_square(max(map(len, parts))))
    for number, part in enumerate(parts):
        plot_simulated_vs_measured(part, panels[number])
        if paired:
            plot_errors(part, panels[len(parts) + number], margin=margin)
    return figure_of(panels[0])


def plot_errors(data: Sequence[Comparison], ax: Axes | None = None, *, margin: float | None = None) -> Axes:
    """How far each simulated speedup is from the measured one, paired by prompt, with its 95 % interval.

    Within ``margin`` (a share, shaded) with its whole interval, the two are shown to be equal.
    """
    points = [point for point in data if point.error is not None]
    if not points:
        raise ValueError("no comparison with a paired error; give at least one")
    ax = axes_or_new(ax, (4.6, 1.3 + 0.36 * len(points)))
    looks = styles([point.policy for point in data])
    if margin is not None:
        ax.axvspan(-100 * margin, 100 * margin, color=SKY, alpha=0.18, linewidth=0,
                   label=f"within the budget, ±{100 * margin:g} %")  # fmt: skip
    ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 2)))
    for row, point in enumerate(points):
        error, look = point.error, looks[point.policy]
        assert error is not None
        ax.errorbar(100 * error.value, row, xerr=100 * _arms(error), color=look.color, marker=look.marker, markersize=6,
                    markeredgecolor=PAPER, markeredgewidth=0.6, linestyle="none", elinewidth=1.2)  # fmt: skip
    name_rows(ax, [short_name(point.policy) for point in points])
    ax.set_ylim(len(points) - 0.4, -0.6)
    reach = max(abs(end) for end in ax.get_xlim())
    ax.set_xlim(-reach, reach)
    ax.grid(visible=False, axis="y")
    describe(ax, "Error of the simulated speedup, paired", "simulated over measured, % (95 %)", "")
    legend(ax, "upper center", below=0.16)
    return ax


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
