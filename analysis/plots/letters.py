"""Text as a picture can show it: no control characters, no letters that the font lacks, names that leave room."""

from __future__ import annotations

import functools
import unicodedata

from matplotlib.font_manager import FontProperties, findfont, get_font

SANS = FontProperties(family="DejaVu Sans")
MISSING = "□"
LONGEST_NAME = 48  # characters
SIGNS = {"\n": "↵", "\r": "←", "\t": "→"}


def printable(text: str, font: FontProperties = SANS) -> str:
    """``text`` with □ for control characters (a line break stays) and for those that ``font`` has no shape for."""
    return "".join(letter if letter == "\n" or has_glyph(letter, font) else MISSING for letter in text)


def short_name(name: object) -> str:
    """A name (of a prompt, a data set, a policy, ...) on one line, its middle left out where it is long."""
    text = "".join(SIGNS.get(letter, letter) for letter in str(name))
    if len(text) <= LONGEST_NAME:
        return text
    half = (LONGEST_NAME - 1) // 2
    return f"{text[: LONGEST_NAME - 1 - half]}…{text[-half:]}"


@functools.lru_cache(maxsize=4096)
def has_glyph(character: str, font: FontProperties = SANS) -> bool:
    """Whether ``font`` can show ``character``: never one of control, format, surrogate or unassigned."""
    if unicodedata.category(character).startswith("C"):
        return False
    return get_font(findfont(font)).get_char_index(ord(character)) != 0
