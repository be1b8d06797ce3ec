"""How long and how varied oracle iterations are, beside the published data sets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from analysis.plots.canvas import axes_or_new, describe, name_rows, note
from analysis.plots.letters import short_name
from analysis.plots.palette import BLUE, GREY
from analysis.plots.samples import X_LABEL, values_of
from analysis.published import ORACLE_ANALYSIS, published_for
from oracle.records.spread import standard_deviation
from oracle.records.trace import Trace


def plot_variance(data: Mapping[str, Trace], ax: Axes | None = None) -> Axes:
    """Mean and SD of the oracle SL (`detect`) of each data set, beside the published values."""
    ax = axes_or_new(ax)
    rows = _variance_rows(data)
    widest = max(mean + sd for *_, mean, sd in rows)
    for row, (_, own, mean, sd) in enumerate(rows):
        color, face = (BLUE, BLUE) if own else (GREY, "white")
        whisker = [max(mean - sd, 0), mean + sd]  # no iteration is shorter than nothing
        ax.plot(whisker, [row, row], color=color, linewidth=2 if own else 1.4, solid_capstyle="butt")
        ax.plot(mean, row, marker="o" if own else "D", color=color, markerfacecolor=face, linestyle="none")
        note(ax, (mean + sd + widest * 0.02, row), f"{mean:.1f} ± {sd:.1f}", up="center")
    name_rows(ax, [name for name, *_ in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, widest * 1.25)
    ax.grid(visible=False, axis="y")
    describe(ax, "Oracle SL (detect), mean ± SD, beside the published pairs", X_LABEL["detect"], "")
    return ax


def _variance_rows(data: Mapping[str, Trace]) -> list[tuple[str, bool, float, float]]:
    """(label, whether measured, mean, SD): each trace with its published twin below, then the other published ones."""
    rows, left = [], dict(ORACLE_ANALYSIS)
    for name, trace in data.items():
        values, words = values_of(trace, "detect")
        spread = float(np.nan_to_num(standard_deviation(values)))  # one iteration has no whisker
        rows.append(
            (f"{short_name(name)}, measured\n" + "\n".join(words.split(", ")), True, float(values.mean()), spread)
        )
        twin = published_for(name)
        if twin and left.pop(twin.data, None):
            rows.append((f"{twin.data}, published", False, twin.mean, twin.sd))
    return rows + [(f"{name}, published", False, found.mean, found.sd) for name, found in left.items()]
