"""Figures without a display: matplotlib's objects, seaborn's style, never pyplot's global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.palette import INK, PAPER

FORMATS = (".png", ".svg", ".pdf")
PNG_DPI = 200
SIZE = (6.0, 3.8)  # inches, one panel


@contextmanager
def theme() -> Iterator[None]:
    """The style of every figure, for as long as axes are being made."""
    quiet = {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.labelsize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.grid": True,
        "axes.axisbelow": True,
        "figure.facecolor": PAPER,
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
        "grid.color": "#e6e6e6",
        "grid.linewidth": 0.6,
        "text.color": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "xtick.major.width": 0.8,
        "ytick.major.width": 0.8,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context({**seaborn.axes_style("ticks"), **quiet}):
        yield


def new_axes(count: int = 1, columns: int = 1, size: tuple[float, float] = SIZE) -> list[Axes]:
    """Axes in a new figure, row by row in ``columns`` columns; ``size`` of one panel in inches."""
    rows = -(-count // columns)
    with theme():
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for unused in grid[count:]:
        unused.remove()
    return grid[:count]


def axes_or_new(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """``ax``, or the axes of a new figure."""
    return new_axes(size=size)[0] if ax is None else ax


def describe(ax: Axes, title: str, x: str, y: str) -> None:
    """Title and axis labels."""
    ax.set_title(title, loc="left", fontsize=10, fontweight="bold", pad=8)
    ax.set_xlabel(x)
    ax.set_ylabel(y)


def legend(ax: Axes, where: str = "best") -> None:
    """A plain legend, if there is anything to name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc=where, fontsize=8, frameon=True, framealpha=0.9, edgecolor="none", handlelength=2.2)


def save(figure: Figure, path: str | Path) -> Path:
    """Write ``figure`` as PNG (200 dpi), SVG or PDF by the ending of ``path``, making the folder; the path is returned.

    Raises ValueError for another ending.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        ending = path.suffix or "no ending"
        raise ValueError(f"cannot write {path.name!r} ({ending}): name it with one of {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Text stays text in PDF; ids and dates that would differ between two runs are left out.
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "oracle-lookahead"}):
        undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        figure.savefig(path, dpi=PNG_DPI, metadata=undated)
    return path
