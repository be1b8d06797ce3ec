"""How wide the columns of a table are, and where its cells are broken, so that no word is cut on a narrow terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A name may be broken after what joins its parts; a number, an interval and a date may not.
_PARTS = re.compile(r"[/:,=_+\-]*[^/:,=_+\-]+[/:,=_+\-]*|[/:,=_+\-]+")
_LETTER = re.compile(r"[^\W\d_]")


def fitted(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The width of each column where a table has ``width`` in all, a space between two columns; None where none fits.

    Columns that hold no word too long for them come first, then names are broken at their joints.
    """
    columns = list(zip(*rows, strict=True))
    room = width - (len(columns) - 1)
    lines = [_most(column, str.splitlines) for column in columns]
    words = [_most(column, str.split) for column in columns]
    widths = [_most(column, lambda cell: [part for word in cell.split() for part in parts(word)]) for column in columns]
    left = room - sum(widths)
    if left < 0:
        return None
    for at in sorted(range(len(widths)), key=lambda at: words[at] - widths[at]):
        if (more := words[at] - widths[at]) <= left:
            widths[at], left = words[at], left - more
    # A number and its interval stay on one line, before the names in the first column do.
    for at in sorted(range(1, len(widths)), key=lambda at: lines[at] - widths[at]):
        if (more := lines[at] - widths[at]) <= left:
            widths[at], left = lines[at], left - more
    while left and (narrow := [at for at in range(len(widths)) if widths[at] < lines[at]]):
        widths[max(narrow, key=lambda at: lines[at] / max(widths[at], 1))] += 1
        left -= 1
    return widths


def wrapped(text: str, width: int) -> str:
    """``text`` on lines of at most ``width``, broken between words, in a word at its joints, and within a part of it
    only where that alone is wider."""
    return "\n".join(line for each in text.split("\n") for line in _lines(each, width))


def parts(word: str) -> list[str]:
    """The parts of a name, each with the joint after it; anything else whole."""
    return _PARTS.findall(word) if _LETTER.search(word) else [word]


def _lines(text: str, width: int) -> list[str]:
    if _wide(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    made, line = [], indent
    for word in text.split():
        gap = " " if line.strip() else ""
        if _wide(line + gap + word) <= width:
            line += gap + word
            continue
        if line.strip() and _wide(word) <= width:
            made, line = [*made, line], word
            continue
        for number, part in enumerate(parts(word)):
            before = gap if number == 0 else ""
            if _wide(line + before + part) <= width:
                line += before + part
                continue
            made, line = ([*made, line], part) if line.strip() else (made, part)
            while _wide(line) > width:
                made, line = [*made, line[:width]], line[width:]
    return [*made, line]


def _most(cells: Sequence[str], pieces) -> int:
    return max((_wide(piece) for cell in cells for piece in pieces(cell)), default=0)


def _wide(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
