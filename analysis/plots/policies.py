"""Figures of policies: one prompt iteration by iteration, and simulated beside measured speedups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.intervals import Estimate
from analysis.plots.canvas import axes_or_new, describe, legend, new_axes
from analysis.plots.palette import GREY, INK, PAPER, styles
from analysis.replay.simulate import SimulationResult
from oracle.records.trace import Trace

FEW = 80  # iterations up to which each gets a marker


@dataclass(frozen=True)
class Comparison:
    """One policy's speedup, simulated and measured; where there are several data sets, on this one."""

    policy: str
    simulated: Estimate
    measured: Estimate
    dataset: str = ""


def plot_iterations(
    data: Trace, ax: Axes | None = None, *, results: Sequence[SimulationResult] = (), prompt: int = 0
) -> Axes:
    """One prompt: tokens drafted (lines) and accepted (dots) by each policy, iteration by iteration, over the oracle's.

    The legend counts the passes of each: target passes are iterations, draft passes the tokens drafted.  The oracle is
    `detect`: it pays for the pass that disagrees.  Raises ValueError for a prompt that the trace does not have.
    """
    if not 0 <= prompt < data.prompts:
        raise ValueError(f"prompt must be from 0 to {data.prompts - 1}, not {prompt}")
    ax = axes_or_new(ax)
    runs = data.iterations()
    runs = runs[runs.prompt == prompt]
    accepted = runs.accepted.to_numpy()
    room = data.budget[data.offsets[prompt] + runs.position.to_numpy()]
    drafted = np.minimum(accepted + 1, room)
    _steps(ax, drafted, _passes("oracle", drafted), ("#e3e3e3", "#7a7a7a"))
    looks = styles([result.policy for result in results])
    longest = len(drafted)
    for result in results:
        mine = result.prompt == prompt
        look, lengths, kept = looks[result.policy], result.drafted[mine], result.accepted[mine]
        x = np.arange(1, len(lengths) + 1)
        ax.step(
            x,
            lengths,
            where="mid",
            color=look.color,
            linestyle=look.dash,
            linewidth=1.3,
            label=_passes(result.policy, lengths),
        )
        if len(x) <= FEW:
            ax.plot(x, kept, color=look.color, marker=look.marker, markersize=3.5, linestyle="none")
        longest = max(longest, len(lengths))
    if results and longest <= FEW:
        ax.plot([], [], color=GREY, marker="o", markersize=3.5, linestyle="none", label="accepted")
    ax.set_xlim(0.5, max(longest, 2) + 0.5)
    top = max(
        [
            int(drafted.max(initial=1)),
            *(int(result.drafted[result.prompt == prompt].max(initial=1)) for result in results),
        ]
    )
    ax.set_ylim(-0.03 * top, top * (1.1 + 0.085 * (len(results) + 1)) + 0.5)
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)
    size = int(data.offsets[prompt + 1] - data.offsets[prompt])
    title = f"Drafted tokens by iteration (prompt {data.ids[prompt]}, {size:,} tokens)"
    describe(ax, _plain(title), "iteration", "tokens drafted")
    legend(ax, "upper right")
    return ax


def simulated_vs_measured_panels(data: Sequence[Comparison]) -> Figure:
    """`plot_simulated_vs_measured` for each data set, side by side."""
    names = list(dict.fromkeys(point.dataset for point in data)) or [""]
    parts = [[point for point in data if point.dataset == name] for name in names]
    panels = new_axes(len(parts), columns=min(len(parts), 3), size=_square(max(map(len, parts))))
    for ax, part in zip(panels, parts, strict=True):
        plot_simulated_vs_measured(part, ax)
    return panels[0].figure


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
            linestyle="none", elinewidth=0.9, label=_plain(f"{point.policy} ({off:+.1%})"), zorder=3,
        )  # fmt: skip
    if limits[0] < 1 < limits[1]:
        for line in (ax.axhline, ax.axvline):
            line(1, color=INK, linewidth=0.6)
    ax.set_xlim(limits)
    ax.set_ylim(limits)
    ax.set_xticks(ax.get_yticks())
    ax.set_xlim(limits)
    ax.set_aspect("equal", anchor="N")  # the room that the square leaves is the legend's
    where = " on " + data[0].dataset if data[0].dataset else ""
    describe(ax, _plain(f"Speedup{where}"), "measured speedup over plain decoding", "simulated speedup")
    ax.legend(
        fontsize=8,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        title="policy (simulated over measured)",
        title_fontsize=8,
    )
    return ax


def _square(entries: int) -> tuple[float, float]:
    """Inches of a square of axes with a legend of that many entries, the diagonal and a title below."""
    return 4.6, 4.95 + 0.175 * (entries + 2)


def _steps(ax: Axes, lengths: np.ndarray, label: str, colors: tuple[str, str]) -> None:
    x = np.arange(0.5, len(lengths) + 1)
    ax.stairs(lengths, x, fill=True, color=colors[0])
    ax.stairs(lengths, x, color=colors[1], linewidth=0.8, label=label)


def _passes(name: str, drafted: np.ndarray) -> str:
    return f"{name}: {len(drafted):,} target, {int(drafted.sum()):,} draft passes"


def _arms(estimate: Estimate) -> np.ndarray:
    """Lengths below and above the value, [2, 1]; 0 where there is no interval."""
    arms = np.array([[estimate.value - estimate.low], [estimate.high - estimate.value]])
    return np.nan_to_num(np.maximum(arms, 0))


def _plain(text: str) -> str:
    """``text`` without the signs that matplotlib would read as mathematics."""
    return text.replace("$", r"\$")
