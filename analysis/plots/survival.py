"""How long oracle iterations last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.fit.distributions import Fit, kaplan_meier
from analysis.plots.canvas import axes_or_new, describe, legend, plain_powers, whole_numbers
from analysis.plots.palette import BLACK, GREY, styles
from analysis.plots.samples import counts_of, in_words
from oracle.records.trace import Trace


def plot_survival(data: Trace, ax: Axes | None = None, *, fits: Sequence[Fit] = ()) -> Axes:
    """P(SL >= k) on a log scale: Kaplan-Meier (runs cut short by the end of the text counted rightly) and families."""
    ax = axes_or_new(ax)
    table = counts_of(data)
    found = kaplan_meier(table)
    last = np.flatnonzero(found.survival > 0)[-1] + 1
    at = np.unique(np.linspace(0, last - 1, 600).astype(np.int64))  # a curve needs no more points than the eye
    k, survival = found.k[at], found.survival[at]
    low = np.maximum(found.low[at], 1e-12)
    ax.fill_between(k, low, found.high[at], step="pre", color=GREY, alpha=0.25, linewidth=0)
    # P(SL >= x) is that of the next whole number for every x up to it.
    ax.step(
        k,
        survival,
        where="pre",
        color=BLACK,
        linewidth=1.4,
        label=f"Kaplan-Meier ({in_words(data, table.n)})",
    )
    looks = styles([fit.family for fit in fits])
    for fit in fits:
        look = looks[fit.family]
        ax.plot(k, np.exp(fit.log_sf(k)), color=look.color, linestyle=look.dash, linewidth=1.4, label=fit.family)
    ax.set_yscale("log")
    plain_powers(ax.yaxis)
    ax.set_ylim(max(survival.min() ** 1.25 / 3, 1e-9), 1.3)  # room for the legend below the curve
    ax.set_xlim(0, max(int(k[-1]), 1))
    whole_numbers(ax.xaxis)
    describe(ax, "Share of oracle iterations at least k long (accepted)", "k, accepted tokens", "P(SL ≥ k)")
    legend(ax)
    return ax
