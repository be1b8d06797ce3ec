"""How a document that the code writes reaches its file, or with --show the terminal, where a test compares it."""

from __future__ import annotations

import sys
from pathlib import Path


def deliver(text: str, file: Path) -> None:
    """Write ``text`` to ``file``; to stdout, as the same bytes on every system, where --show was given."""
    if "--show" in sys.argv[1:]:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        sys.stdout.write(text)
    else:
        file.write_text(text, encoding="utf-8", newline="\n")
