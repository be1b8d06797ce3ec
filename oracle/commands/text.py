"""Text for a terminal and a shell: what names, files and policies hold is shown, and never acts.

A data set's name may hold an escape sequence that writes to the clipboard, a file's name a quote, an error message a
whole file.  All that reaches a terminal goes through here.
"""

from __future__ import annotations

import os
import shlex
import unicodedata
from pathlib import Path

LIMIT = 600  # characters of a message; what matters stands at its ends
# Control characters, halves of characters (bytes of a file's name that are no text), line and paragraph separators.
_HIDDEN = ("Cc", "Cs", "Zl", "Zp")
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # these make text read in another order


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with every character that a terminal would obey written as an escape such as ``\\x1b``.

    ``lines`` keeps line breaks: for text of our own that has several lines.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if (lines and character == "\n") or not hidden(character) else escape(character) for character in text
    )


def hidden(character: str) -> bool:
    """Whether a terminal would obey ``character``, or could not write it, instead of showing it."""
    return unicodedata.category(character) in _HIDDEN or unicodedata.bidirectional(character) in _TURNING


def escape(character: str) -> str:
    """``character`` as Python writes it: ``\\x1b``, ``\\u202e``."""
    return character.encode("unicode_escape").decode("ascii")


def bounded(text: str, limit: int = LIMIT) -> str:
    """``text``, or its two ends and how long it is where it has more than ``limit`` characters."""
    if len(text) <= limit:
        return text
    gap = f" ... ({len(text):,} characters) ... "
    rest = max(limit - len(gap), 2)
    return text[: rest - rest // 3] + gap + text[-(rest // 3) :]


def one_line(text: str, limit: int = LIMIT) -> str:
    """A message of any origin as one line that can be shown: line breaks as spaces, bounded, all of it visible."""
    return visible(bounded(" ".join(text.split()), limit))


def shell(*words: str | Path) -> str:
    """The words of a command, quoted so that a shell reads each of them back; bash and zsh alike.

    A path that begins with a dash gets ``./`` before it, or it would be read as an option.
    """
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str | Path) -> str:
    text = str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = f"./{text}"
    if visible(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_ansi_c, text)) + "'"


def _ansi_c(character: str) -> str:
    if hidden(character):
        return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    return f"\\{character}" if character in "\\'" else character
