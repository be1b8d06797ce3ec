"""How an object shows itself: one line in a terminal, that line and a table in a notebook."""

from __future__ import annotations

import html
from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

ROWS = 20  # of a table, in a notebook


class Shown:
    """For dataclasses (with ``repr=False``) that hold more than fits on a screen."""

    @abstractmethod
    def in_short(self) -> str:
        """What it is, on one line."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """It as a table."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.in_short()}>"

    def _repr_html_(self) -> str:
        """The first rows under the line; all text is escaped: names come from files of others."""
        frame = self.to_frame()
        more = f"<p>{len(frame):,} rows, the first {ROWS} shown; all: .to_frame()</p>" if len(frame) > ROWS else ""
        return f"<p><b>{html.escape(repr(self))}</b></p>{frame.head(ROWS).to_html(escape=True, border=0)}{more}"
