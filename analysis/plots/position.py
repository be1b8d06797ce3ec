"""The oracle SL along the text."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.describe.curves import profile
from analysis.plots.canvas import axes_or_new, describe, legend
from analysis.plots.palette import BLUE, INK
from analysis.plots.samples import in_words
from oracle.records.trace import Trace


def plot_position(data: Trace, ax: Axes | None = None, *, along: str = "iteration", bins: int = 20) -> Axes:
    """Mean oracle SL against the normalised iteration index (or position) in each text, with a band.

    The last iteration of a text is cut short by its end, so the last point lies a little low.
    """
    ax = axes_or_new(ax)
    curve, runs = profile(data, along, bins), data.iterations()
    known = curve.count > 0
    if np.isfinite(curve.low).any():
        ax.fill_between(curve.x[known], curve.low[known], curve.high[known], color=BLUE, alpha=0.2, linewidth=0)
    label = f"mean of {bins} equal stretches ({in_words(data, len(runs))})"
    ax.plot(curve.x[known], curve.value[known], color=BLUE, marker="o", markersize=3.5, linewidth=1.5, label=label)
    mean = float(runs.accepted.mean())
    ax.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 2)), label=f"mean of all, {mean:.3g}")
    ax.set_xlim(0, 1)
    most = curve.value[known].max()
    top = min(np.nanmax(np.append(curve.high[known], most)), 2 * most)  # a band of few prompts leaves the axes
    ax.set_ylim(0, max(top * 1.3, 0.5))
    place = "iteration index within the prompt" if along == "iteration" else "place in the text"
    x_label = f"normalised {place} (0 = first, 1 = last)"
    describe(ax, "Oracle SL (accepted) along the text", x_label, "accepted tokens per iteration")
    legend(ax, "upper right")
    return ax
