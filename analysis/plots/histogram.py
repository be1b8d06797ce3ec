"""The histogram of the oracle SL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from analysis.fit.distributions import Fit
from analysis.plots.canvas import axes_or_new, describe, legend, note
from analysis.plots.palette import EDGE, OBSERVED, Style, style, styles
from analysis.plots.samples import X_LABEL, values_of
from oracle.records.spread import standard_deviation
from oracle.records.trace import Trace

MOST_BARS = 40


def plot_histogram(
    data: Trace | ArrayLike,
    ax: Axes | None = None,
    *,
    fits: Sequence[Fit] = (),
    convention: str = "accepted",
    last: int | None = None,
    log: bool = False,
) -> Axes:
    """Shares of the oracle SL, a bar a value and one for all beyond, with the geometric distribution of the same mean.

    ``data`` is a trace, or the SL of each iteration (whole numbers, int [n]) in ``convention``; ``fits`` go on top.
    ``last`` is the last value with a bar of its own (default: `last_bar`), ``log`` makes the shares logarithmic.
    """
    ax = axes_or_new(ax)
    values, words = values_of(data, convention)
    first = 0 if convention == "accepted" else 1
    k = np.arange(first, (last_bar(values) if last is None else last) + 1)  # values with a bar of their own
    over = bool(values.max() > k[-1])
    heights = np.bincount(np.minimum(values, k[-1] + 1), minlength=k[-1] + 2)[first:] / len(values)
    _bars(ax, k, heights, over, f"observed ({words})")
    curves = _curves(values.mean() - first, k - first, fits)
    for label, (chances, look) in curves.items():
        _overlay(ax, k, chances, over, look, label)
    if over:
        at = (k[-1] + 2.5, max(heights[-1], *(chances[-1] for chances, _ in curves.values())))
        note(ax, at, f"{heights[-1]:.1%}", size=7, across="center", up="bottom")
    _integer_ticks(ax, first, int(k[-1]), over)
    ax.grid(visible=False, axis="x")
    # %g keeps the half of a 2.5 % step, which rounding would print as 2 %.
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    if log:
        ax.set_yscale("log")
        ax.set_ylim(0.5 / len(values), None)
        ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    spread = f", SD {standard_deviation(values):.3g}" if len(values) > 1 else " (one iteration)"
    title = f"Oracle SL ({convention}): mean {values.mean():.3g}{spread}"
    describe(ax, title, X_LABEL[convention], "share of iterations")
    legend(ax, "upper right")
    return ax


def last_bar(values: np.ndarray) -> int:
    """Last value with a bar of its own: the largest if few lie beyond 99.5 % of the iterations, 40 at most."""
    largest = int(values.max())
    most = int(np.clip(np.quantile(values, 0.995, method="inverted_cdf"), 10, MOST_BARS))
    return max(largest, 2) if largest <= most + 2 else most


def _curves(mean: float, accepted: np.ndarray, fits: Sequence[Fit]) -> dict[str, tuple[np.ndarray, Style]]:
    """Label -> (chances of each of ``accepted``, int [J], and of all beyond, float [J + 1]; look)."""
    on = mean / (1 + mean)
    chances = on ** np.append(accepted, accepted[-1] + 1)
    chances[:-1] *= 1 - on
    # A fitted geometric differs from the one of the same mean (it knows of cut runs), so it gets a dash of its own.
    looks = styles(["geometric", *(f"{fit.family}:fitted" for fit in fits)])
    curves = {"geometric, same mean": (chances, style("geometric"))}
    for fit in fits:
        chances = np.append(fit.pmf(accepted), np.exp(fit.log_sf(accepted[-1:] + 1)))
        curves[f"{fit.family}, fitted"] = (chances, looks[f"{fit.family}:fitted"])
    return curves


def _bars(ax: Axes, k: np.ndarray, heights: np.ndarray, over: bool, label: str) -> None:
    look = {"color": OBSERVED, "edgecolor": EDGE, "linewidth": 0.5}
    ax.bar(k, heights[: len(k)], width=0.82, label=label, **look)
    if over:
        ax.bar(k[-1] + 2.5, heights[-1], width=1.6, hatch="////", **look)


def _overlay(ax: Axes, k: np.ndarray, chances: np.ndarray, over: bool, look: Style, label: str) -> None:
    ax.plot(k, chances[:-1], color=look.color, linestyle=look.dash, linewidth=1.3, label=label)
    if over:
        beyond = [k[-1] + 1.7, k[-1] + 3.3]  # across the bar
        ax.plot(beyond, [chances[-1]] * 2, color=look.color, linestyle=look.dash, linewidth=1.3)


def _integer_ticks(ax: Axes, first: int, cap: int, over: bool) -> None:
    step = next(step for step in (1, 2, 5, 10) if (cap - first) / step <= 12)
    ticks = [tick for tick in range(first, cap + 1) if tick % step == 0 or tick == first]
    if len(ticks) > 1 and ticks[1] - ticks[0] < step / 2 + 0.5 and step > 1:
        ticks.pop(1)
    if over:  # room for the label of the bar beyond
        ticks = [tick for tick in ticks if tick <= cap - step / 3] or ticks
    ax.set_xticks(
        [*ticks, cap + 2.5] if over else ticks, [*map(str, ticks), f"≥{cap + 1}"] if over else [*map(str, ticks)]
    )
    ax.set_xlim(first - 0.8, cap + (3.8 if over else 0.8))
