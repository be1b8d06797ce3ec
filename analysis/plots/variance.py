"""How long and how varied oracle iterations are, beside the published data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from analysis.plots.canvas import axes_or_new, describe, legend, name_rows, note, plain_powers
from analysis.plots.letters import short_name
from analysis.plots.palette import BLUE, GREY, INK, SKY
from analysis.plots.samples import X_LABEL, values_of
from analysis.published import ORACLE_ANALYSIS, published_for
from oracle.records.spread import standard_deviation
from oracle.records.trace import Trace

# Each box holds the middle of what the next wider one leaves out: half, three quarters, ... of all iterations
# (letter values: Hofmann, Wickham and Kafadar 2017).  A long tail shows, which a mean and its SD hide.
BOXES = ((1 / 16, 0.16, "7/8"), (1 / 8, 0.26, "3/4"), (1 / 4, 0.38, "1/2"))  # left out at an end, half the height, held


@dataclass(frozen=True)
class _Row:
    name: str
    mean: float
    sd: float
    values: np.ndarray | None = None  # int64 [n]; None where only mean and SD are published


def plot_variance(data: Mapping[str, Trace], ax: Axes | None = None) -> Axes:
    """The oracle SL (`detect`) of each data set in boxes of one half, three quarters and seven eighths of all.

    Lines lead to the shortest and the longest iteration, on a logarithmic axis; below, mean and SD that were published.
    """
    ax = axes_or_new(ax)
    rows = _rows(data)
    longest = max(float(row.mean if row.values is None else row.values.max()) for row in rows)
    for place, row in enumerate(rows):
        if row.values is not None:
            _boxes(ax, place, row.values)
        own = row.values is not None
        ax.plot(row.mean, place, marker="D", markersize=5, color=INK if own else GREY, linestyle="none",
                markerfacecolor="white", zorder=4)  # fmt: skip
        note(ax, (longest * 1.25, place), f"{row.mean:.1f} ± {row.sd:.1f}", up="center")
    note(ax, (longest * 1.25, -0.75), "mean ± SD", up="center")
    _legend(ax)
    ax.set_xscale("log")
    plain_powers(ax.xaxis)
    name_rows(ax, [row.name for row in rows])
    ax.set_ylim(len(rows) - 0.4, -1.1)
    ax.set_xlim(0.9, longest * 1.25 * 3.2)
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= longest]
    ax.set_xticks(ticks, [f"{tick}" for tick in ticks], minor=False)
    ax.minorticks_off()
    ax.grid(visible=False, axis="y")
    describe(ax, "Oracle SL (detect), beside the published pairs", X_LABEL["detect"], "")
    return ax


def _boxes(ax: Axes, place: int, values: np.ndarray) -> None:
    ax.plot([values.min(), values.max()], [place, place], color=BLUE, linewidth=1)
    for number, (tail, height, _) in enumerate(BOXES):
        low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
        ax.barh(place, high - low, left=low, height=2 * height, color=SKY, alpha=_depth(number),
                edgecolor=BLUE, linewidth=0.6)  # fmt: skip
    median = float(np.median(values))
    ax.plot([median] * 2, [place - BOXES[-1][1], place + BOXES[-1][1]], color=INK, linewidth=2)


def _depth(number: int) -> float:
    """Opacity of a box: the narrower, the darker."""
    return 0.3 + 0.25 * number


def _legend(ax: Axes) -> None:
    for number, (_, _, share) in enumerate(BOXES):
        ax.plot([], [], color=SKY, alpha=_depth(number), linewidth=6, label=f"middle {share} of the iterations")
    ax.plot([], [], color=INK, linewidth=2, label="median")
    ax.plot([], [], color=INK, marker="D", markerfacecolor="white", linestyle="none", markersize=5, label="mean")
    legend(ax, "upper center", below=0.14, columns=2)


def _rows(data: Mapping[str, Trace]) -> list[_Row]:
    """Each trace with its published twin below, then the other published ones."""
    rows, left = [], dict(ORACLE_ANALYSIS)
    for name, trace in data.items():
        values, words = values_of(trace, "detect")
        spread = float(np.nan_to_num(standard_deviation(values)))  # of one iteration there is none
        text = f"{short_name(name)}, measured\n{words.removeprefix('n = ')}"
        rows.append(_Row(text, float(values.mean()), spread, values))
        twin = published_for(name)
        if twin and left.pop(twin.data, None):
            rows.append(_Row(f"{twin.data}, published", twin.mean, twin.sd))
    return rows + [_Row(f"{name}, published", found.mean, found.sd) for name, found in left.items()]
