"""One self-contained page about one or several traces."""

from analysis.report.page import report
from analysis.study import Source

__all__ = ["Source", "report"]
