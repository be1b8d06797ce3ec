"""One figure with a panel for each of several data sets, and the figures that can be one."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from analysis.cost import CostModel
from analysis.fit.distributions import Fit, fit_all
from analysis.plots.calibration import plot_calibration
from analysis.plots.canvas import describe, figure_of, new_axes
from analysis.plots.hazard import plot_hazard
from analysis.plots.headroom import plot_headroom
from analysis.plots.histogram import plot_histogram
from analysis.plots.iterations import plot_iterations
from analysis.plots.letters import short_name
from analysis.plots.position import plot_position
from analysis.plots.roc import plot_roc
from analysis.plots.samples import counts_of
from analysis.plots.survival import plot_survival
from analysis.plots.variance import plot_variance
from oracle.records.trace import Trace

PANELS = {
    "histogram": plot_histogram,
    "position": plot_position,
    "iterations": plot_iterations,
    "hazard": plot_hazard,
    "survival": plot_survival,
    "calibration": plot_calibration,
    "roc": plot_roc,
    "headroom": plot_headroom,
}

FITTED = {"histogram": plot_histogram, "hazard": plot_hazard, "survival": plot_survival}
LINES = 2  # families drawn beside the geometric one: more cannot be told apart


def closest_fits(trace: Trace, with_geometric: bool = True) -> list[Fit]:
    """The geometric fit of the oracle SL (if asked for) and the `LINES` other families with the least AIC."""
    fits = fit_all(counts_of(trace))
    others = sorted((fit for fit in fits[1:] if fit.status == "ok"), key=lambda fit: fit.aic)
    return [*fits[:1], *others[:LINES]] if with_geometric else others[:LINES]


def panel(traces: Mapping[str, Trace], kind: str, cost: CostModel | None = None) -> Figure:
    """One figure with a panel for each data set, by its name; ``kind`` is a key of `PANELS` or "variance".

    ``cost``: the prices of "headroom", which alone hangs on them (default: a draft step of 0.1).
    Raises ValueError for another kind, or without traces.
    """
    if kind not in PANELS and kind != "variance":
        raise ValueError(f"kind must be one of {', '.join([*PANELS, 'variance'])}, not {kind!r}")
    if not traces:
        raise ValueError("no trace given; a panel needs at least one")
    extra = kind == "variance"
    count = len(traces) + extra
    axes = new_axes(count, min(count, 3 if count != 4 else 2))
    for (name, trace), ax in zip(traces.items(), axes, strict=False):
        if extra:
            plot_histogram(trace, ax, convention="detect")
        elif kind in FITTED:
            FITTED[kind](trace, ax, fits=closest_fits(trace, with_geometric=kind == "survival"))
        elif kind == "headroom":
            plot_headroom(trace, ax, cost=cost)
        else:
            PANELS[kind](trace, ax)
        described, x, y = ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()
        describe(ax, f"{short_name(name)}: {described}", x, y)
    if extra:
        plot_variance(traces, axes[-1])
    return figure_of(axes[0])
