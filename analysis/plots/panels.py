"""One figure with a panel for each of several data sets, and the figures that can be one."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.cost import CostModel
from analysis.fit.distributions import Fit, fit_all
from analysis.plots.calibration import plot_calibration
from analysis.plots.canvas import SIZE, SQUARE, figure_of, new_axes, retitle
from analysis.plots.hazard import plot_hazard
from analysis.plots.headroom import SIZE as LADDER
from analysis.plots.headroom import plot_headroom
from analysis.plots.histogram import last_bar, plot_histogram
from analysis.plots.iterations import plot_iterations
from analysis.plots.letters import short_name
from analysis.plots.position import plot_position
from analysis.plots.roc import plot_roc
from analysis.plots.samples import counts_of, values_of
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
SIZES = {"calibration": SQUARE, "roc": SQUARE, "headroom": LADDER}  # inches of one panel, where not `SIZE`
LINES = 2  # families drawn beside the geometric one: more cannot be told apart


def closest_fits(trace: Trace, with_geometric: bool = True) -> list[Fit]:
    """The geometric fit of the oracle SL (if asked for) and the `LINES` other families with the least AIC."""
    fits = fit_all(counts_of(trace))
    others = sorted((fit for fit in fits[1:] if fit.status == "ok"), key=lambda fit: fit.aic)
    return [*fits[:1], *others[:LINES]] if with_geometric else others[:LINES]


def panel(
    traces: Mapping[str, Trace],
    kind: str,
    cost: CostModel | None = None,
    *,
    size: tuple[float, float] | None = None,
    log: bool = False,
) -> Figure:
    """One figure with a panel for each data set, by its name; ``kind`` is a key of `PANELS` or "variance".

    Panels of one kind have the same axes and the same bars.  ``cost``: the prices of "headroom", which alone hangs on
    them (default: a draft step of 0.1).  ``size`` of one panel in inches; ``log``: shares on a logarithmic axis, of
    histogram and variance.  Raises ValueError for another kind, or without traces.
    """
    if kind not in PANELS and kind != "variance":
        raise ValueError(f"kind must be one of {', '.join([*PANELS, 'variance'])}, not {kind!r}")
    if not traces:
        raise ValueError("no trace given; a panel needs at least one")
    extra = kind == "variance"
    count = len(traces) + extra
    own = SIZES.get(kind, SIZE)
    axes = new_axes(count, min(count, 3 if count != 4 else 2), size or own)
    convention = "detect" if extra else "accepted"
    bars = functools.partial(plot_histogram, convention=convention, log=log, last=_last_bar(traces, convention))
    for (name, trace), ax in zip(traces.items(), axes, strict=False):
        if extra:
            bars(trace, ax)
        elif kind in FITTED:
            fits = closest_fits(trace, with_geometric=kind == "survival")
            (bars if kind == "histogram" else FITTED[kind])(trace, ax, fits=fits)
        elif kind == "headroom":
            plot_headroom(trace, ax, cost=cost)
        else:
            PANELS[kind](trace, ax)
        if len(traces) > 1:
            title = " ".join(ax.get_title(loc="left").split("\n"))
            retitle(ax, f"{short_name(name)}: {title}")
    _share_axes(axes[: len(traces)])
    if extra:
        plot_variance(traces, axes[-1])
    return figure_of(axes[0])


def _last_bar(traces: Mapping[str, Trace], convention: str) -> int:
    return max(last_bar(values_of(trace, convention)[0]) for trace in traces.values())


def _share_axes(axes: Sequence[Axes]) -> None:
    """The widest range of all for each of them: what is compared by eye must not differ in scale."""
    for low, high, give in (
        (*zip(*(ax.get_xlim() for ax in axes), strict=True), "set_xlim"),
        (*zip(*(ax.get_ylim() for ax in axes), strict=True), "set_ylim"),
    ):
        turned = low[0] > high[0]  # rows that count from the top
        ends = (max(low), min(high)) if turned else (min(low), max(high))
        for ax in axes:
            getattr(ax, give)(ends)
