"""Where the time of an average iteration goes, policy by policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.gains.loss import Iteration, iteration
from analysis.plots.canvas import axes_or_new, describe, legend, name_rows, note
from analysis.plots.letters import short_name
from analysis.plots.palette import BLACK, GREEN, GREY, ORANGE, SKY
from analysis.replay.simulate import SimulationResult
from oracle.records.trace import Trace

PARTS = ("draft tokens kept", "draft tokens refused", "checking", "overhead")
_COLOURS = (GREEN, ORANGE, SKY, GREY)
_HATCHES = ("", "////", "", "....")


def plot_time(data: Trace, ax: Axes | None = None, *, results: Sequence[SimulationResult] = ()) -> Axes:
    """The time of one token under each policy, in steps of the target alone, by what it is spent on.

    A bar that ends left of the line is faster than no draft.  Raises ValueError without results.
    """
    if not results:
        raise ValueError("no policy to take apart; give at least one result of simulate")
    ax = axes_or_new(ax, (6.4, 1.5 + 0.42 * len(results)))
    for row, result in enumerate(results):
        _draw(ax, row, iteration(data, result))
    ax.axvline(1, color=BLACK, linewidth=1, linestyle=(0, (4, 2)), label="no draft")
    name_rows(ax, [short_name(result.policy) for result in results])
    ax.set_ylim(len(results) - 0.4, -1.1)
    ax.set_xlim(0, ax.get_xlim()[1] * 1.12)
    ax.grid(visible=False, axis="y")
    describe(ax, "Where the time of a token goes", "time per token, in steps of the target alone", "")
    legend(ax, "upper center", below=0.55 / (0.42 * len(results) + 0.6), columns=3)
    return ax


def split(each: Iteration) -> np.ndarray:
    """`PARTS` of an average iteration, over the tokens that it yields; float [4], in target steps."""
    return np.array([each.draft - each.wasted, each.wasted, each.verification, each.overhead]) / each.tokens


def _draw(ax: Axes, row: int, each: Iteration) -> None:
    parts, left = split(each), 0.0
    for part, name, colour, hatch in zip(parts, PARTS, _COLOURS, _HATCHES, strict=True):
        ax.barh(row, part, left=left, height=0.62, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6,
                label=name if row == 0 else None)  # fmt: skip
        left += part
    note(ax, (left, row), f"  {left:.2f}", up="center")
