"""The text of one prompt as a picture: where the draft is sure, where it is not, and where it is wrong."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import text_to_path
from matplotlib.transforms import Affine2D

from analysis.describe.signals import accepted_first
from analysis.plots.canvas import axes_or_new, describe, figure_of
from analysis.plots.letters import MISSING, SIGNS, has_glyph, short_name
from analysis.plots.palette import BLUE, INK, VERMILLION
from oracle.records.trace import Trace

COLUMNS = 90  # characters in a line
MOST_LINES = 45
_FONT = FontProperties(family="DejaVu Sans Mono")
_ASPECT = 2.0  # height of a line over the width of a character
_DARK = 0.35  # confidence below which text is written in white
_SHADES = LinearSegmentedColormap.from_list("unsure", [BLUE, "#9fc9e6", "#ffffff"])


@dataclass(frozen=True)
class Cell:
    """One character on the page."""

    token: int
    row: int
    column: int
    character: str


def plot_heatmap(data: Trace, tokens: Sequence[str], ax: Axes | None = None, *, prompt: int = 0) -> Axes:
    """The text of one prompt, each token shaded by the draft's confidence (dark = unsure), misses framed.

    ``tokens``: the text of each of the prompt's tokens, T strings.  Line breaks show as ↵, tabs as →, other control
    characters and those that the font lacks as □.  Long texts are cut at 45 lines and the title says so.  Raises
    ValueError for another number of strings or a prompt that the trace does not have.
    """
    if not 0 <= prompt < data.prompts:
        raise ValueError(f"prompt must be from 0 to {data.prompts - 1}, not {prompt}")
    text = slice(int(data.offsets[prompt]), int(data.offsets[prompt + 1]))
    size = text.stop - text.start
    if len(tokens) != size:
        raise ValueError(f"prompt {prompt} has {size} tokens, but {len(tokens)} strings are given")
    cells = _flow(tokens)
    lines = cells[-1].row + 1
    wide = max(64, *(cell.column + 1 for cell in cells))
    ax = axes_or_new(ax, (0.3 + 0.075 * wide, 0.95 + 0.15 * lines))
    confidence = data.need("confidence", for_="the heatmap")[text]
    agrees = accepted_first(data)[text]
    shaded = _shade(ax, cells, confidence, agrees)
    for dark, color in ((True, "white"), (False, INK)):
        written = [cell for cell in cells if (confidence[cell.token] < _DARK) == dark]
        ax.add_patch(PathPatch(_glyphs(written), color=color, linewidth=0, zorder=4))
    ax.set_xlim(-0.5, wide + 0.5)
    ax.set_ylim(lines - 0.4, -0.6)
    ax.set_aspect(_ASPECT, anchor="NW")
    ax.set_axis_off()
    shown = cells[-1].token + 1
    extent = f"{size:,} tokens" if shown == size else f"first {shown:,} of {size:,} tokens"
    missed = int((~agrees[:shown]).sum())
    describe(ax, f"Prompt {short_name(data.ids[prompt])}: {extent}, {missed:,} misses (framed)", "", "")
    bar = figure_of(ax).colorbar(
        shaded, ax=ax, orientation="horizontal", shrink=0.5, aspect=28, pad=0.02, anchor=(0.0, 1.0)
    )
    bar.set_label("confidence of the draft in its own choice", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_linewidth(0.5)
    return ax


def _flow(tokens: Iterable[str]) -> list[Cell]:
    """Characters laid out in lines, a new one after each line break; stops at the last line that is shown."""
    cells: list[Cell] = []
    row = column = 0
    for number, token in enumerate(tokens):
        for character in _printable(token):
            if column == COLUMNS:
                row, column = row + 1, 0
            if row == MOST_LINES:
                return [cell for cell in cells if cell.token < number]  # never half a token
            cells.append(Cell(number, row, column, character))
            row, column = (row + 1, 0) if character == SIGNS["\n"] else (row, column + 1)
    return cells


def _printable(token: str) -> str:
    """A token as at least one character, each of which the monospaced font has."""
    shown = (SIGNS.get(character, character if has_glyph(character, _FONT) else MISSING) for character in token)
    return "".join(shown) or MISSING


def _shade(ax: Axes, cells: Sequence[Cell], confidence: np.ndarray, agrees: np.ndarray) -> PatchCollection:
    """Draw a box for each stretch of a token within a line; frame the misses."""
    boxes: dict[tuple[int, int], Rectangle] = {}
    for cell in cells:
        key = (cell.token, cell.row)
        if key in boxes:
            boxes[key].set_width(boxes[key].get_width() + 1)
        else:
            boxes[key] = Rectangle((cell.column, cell.row - 0.5), 1, 1)
    shaded = PatchCollection(boxes.values(), cmap=_SHADES, edgecolor="#d9d9d9", linewidth=0.3)
    shaded.set_array(np.array([confidence[token] for token, _ in boxes]))
    shaded.set_clim(0, 1)
    ax.add_collection(shaded)
    missed = [box for (token, _), box in boxes.items() if not agrees[token]]
    ax.add_collection(PatchCollection(missed, facecolor="none", edgecolor=VERMILLION, linewidth=1.2, zorder=3))
    return shaded


def _glyphs(cells: Sequence[Cell]) -> Path:
    """All characters as one path in data coordinates: they fit their boxes at any size, and no $ is mathematics."""
    paths = []
    for cell in cells:
        if cell.character.isspace():
            continue
        move = Affine2D().scale(1 / _advance(), -1 / (_advance() * _ASPECT)).translate(cell.column, cell.row + 0.27)
        paths.append(move.transform_path(_glyph(cell.character)))
    return Path.make_compound_path(*paths) if paths else Path(np.zeros((0, 2)))


@functools.lru_cache(maxsize=4096)
def _glyph(character: str) -> Path:
    """Outline of a character of the monospaced font, at the size of `_advance`."""
    vertices, codes = text_to_path.get_text_path(_FONT, character, ismath=False)
    return Path(vertices, codes)


@functools.lru_cache(maxsize=1)
def _advance() -> float:
    """Width that every character of the monospaced font takes, in the units of `_glyph`."""
    font = FontProperties(family=_FONT.get_family(), size=text_to_path.FONT_SCALE)
    one, two = (text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] for text in ("m", "mm"))
    return two - one
