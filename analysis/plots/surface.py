"""The speedup of a rule over its threshold and its cap: how flat the top is, and where the library's default lies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from analysis.plots.canvas import axes_or_new, describe, figure_of, legend, new_axes, retitle
from analysis.plots.letters import printable, short_name
from analysis.plots.palette import BLACK, INK, ORANGE, VERMILLION
from analysis.tune.result import Surface

SIZE = (5.6, 5.2)  # inches
_GAINS = LinearSegmentedColormap.from_list("gains", ["#f6fafc", "#c3ddee", "#8fc0e0", "#5a9fd0", "#2b6ca3"])
_LOSS, _UNKNOWN = "#d9d9d9", "#ffffff"
_EVERY = 5  # thresholds from one named on the axis to the next


def plot_surface(data: Surface, ax: Axes | None = None) -> Axes:
    """Speedup by colour, losses in grey, the settings that may be the best within a line; default and choice marked.

    The lowest row, threshold "off", are the constants.
    """
    ax = axes_or_new(ax, SIZE)
    speed = np.array(data.speedup)
    top = max(float(np.nanmax(speed)), 1.01)
    colours = _GAINS.with_extremes(under=_LOSS, bad=_UNKNOWN)
    drawn = ax.pcolormesh(np.ma.masked_invalid(speed), cmap=colours, norm=Normalize(1, top))
    bar = figure_of(ax).colorbar(drawn, ax=ax, extend="min", fraction=0.05, pad=0.02)
    bar.set_label(printable("speedup over no draft (grey: a loss)"), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    _outline(ax, np.array(data.in_group))
    _marks(ax, data)
    ax.set_xticks(np.arange(len(data.caps)) + 0.5, [f"{cap}" for cap in data.caps])
    rows = [0, *range(_EVERY, len(data.thresholds), _EVERY)]
    ax.set_yticks([row + 0.5 for row in rows], ["off" if row == 0 else f"{data.thresholds[row]:g}" for row in rows])
    ax.grid(False)
    legend(ax, "upper center", below=0.13)
    describe(ax, f"{data.family}: speedup by threshold and cap", "cap, tokens", "threshold on the confidence")
    return ax


def surface_panels(surfaces: Mapping[str, Surface], size: tuple[float, float] = SIZE) -> Figure:
    """One figure with a panel (``size`` in inches) for each data set, by its name."""
    axes = new_axes(len(surfaces), min(len(surfaces), 3), size)
    for (name, data), ax in zip(surfaces.items(), axes, strict=True):
        plot_surface(data, ax)
        if len(surfaces) > 1:
            retitle(ax, f"{short_name(name)}: {ax.get_title(loc='left')}")
    return figure_of(axes[0])


def _outline(ax: Axes, inside: np.ndarray) -> None:
    """A line around the cells (bool [T, C]) that are ``inside``."""
    padded = np.pad(inside, 1)
    rows, columns = np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1])
    ax.hlines(rows, columns, columns + 1, color=INK, linewidth=1.4)
    rows, columns = np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1])
    ax.vlines(columns, rows, rows + 1, color=INK, linewidth=1.4)
    if inside.any():
        ax.plot([], [], color=INK, linewidth=1.4, label="may be the best (95 %, all settings at once)")


def _marks(ax: Axes, data: Surface) -> None:
    marks = (
        ("the library's default", data.default, "s", ORANGE),
        ("the fastest here", data.best, "o", BLACK),
        ("advised", data.chosen, "*", VERMILLION),
    )
    for label, place, marker, colour in marks:
        if place is None or place[0] not in data.thresholds or place[1] not in data.caps:
            continue
        at = data.caps.index(place[1]) + 0.5, data.thresholds.index(place[0]) + 0.5
        filled = marker == "*"
        ax.plot(
            *at,
            linestyle="none",
            marker=marker,
            markersize={"*": 9, "o": 12}.get(marker, 9),
            markerfacecolor=colour if filled else "none",
            markeredgecolor="white" if filled else colour,
            markeredgewidth=0.8 if filled else 1.8,
            label=label,
            zorder=5,
        )
