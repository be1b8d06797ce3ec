"""The gain of the best constant lookahead over acceptance and draft cost, by the closed form for i.i.d. acceptance."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap

from analysis.closed_form import best_speedups, predict
from analysis.cost import CostModel
from analysis.plots.canvas import axes_or_new, describe, note
from analysis.plots.palette import BLACK, INK, VERMILLION

_LEVELS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
_GAINS = LinearSegmentedColormap.from_list("gains", ["#f6fafc", "#c3ddee", "#8fc0e0", "#5a9fd0"])
_LOSS = "#e4e4e4"
_HIGHEST = 0.98  # acceptance that is drawn: from there on a contour is as thin as a line
_POINTS = 121


def plot_prediction(acceptance: float, cost: CostModel, ax: Axes | None = None) -> Axes:
    """Speedup of the best lookahead as contours, where a draft loses in grey, and the point that is asked about.

    The vertical axis takes the place of the model's own draft cost; everything else stays.
    """
    found = predict(acceptance, cost)
    ax = axes_or_new(ax, (6.4, 4.6))
    rates = np.linspace(0.0, max(_HIGHEST, acceptance), _POINTS)
    costs = np.linspace(0.0, max(0.5, 1.3 * found.draft_cost), _POINTS)
    speed = best_speedups(rates, costs, cost)
    ax.set_facecolor(_LOSS)
    ax.set_xlim(rates[0], rates[-1])
    ax.set_ylim(costs[0], costs[-1])
    if speed.max() > 1:
        # The same colour means the same gain in every such figure.
        ax.contourf(rates, costs, speed, _LEVELS, cmap=_GAINS, norm=BoundaryNorm(_LEVELS, 256), extend="max")
        widths = [1.8] + [0.7] * (len(_LEVELS) - 1)
        lines = ax.contour(rates, costs, speed, _LEVELS, colors=INK, linewidths=widths)
        for label in ax.clabel(lines, _LEVELS[1:], fmt=lambda level: f"{level:g}x", fontsize=7):
            label.set_parse_math(False)
    note(ax, (0.02, 0.965 * costs[-1]), "here a draft loses", up="center")
    ax.grid(False)
    ax.plot(found.acceptance, found.draft_cost, "o", color=VERMILLION, markeredgecolor=BLACK, markersize=7, zorder=5)
    told = f"{found.best.speedup:.2f}x at lookahead {found.best.tokens}" if found.best.tokens else "no draft pays"
    left = found.acceptance > 0.6  # the words stand where there is room for them
    ax.annotate(
        told,
        (found.acceptance, found.draft_cost),
        xytext=(-9 if left else 9, 7),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=8,
        fontweight="bold",
        color=BLACK,
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": VERMILLION, "linewidth": 0.8},
        zorder=6,
    )
    describe(
        ax,
        "Speedup of the best constant lookahead, i.i.d. acceptance",
        "acceptance rate of a drafted token",
        "draft step, in target steps",
    )
    return ax
