"""Figures without a display: matplotlib's objects, seaborn's style, never pyplot's global state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import matplotlib
import seaborn
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from analysis.plots.letters import printable
from analysis.plots.palette import INK, PAPER
from oracle.records.folder import write_whole

Where = Literal["best", "upper left", "upper right", "lower right", "upper center"]
FORMATS = (".png", ".svg", ".pdf")
PNG_DPI = 200
NOTEBOOK_DPI = 110
SIZE = (6.0, 3.8)  # inches, one panel
SQUARE = (4.8, 4.6)  # inches
NARROW = 4.0  # inches: a panel for one column of a paper, whose legend is smaller


class ShownFigure(Figure):
    """A figure that a notebook shows as the last line of a cell."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        write_figure(self, picture, "png", NOTEBOOK_DPI)
        return picture.getvalue()


class ShownAxes(Axes):
    """Axes that a notebook shows, with the figure that they are in."""

    def _repr_png_(self) -> bytes | None:
        figure = self.get_figure(root=True)
        return figure._repr_png_() if isinstance(figure, ShownFigure) else None


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
    look: dict[Any, Any] = {**seaborn.axes_style("ticks"), **quiet}  # seaborn does not type its names
    with matplotlib.rc_context(look):
        yield


def new_axes(count: int = 1, columns: int = 1, size: tuple[float, float] = SIZE) -> list[Axes]:
    """Axes in a new figure, row by row in ``columns`` columns; ``size`` of one panel in inches."""
    rows = -(-count // columns)
    with theme():
        figure = ShownFigure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, subplot_kw={"axes_class": ShownAxes}).ravel().tolist()
    for unused in grid[count:]:
        unused.remove()
    return grid[:count]


def axes_or_new(ax: Axes | None, size: tuple[float, float] = SIZE) -> Axes:
    """``ax``, or the axes of a new figure."""
    return new_axes(size=size)[0] if ax is None else ax


def figure_of(ax: Axes) -> Figure:
    """The figure that ``ax`` lies in.  Raises ValueError for axes that lie in none."""
    figure = ax.get_figure(root=True)
    if not isinstance(figure, Figure):
        raise ValueError("these axes belong to no figure; draw into new ones")
    return figure


# --- text ------------------------------------------------------------------------------------------------------------
# All of it is written here: names come from data sets and files, so that a $ is never the start of a formula.


def describe(ax: Axes, title: str, x: str, y: str) -> None:
    """Title, on as many lines as its panel needs, and axis labels."""
    ax.set_xlabel(printable(x), parse_math=False)
    ax.set_ylabel(printable(y), parse_math=False)
    drawn = ax.set_title(printable(title), loc="left", fontsize=10, fontweight="bold", pad=8, parse_math=False)
    _fit(ax, drawn)


def retitle(ax: Axes, title: str) -> None:
    """Another title for axes that have one."""
    describe(ax, title, ax.get_xlabel(), ax.get_ylabel())


def above(figure: Figure, title: str) -> None:
    """A title of all panels together."""
    figure.suptitle(printable(title), fontsize=11, fontweight="bold", parse_math=False)


def _fit(ax: Axes, title: Text) -> None:
    """Break a title into lines that end where its panel does: constrained layout makes no room to the right."""
    figure = figure_of(ax)
    words = title.get_text()
    title.set_text("")  # or the layout below would be that of the long line
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    # From the left end of the axes to the right end of the panel, be the axes narrower or not.
    slot = ax.get_subplotspec()
    right = figure.bbox.width * (1.0 if slot is None else slot.colspan.stop / slot.get_gridspec().ncols)
    room = right - ax.get_window_extent(renderer).x0 - 4
    lines = [""]
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        title.set_text(longer)
        if lines[-1] and title.get_window_extent(renderer).width > room:
            lines.append(word)
        else:
            lines[-1] = longer
    title.set_text("\n".join(lines))


def note(
    ax: Axes,
    at: tuple[float, float],
    text: str,
    *,
    size: float = 8,
    across: Literal["left", "center"] = "left",
    up: Literal["baseline", "bottom", "center"] = "baseline",
) -> None:
    """``text`` at a point in data coordinates, which is its left end or its middle."""
    ax.text(*at, printable(text), parse_math=False, fontsize=size, horizontalalignment=across, verticalalignment=up)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Names in place of the numbers 0, 1, ... of the vertical axis."""
    ax.set_yticks(range(len(names)), [printable(name) for name in names], parse_math=False)


def legend(
    ax: Axes, where: Where = "best", *, below: float | None = None, title: str | None = None, columns: int = 1
) -> None:
    """A plain legend, if there is anything to name; ``below`` the axes by that share of their height."""
    if not ax.get_legend_handles_labels()[1]:
        return
    narrow = _inches_wide(ax) < NARROW
    look: dict[str, Any] = {"fontsize": 6.5 if narrow else 8, "handlelength": 1.5 if narrow else 2.2, "ncols": columns}
    if below is None:
        drawn = ax.legend(loc=where, frameon=True, framealpha=0.9, edgecolor="none", **look)
    else:
        drawn = ax.legend(loc=where, frameon=False, bbox_to_anchor=(0.5, -below), **look)
    if narrow:
        for text in drawn.get_texts():
            text.set_text(text.get_text().replace(" (", "\n(", 1))
    if title is not None:
        drawn.set_title(printable(title))
        drawn.get_title().set_fontsize(8)
    for text in (drawn.get_title(), *drawn.get_texts()):
        text.set_text(printable(text.get_text()))
        text.set_parse_math(False)


def _inches_wide(ax: Axes) -> float:
    figure = figure_of(ax)
    slot = ax.get_subplotspec()
    return figure.get_figwidth() / (1 if slot is None else slot.get_gridspec().ncols)


def whole_numbers(*axes: Axis) -> None:
    """Ticks at whole numbers only."""
    for axis in axes:
        axis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def plain_powers(axis: Axis) -> None:
    """Ticks of a logarithmic axis as decimal numbers; matplotlib's own are formulas."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


# --- files -----------------------------------------------------------------------------------------------------------


def save(figure: Figure | Axes, path: str | Path, dpi: int = PNG_DPI) -> Path:
    """Write ``figure``, or that of axes, as PNG, SVG or PDF by the ending of ``path``, making the folder; the path.

    ``dpi`` are the dots of a PNG per inch.  The file is there whole or not at all: what was there before stays where
    writing fails.  Raises ValueError for another ending, TypeError for what is no figure.
    """
    drawn: Any = getattr(figure, "figure", None)  # a figure is its own
    if not hasattr(drawn, "savefig"):
        raise TypeError(f"{type(figure).__name__} given, which is neither a figure nor axes of one")
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        ending = path.suffix or "no ending"
        raise ValueError(f"cannot write {path.name!r} ({ending}): name it with one of {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda temporary: write_figure(drawn, temporary, kind.removeprefix("."), dpi))
    return path


def write_figure(figure: Figure, to: str | Path | IO[bytes], kind: str, dpi: int = PNG_DPI) -> None:
    """Write ``figure`` as png, svg or pdf, the same bytes each time: ids and dates that would differ are left out.

    The file names its maker, so that a command knows a picture of ours from somebody else's.
    """
    maker = "oracle-lookahead"
    says = {
        "png": {"Software": maker},
        "svg": {"Creator": maker, "Date": None},
        "pdf": {"Creator": maker, "CreationDate": None},
    }[kind]
    # Text stays text, which a reader can search and copy.
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "oracle-lookahead"}):
        figure.savefig(to, format=kind, dpi=dpi, metadata=says)
