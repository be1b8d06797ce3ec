"""The ladder as a picture: from plain decoding to the best that there could be, and what shuffled tokens would give."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from analysis.cost import CostModel
from analysis.ladder.ladder import Ladder, ladder
from analysis.ladder.replays import CONSTANT
from analysis.ladder.rungs import Rung
from analysis.plots.canvas import axes_or_new, describe, legend, name_rows, note
from analysis.plots.palette import BLACK, BLUE, GREY, SKY
from analysis.replay.oracles import OPTIMAL, is_oracle
from oracle.records.trace import Trace

SIZE = (6.4, 4.2)  # inches
_LONGEST = 34  # characters of a rung's name and its policy on one line
_SHIFT = 0.24  # of a row, by which the null lies below its rung


def plot_headroom(data: Ladder | Trace, ax: Axes | None = None, cost: CostModel | None = None) -> Axes:
    """The speedup of each rung with its interval, its null beside it, and the share of the headroom that it takes.

    ``data`` is a ladder, or a trace whose ladder is made at the prices ``cost`` (default: a draft step of 0.1).
    """
    found = data if isinstance(data, Ladder) else ladder(data, cost)
    ax = axes_or_new(ax, SIZE)
    constant, optimal = found.of_name(CONSTANT).speedup, found.of_name(OPTIMAL).speedup
    largest = max(_right(each) for each in found.rungs)
    if constant is not None and optimal is not None:
        ax.axvspan(constant.value, optimal.value, color=SKY, alpha=0.15, linewidth=0, label="headroom")
    ax.axvline(1, color=GREY, linewidth=1, linestyle=(0, (4, 2)), label="no draft")
    for row, each in enumerate(found.rungs):
        _draw(ax, row, each, None if constant is None else constant.value)
        note(ax, (largest * 1.03, row), _words(each), up="center")
    name_rows(ax, [_name(each) for each in found.rungs])
    note(ax, (largest * 1.03, -1), "share", up="center")
    ax.set_ylim(len(found.rungs) - 0.3, -1.4)
    ax.set_xlim(0, largest * 1.22)
    ax.grid(visible=False, axis="y")
    describe(ax, "headroom, 95 %", "Speedup over no draft", "")
    legend(ax)
    return ax


def _draw(ax: Axes, row: int, each: Rung, constant: float | None) -> None:
    if each.speedup is None:
        return
    color = BLACK if is_oracle(each.name) else BLUE
    if not math.isnan(each.speedup.low):
        ax.plot([each.speedup.low, each.speedup.high], [row, row], color=color, linewidth=1.8, solid_capstyle="butt")
    label = {OPTIMAL: "knows the text", CONSTANT: "without foreknowledge"}.get(each.name)
    ax.plot(each.speedup.value, row, marker="D" if is_oracle(each.name) else "o", markersize=5, color=color,
            linestyle="none", label=label)  # fmt: skip
    if each.null is not None and constant is not None:
        ends, at = [constant * each.null.low, constant * each.null.high], row + _SHIFT
        ax.plot(ends, [at, at], color=GREY, linewidth=1.2, solid_capstyle="butt")
        ax.plot(constant * each.null.mean, at, marker="o", markersize=4, markerfacecolor="white", color=GREY,
                linestyle="none", label="tokens shuffled" if each.name == OPTIMAL else None)  # fmt: skip


def _right(each: Rung) -> float:
    """How far to the right a rung reaches."""
    if each.speedup is None:
        return 1.0
    return each.speedup.value if math.isnan(each.speedup.high) else max(each.speedup.high, each.speedup.value)


def _words(each: Rung) -> str:
    if each.speedup is None:
        return "missing"
    return "–" if each.share is None else f"{100 * each.share.value:.0f} %"


def _name(each: Rung) -> str:
    if each.policy is None or each.policy == each.name:
        return each.name
    one = f"{each.name} ({each.policy})"
    return one if len(one) <= _LONGEST else f"{each.name}\n" + each.policy.replace(" or ", "\nor ")
