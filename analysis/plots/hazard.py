"""How likely an oracle iteration is to go on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.describe.curves import hazard
from analysis.fit.distributions import Fit
from analysis.plots.canvas import axes_or_new, describe, legend
from analysis.plots.palette import BLUE, style, styles
from analysis.plots.samples import counts_of, in_words
from oracle.records.trace import Trace


def plot_hazard(data: Trace, ax: Axes | None = None, *, longest: int = 64, fits: Sequence[Fit] = ()) -> Axes:
    """Probability that the next token is accepted, by the number accepted before it; flat where acceptance is i.i.d."""
    ax = axes_or_new(ax)
    curve, table = hazard(data, longest), counts_of(data)
    enough = np.maximum.accumulate(curve.high - curve.low) < 0.3  # wider bands say nothing and hide the rest
    shown = enough if enough.sum() > 1 else np.ones(len(enough), bool)
    x = curve.x[shown]
    ax.fill_between(x, curve.low[shown], curve.high[shown], color=BLUE, alpha=0.2, linewidth=0)
    sample = f"observed ({in_words(data, table.n)})"
    ax.plot(x, curve.value[shown], color=BLUE, marker="o", markersize=3.5, linewidth=1.5, label=sample)
    flat = table.acceptance.value  # the i.i.d. maximum-likelihood estimate
    if np.isfinite(flat):
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
    _name_ticks(ax, x, curve.count[shown])
    before = "tokens accepted before it in the iteration\n(below: iterations that got so far)"
    describe(ax, "Chance that the next draft token is accepted", before, "probability")
    legend(ax)
    return ax


def _name_ticks(ax: Axes, x: np.ndarray, count: np.ndarray) -> None:
    """Whole numbers, and below each how many iterations its point rests on."""
    step = next(step for step in (1, 2, 5, 10, 20) if len(x) / step <= 8)
    ax.set_xticks(x[::step], [f"{at}\n{number:,}" for at, number in zip(x[::step], count[::step], strict=True)])
