"""One self-contained page about one or several traces."""

from analysis.examine import Source
from analysis.report.page import report

__all__ = ["Source", "report"]
