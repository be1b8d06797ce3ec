"""One prompt, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.plots.canvas import axes_or_new, describe, legend, whole_numbers
from analysis.plots.letters import short_name
from analysis.plots.palette import GREY, styles
from analysis.replay.simulate import SimulationResult
from oracle.records.trace import Trace

FEW = 80  # iterations up to which each gets a marker


def plot_iterations(
    data: Trace, ax: Axes | None = None, *, results: Sequence[SimulationResult] = (), prompt: int = 0
) -> Axes:
    """One prompt: tokens drafted (lines) and accepted (dots) by each policy, iteration by iteration, over the oracle's.

    The legend counts the passes of each: target passes are iterations, draft passes the tokens drafted.  The oracle is
    `detect`: it pays for the pass that disagrees.  Raises ValueError for a prompt that the trace does not have.
    """
    if not 0 <= prompt < data.prompts:
        raise ValueError(f"prompt must be from 0 to {data.prompts - 1}, not {prompt}")
    ax = axes_or_new(ax)
    runs = data.iterations()
    runs = runs[runs.prompt == prompt]
    accepted = runs.accepted.to_numpy()
    room = data.budget[data.offsets[prompt] + runs.position.to_numpy()]
    drafted = np.minimum(accepted + 1, room)
    _steps(ax, drafted, _passes("oracle", drafted), ("#e3e3e3", "#7a7a7a"))
    looks = styles([result.policy for result in results])
    longest = len(drafted)
    for result in results:
        mine = result.prompt == prompt
        look, lengths, kept = looks[result.policy], result.drafted[mine], result.accepted[mine]
        x = np.arange(1, len(lengths) + 1)
        ax.step(
            x,
            lengths,
            where="mid",
            color=look.color,
            linestyle=look.dash,
            linewidth=1.3,
            label=_passes(result.policy, lengths),
        )
        if len(x) <= FEW:
            ax.plot(x, kept, color=look.color, marker=look.marker, markersize=3.5, linestyle="none")
        longest = max(longest, len(lengths))
    if results and longest <= FEW:
        ax.plot([], [], color=GREY, marker="o", markersize=3.5, linestyle="none", label="accepted")
    ax.set_xlim(0.5, max(longest, 2) + 0.5)
    top = max(
        [
            int(drafted.max(initial=1)),
            *(int(result.drafted[result.prompt == prompt].max(initial=1)) for result in results),
        ]
    )
    ax.set_ylim(-0.03 * top, top * (1.1 + 0.085 * (len(results) + 1)) + 0.5)
    whole_numbers(ax.xaxis, ax.yaxis)
    size = int(data.offsets[prompt + 1] - data.offsets[prompt])
    title = f"Drafted tokens by iteration (prompt {short_name(data.ids[prompt])}, {size:,} tokens)"
    describe(ax, title, "iteration", "tokens drafted")
    legend(ax, "upper right")
    return ax


def _steps(ax: Axes, lengths: np.ndarray, label: str, colors: tuple[str, str]) -> None:
    x = np.arange(0.5, len(lengths) + 1)
    ax.stairs(lengths, x, fill=True, color=colors[0])
    ax.stairs(lengths, x, color=colors[1], linewidth=0.8, label=label)


def _passes(name: str, drafted: np.ndarray) -> str:
    return f"{short_name(name)}: {len(drafted):,} target, {int(drafted.sum()):,} draft passes"
