"""One look for each policy, family and signal, the same in every figure, safe for colour-blind readers and grey print.

Colours are seaborn's "colorblind" set.  A name keeps its colour wherever it appears; names that share one (variants of
a policy in one figure) are told apart by dash and marker, so colour is never the only difference.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

BLUE, ORANGE, GREEN, VERMILLION, PURPLE = "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"
BROWN, PINK, GREY, SKY, BLACK = "#ca9161", "#fbafe4", "#949494", "#56b4e9", "#222222"
OBSERVED = "#a9c3d9"  # bars of observed data, light enough for lines over them
EDGE = "#5b7f9c"
PAPER = "#ffffff"
INK = "#333333"

_OTHERS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, BROWN, SKY)
_DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")

# name -> (colour, number of its dash and marker)
_KNOWN = {
    # families of distributions
    "geometric": (VERMILLION, 0),
    "zero-inflated-geometric": (ORANGE, 1),
    "geometric-mixture": (GREEN, 2),
    "beta-geometric": (PURPLE, 3),
    "negative-binomial": (BLUE, 1),
    "discrete-weibull": (BROWN, 2),
    "poisson": (GREY, 3),
    # signals
    "confidence": (BLUE, 0),
    "entropy": (VERMILLION, 1),
    "margin": (GREEN, 2),
    # policies
    "none": (GREY, 0),
    "constant": (BLUE, 0),
    "heuristic": (VERMILLION, 1),
    "heuristic_transient": (ORANGE, 2),
    "dynamic": (GREEN, 3),
    "roc": (PURPLE, 4),
    # oracles
    "oracle": (BLACK, 0),
    "oracle:detect": (BLACK, 0),
    "oracle:clairvoyant": (BLACK, 1),
    "oracle:optimal": (BLACK, 2),
}


@dataclass(frozen=True)
class Style:
    """How one name is drawn: colour (hex), line style and marker as matplotlib takes them."""

    color: str
    dash: object
    marker: str


def style(name: str) -> Style:
    """The look of ``name``; parameters after a colon (``dynamic:threshold=0.4``) do not change the colour."""
    color, number = _look(name)
    return Style(color, _DASHES[number % len(_DASHES)], _MARKERS[number % len(_MARKERS)])


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Looks of the names in one figure: colours as in `style`, dashes and markers different where colours meet."""
    chosen: dict[str, Style] = {}
    taken: dict[str, set[int]] = {}
    for name in sorted(set(names)):
        color, number = _look(name)
        used = taken.setdefault(color, set())
        number = next(other for other in range(number, number + len(used) + 1) if other not in used)
        used.add(number)
        chosen[name] = Style(color, _DASHES[number % len(_DASHES)], _MARKERS[number % len(_MARKERS)])
    return chosen


def _look(name: str) -> tuple[str, int]:
    base = name if name in _KNOWN else name.partition(":")[0]
    if base in _KNOWN:
        return _KNOWN[base]
    place = zlib.crc32(base.encode(errors="backslashreplace"))  # the same in every process, unlike hash()
    return _OTHERS[place % len(_OTHERS)], place // len(_OTHERS) % len(_MARKERS)
