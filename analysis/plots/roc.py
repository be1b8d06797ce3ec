"""Which signal of the draft tells best?"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.describe.signals import EVERY, recorded, roc_curve, signal_quality
from analysis.plots.canvas import SQUARE, axes_or_new, describe, legend, note
from analysis.plots.letters import short_name
from analysis.plots.palette import GREY, style
from oracle.records.trace import Trace


def plot_roc(data: Trace, ax: Axes | None = None, *, at: np.ndarray | None = None, positions: str = EVERY) -> Axes:
    """ROC curve of each signal as a predictor of acceptance, with its area and interval."""
    ax = axes_or_new(ax, SQUARE)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 2)), label="a coin: 0.5")
    count = 0
    if not recorded(data):
        data.need("confidence", for_="the ROC curves")
    for quality in signal_quality(data, at, positions):
        count, area = quality.count, quality.auc
        if np.isnan(area.value):
            continue
        look = style(quality.signal)
        interval = "" if np.isnan(area.low) else f" ({area.low:.3f} to {area.high:.3f})"
        refused, accepted = roc_curve(data, quality.signal, at)
        ax.plot(
            refused,
            accepted,
            color=look.color,
            linestyle=look.dash,
            linewidth=1.6,
            label=f"{quality.signal}: {area.value:.3f}{interval}",
        )
    if len(ax.lines) == 1:
        words = "the draft was always right, or always wrong:\nnothing to tell apart"
        note(ax, (0.5, 0.6), words, size=9, across="center")
    ax.set_xlim(-0.01, 1)
    ax.set_ylim(0, 1.01)
    ax.set_aspect("equal")
    describe(
        ax,
        "Signals as predictors of acceptance (AUC)",
        f"share of refused tokens let through\n({count:,} positions: {short_name(positions)})",
        "share of accepted tokens let through",
    )  # fmt: skip
    legend(ax, "lower right")
    return ax
