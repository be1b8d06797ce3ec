"""Figures of the recorded signals: is confidence calibrated, and which signal tells best."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from analysis.describe.signals import EVERY, recorded, reliability, roc_curve, signal_quality
from analysis.plots.canvas import axes_or_new, describe, legend
from analysis.plots.palette import GREY, OBSERVED, style
from oracle.records.trace import Trace

SQUARE = (4.8, 4.6)  # inches


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
    quality = signal_quality(data, at, positions, [signal], resamples=1)[0]  # its intervals are not drawn
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
        f"{shown} of the draft\n({quality.count:,} positions: {positions})",
        "share accepted",
    )  # fmt: skip
    legend(ax)
    return ax


def plot_roc(data: Trace, ax: Axes | None = None, *, at: np.ndarray | None = None, positions: str = EVERY) -> Axes:
    """ROC curve of each signal as a predictor of acceptance, with its area and interval."""
    ax = axes_or_new(ax, SQUARE)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 2)), label="a coin: 0.5")
    count = 0
    if not recorded(data):
        data.need("confidence", for_="the ROC curves")
    for quality in signal_quality(data, at, positions, resamples=1):  # the area's interval needs no resampling
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
        ax.text(
            0.5, 0.6, "the draft was always right, or always wrong:\nnothing to tell apart", ha="center", fontsize=9
        )
    ax.set_xlim(-0.01, 1)
    ax.set_ylim(0, 1.01)
    ax.set_aspect("equal")
    describe(
        ax,
        "Signals as predictors of acceptance (AUC)",
        f"share of refused tokens let through\n({count:,} positions: {positions})",
        "share of accepted tokens let through",
    )  # fmt: skip
    legend(ax, "lower right")
    return ax
