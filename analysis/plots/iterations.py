"""One prompt, iteration by iteration, along its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from analysis.plots.canvas import axes_or_new, describe, legend, name_rows, note, whole_numbers
from analysis.plots.letters import short_name
from analysis.plots.palette import BLACK, GREY, INK, styles
from analysis.replay.simulate import SimulationResult
from oracle.records.trace import Trace

_KEPT, _REFUSED = 0.42, 0.16  # heights of the two bars of a row


@dataclass(frozen=True)
class _Row:
    """What one rule did along the text, int64 [I] each."""

    name: str
    position: np.ndarray
    drafted: np.ndarray
    accepted: np.ndarray
    color: str


def plot_iterations(
    data: Trace, ax: Axes | None = None, *, results: Sequence[SimulationResult] = (), prompt: int | str = 0
) -> Axes:
    """One prompt, by the place in its text: a row a policy, a bar an iteration, over the oracle's.

    A bar holds the accepted tokens, the gap after it the token that the target adds; the thin bar below reaches over
    what was drafted and refused.  Passes stand to the right: those of the target are iterations, those of the draft the
    tokens drafted.  The oracle is `detect`: it pays for the pass that disagrees.  ``prompt`` is a place in the trace or
    an id.  Raises ValueError for a prompt that the trace does not have.
    """
    number = place_of(data, prompt)
    size = int(data.offsets[number + 1] - data.offsets[number])
    rows = [_oracle(data, number), *_rows(results, number)]
    ax = axes_or_new(ax, (6.4, 1.3 + 0.5 * len(rows)))
    for place, row in enumerate(rows):
        _draw(ax, place, row)
        words = f"{len(row.position):,} target,\n{int(row.drafted.sum()):,} draft"
        note(ax, (size * 1.015, place), words, size=7, up="center")
    note(ax, (size * 1.015, -0.75), "passes", size=7, up="center")
    name_rows(ax, [short_name(row.name) for row in rows])
    ax.set_xlim(-0.5, size * 1.16)
    ax.set_ylim(len(rows) - 0.4, -1.25)
    whole_numbers(ax.xaxis)
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= size])
    ax.grid(visible=False, axis="y")
    title = f"Iterations along the text (prompt {short_name(data.ids[number])}, {size:,} tokens)"
    describe(ax, title, "place in the text, tokens", "")
    ax.plot([], [], color=GREY, linewidth=7, label="accepted (gaps: the target's own tokens)")
    ax.plot([], [], color=GREY, alpha=0.45, linewidth=4, label="drafted and refused")
    legend(ax, "upper left", columns=2)
    return ax


def place_of(data: Trace, prompt: int | str) -> int:
    """The number of a prompt that is given by its place or its id.  Raises ValueError for one that is not there."""
    if isinstance(prompt, str) and prompt in data.ids:
        return list(data.ids).index(prompt)
    if isinstance(prompt, str) and not (prompt.isascii() and prompt.isdigit()):
        raise ValueError(
            f"no prompt of the trace has the id {short_name(prompt)!r}; give one of its ids, such as "
            f"{short_name(data.ids[0])!r}, or a place from 0 to {data.prompts - 1}"
        )
    number = int(prompt)
    if not 0 <= number < data.prompts:
        raise ValueError(f"prompt must be from 0 to {data.prompts - 1}, not {number}")
    return number


def _oracle(data: Trace, prompt: int) -> _Row:
    runs = data.iterations()
    runs = runs[runs.prompt == prompt]
    position, accepted = runs.position.to_numpy(), runs.accepted.to_numpy()
    room = data.budget[data.offsets[prompt] + position]
    return _Row("oracle:detect", position, np.minimum(accepted + 1, room), accepted, BLACK)


def _rows(results: Sequence[SimulationResult], prompt: int) -> list[_Row]:
    looks = styles([result.policy for result in results])
    found = []
    for result in results:
        mine = result.prompt == prompt
        columns = (result.position[mine], result.drafted[mine], result.accepted[mine])
        found.append(_Row(result.policy, *columns, looks[result.policy].color))
    return found


def _draw(ax: Axes, place: int, row: _Row) -> None:
    kept = row.accepted > 0
    spans = np.stack([row.position - 0.5, row.accepted], axis=1)
    ax.broken_barh(spans[kept].tolist(), (place - 0.3, _KEPT), facecolors=row.color)
    refused = row.drafted > row.accepted
    over = np.stack([row.position + row.accepted - 0.5, row.drafted - row.accepted], axis=1)
    ax.broken_barh(over[refused].tolist(), (place + 0.16, _REFUSED), facecolors=row.color, alpha=0.45)
    # A tick where each iteration begins, or those that drafted nothing would leave no trace.
    ax.plot(row.position - 0.5, np.full(len(row.position), place - 0.34), linestyle="none", marker="|", markersize=3.5,
            markeredgewidth=0.7, color=INK)  # fmt: skip
