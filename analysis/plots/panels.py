"""Figures of the oracle SL: how long, how varied, where in the text, how likely to go on.

Each ``plot_*(data, ax=None)`` draws into ``ax`` or a new figure and returns the axes; ``ax.figure`` is the figure,
which `save` writes.  Everything is counted or binned first, so that a figure is as quick for ten million iterations
as for one.  Intervals and bands are 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.describe.curves import hazard, profile
from analysis.fit.distributions import Counts, Fit, fit_all, kaplan_meier
from analysis.plots.canvas import axes_or_new, describe, legend, new_axes, save
from analysis.plots.heatmap import plot_heatmap
from analysis.plots.histogram import X_LABEL, in_words, plot_histogram, values_of
from analysis.plots.palette import BLACK, BLUE, GREY, INK, style, styles
from analysis.plots.policies import plot_iterations, plot_simulated_vs_measured
from analysis.plots.signals import plot_calibration, plot_roc
from analysis.published import ORACLE_ANALYSIS, published_for
from oracle.records.trace import Trace

__all__ = [
    "PANELS", "panel", "plot_calibration", "plot_hazard", "plot_heatmap", "plot_histogram", "plot_iterations",
    "plot_position", "plot_roc", "plot_simulated_vs_measured", "plot_survival", "plot_variance", "save",
]  # fmt: skip


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
        ax.text(mean + sd + widest * 0.02, row, f"{mean:.1f} ± {sd:.1f}", va="center", fontsize=8)
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, widest * 1.25)
    ax.grid(visible=False, axis="y")
    describe(ax, "Oracle SL, mean ± SD, beside the published pairs", X_LABEL["detect"], "")
    return ax


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
    top = np.nanmax(np.append(curve.high[known], curve.value[known]))
    ax.set_ylim(0, max(top * 1.3, 0.5))
    place = "iteration index within the prompt" if along == "iteration" else "place in the text"
    describe(
        ax, "Oracle SL along the text", f"normalised {place} (0 = first, 1 = last)", "accepted tokens per iteration"
    )
    legend(ax, "upper right")
    return ax


def plot_hazard(data: Trace, ax: Axes | None = None, *, longest: int = 64, fits: Sequence[Fit] = ()) -> Axes:
    """Probability that the next token is accepted, by the number accepted before it; flat where acceptance is i.i.d."""
    ax = axes_or_new(ax)
    curve, table = hazard(data, longest), _table(data)
    enough = np.maximum.accumulate(curve.high - curve.low) < 0.3  # wider bands say nothing and hide the rest
    shown = enough if enough.sum() > 1 else np.ones(len(enough), bool)
    x = curve.x[shown]
    ax.fill_between(x, curve.low[shown], curve.high[shown], color=BLUE, alpha=0.2, linewidth=0)
    sample = f"observed ({in_words(data, table.n)})"
    ax.plot(x, curve.value[shown], color=BLUE, marker="o", markersize=3.5, linewidth=1.5, label=sample)
    if table.accepted + table.events.sum():
        flat = table.accepted / (table.accepted + table.events.sum())  # the i.i.d. maximum-likelihood estimate
        look = style("geometric")
        ax.axhline(flat, color=look.color, linestyle=look.dash, linewidth=1.3, label=f"geometric (i.i.d.), {flat:.3g}")
    looks = styles([fit.family for fit in fits])
    for fit in (fit for fit in fits if fit.family != "geometric"):
        going_on = np.exp(fit.log_sf(x + 1) - fit.log_sf(x))
        ax.plot(
            x,
            going_on,
            color=looks[fit.family].color,
            linestyle=looks[fit.family].dash,
            linewidth=1.3,
            label=fit.family,
        )
    low = np.nanmin(np.append(curve.low[shown], 1.0))
    ax.set_ylim(max(np.floor((1.3 * low - 0.3) * 10) / 10, 0), 1.02)  # room for the legend below
    ax.set_xlim(-0.5, max(len(x) - 0.5, 1.5))
    ax.xaxis.get_major_locator().set_params(integer=True)
    describe(
        ax, "Chance that the next draft token is accepted", "tokens accepted before it in the iteration", "probability"
    )
    legend(ax)
    return ax


def plot_survival(data: Trace, ax: Axes | None = None, *, fits: Sequence[Fit] = ()) -> Axes:
    """P(SL >= k) on a log scale: Kaplan-Meier (runs cut short by the end of the text counted rightly) and families."""
    ax = axes_or_new(ax)
    table = _table(data)
    found = kaplan_meier(table)
    last = np.flatnonzero(found.survival > 0)[-1] + 1
    at = np.unique(np.linspace(0, last - 1, 600).astype(np.int64))  # a curve needs no more points than the eye
    k, survival = found.k[at], found.survival[at]
    ax.fill_between(k, np.maximum(found.low[at], 1e-12), found.high[at], color=GREY, alpha=0.25, linewidth=0)
    marker = "o" if len(k) <= 60 else None
    ax.plot(
        k,
        survival,
        color=BLACK,
        marker=marker,
        markersize=3,
        linewidth=1.4,
        label=f"Kaplan-Meier ({in_words(data, table.n)})",
    )
    looks = styles([fit.family for fit in fits])
    for fit in fits:
        look = looks[fit.family]
        ax.plot(k, np.exp(fit.log_sf(k)), color=look.color, linestyle=look.dash, linewidth=1.4, label=fit.family)
    ax.set_yscale("log")
    ax.set_ylim(max(survival.min() ** 1.25 / 3, 1e-9), 1.3)  # room for the legend below the curve
    ax.set_xlim(0, max(int(k[-1]), 1))
    ax.xaxis.get_major_locator().set_params(integer=True)
    describe(ax, "How long oracle iterations last", "k, accepted tokens", "P(SL ≥ k)")
    legend(ax)
    return ax


# --- several data sets -----------------------------------------------------------------------------------------------

PANELS = {
    "histogram": plot_histogram,
    "position": plot_position,
    "iterations": plot_iterations,
    "hazard": plot_hazard,
    "survival": plot_survival,
    "calibration": plot_calibration,
    "roc": plot_roc,
}

FITTED = {"histogram": plot_histogram, "hazard": plot_hazard, "survival": plot_survival}
LINES = 2  # families drawn beside the geometric one: more cannot be told apart


def closest_fits(trace: Trace, with_geometric: bool = True) -> list[Fit]:
    """The geometric fit of the oracle SL (if asked for) and the `LINES` other families with the least AIC."""
    fits = fit_all(_table(trace))
    others = sorted((fit for fit in fits[1:] if fit.status == "ok"), key=lambda fit: fit.aic)
    return [*fits[:1], *others[:LINES]] if with_geometric else others[:LINES]


def panel(traces: Mapping[str, Trace], kind: str) -> Figure:
    """One figure with a panel for each data set, by its name; ``kind`` is a key of `PANELS` or "variance".

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
        else:
            PANELS[kind](trace, ax)
        described, x, y = ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()
        describe(ax, f"{name}: {described}", x, y)
    if extra:
        plot_variance(traces, axes[-1])
    return axes[0].figure


# --- parts -----------------------------------------------------------------------------------------------------------


def _variance_rows(data: Mapping[str, Trace]) -> list[tuple[str, bool, float, float]]:
    """(label, whether measured, mean, SD): each trace with its published twin below, then the other published ones."""
    rows, left = [], dict(ORACLE_ANALYSIS)
    for name, trace in data.items():
        values, words = values_of(trace, "detect")
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        rows.append((f"{name}, measured\n" + "\n".join(words.split(", ")), True, float(values.mean()), spread))
        twin = published_for(name)
        if twin and left.pop(twin.data, None):
            rows.append((f"{twin.data}, published", False, twin.mean, twin.sd))
    return rows + [(f"{name}, published", False, found.mean, found.sd) for name, found in left.items()]


def _table(trace: Trace) -> Counts:
    runs = trace.iterations()
    return Counts.from_samples(runs.accepted.to_numpy(), runs.censored.to_numpy())
