"""Is a signal of the draft calibrated?"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.describe.signals import EVERY, reliability, signal_quality
from analysis.plots.canvas import SQUARE, axes_or_new, describe, legend
from analysis.plots.letters import short_name
from analysis.plots.palette import GREY, OBSERVED, style
from oracle.records.trace import Trace


def plot_calibration(
    data: Trace,
    ax: Axes | None = None,
    *,
    signal: str = "confidence",
    at: np.ndarray | None = None,
    positions: str = EVERY,
) -> Axes:
    """Reliability diagram: share of tokens accepted by score, with bands; on the diagonal the score is a probability.

    Bars at the bottom say where the positions lie.  ``at`` (bool [N]) restricts to positions that ``positions`` names.
    """
    ax = axes_or_new(ax, SQUARE)
    found = reliability(data, signal, at)
    quality = signal_quality(data, at, positions, [signal])[0]
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 2)), label="calibrated")
    weights = found.count / found.count.sum()
    left, right = found.edges.T
    ax.bar(
        left,
        weights,
        width=right - left,
        align="edge",
        color=OBSERVED,
        edgecolor="white",
        linewidth=0.5,
        label="share of positions",
    )
    arms = np.maximum(np.stack([found.accepted - found.low, found.high - found.accepted]), 0)
    look = style(signal)
    label = f"{signal}: calibration error {quality.calibration_error.value:.3f}, Brier {quality.brier.value:.3f}"
    ax.errorbar(
        found.score,
        found.accepted,
        yerr=arms,
        color=look.color,
        marker="o",
        markersize=4,
        linewidth=1.4,
        elinewidth=1,
        label=label,
    )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.02)
    shown = "exp(−entropy)" if signal == "entropy" else signal
    describe(
        ax,
        f"Does {shown} tell the chance of acceptance?",
        f"{shown} of the draft\n({quality.count:,} positions: {short_name(positions)})",
        "share accepted",
    )  # fmt: skip
    legend(ax)
    return ax
