"""Prompts of at most so many tokens: what a prompt is about is shortened from its end, what is asked of it stays.

A summary's article loses its last words and keeps the instruction before and after it; a prompt that has no such part
loses its own end, as a tokenizer's truncation does.  Words are never broken where the text has any.
"""

from __future__ import annotations

from collections.abc import Callable

Span = tuple[int, int]  # first character and end of the part that may be shortened


def shortened(text: str, span: Span | None, fits: Callable[[str], bool]) -> str:
    """The longest beginning of the part ``span`` of ``text`` (None: all of it) with which the whole text fits.

    Raises ValueError where the words around it do not fit even without it.
    """
    if fits(text):
        return text
    start, end = (0, len(text)) if span is None else span
    before, part, after = text[:start], text[start:end], text[end:]
    if (before or after) and not fits(before + after):
        raise ValueError("the words around the part that may be shortened are longer than that")
    low, high = 0, len(part)  # so many characters fit, and so many do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(before + part[:middle] + after) else (low, middle)
    return before + _whole_words(part, low) + after


def _whole_words(part: str, length: int) -> str:
    """So many characters, without a word that would be broken, unless it is all there is."""
    kept = part[:length]
    if part[length : length + 1].isspace():
        return kept
    words = kept.rstrip()
    at = max((words.rfind(space) for space in " \n\t"), default=-1)
    return kept[:at] if at > 0 and words == kept else kept
