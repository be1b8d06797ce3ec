"""Words for people that several rooms need."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(value: str, legal: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the legal value nearest to `value`, or nothing when none is near."""
    close = difflib.get_close_matches(value, list(legal), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
