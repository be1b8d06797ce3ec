"""Figures of a trace: how long its oracle iterations are, how varied, where, and what foretells their end.

One file a figure.  Each ``plot_*(data, ax=None)`` draws into ``ax`` or a new figure, without a display, and returns the
axes; ``ax.figure`` is the figure, which `save` writes.  Everything is counted or binned first, so that a figure is as
quick for ten million iterations as for one.  Intervals and bands are 95 %.
"""

from analysis.plots.calibration import plot_calibration
from analysis.plots.canvas import save
from analysis.plots.compare import plot_compare
from analysis.plots.hazard import plot_hazard
from analysis.plots.headroom import plot_headroom
from analysis.plots.heatmap import plot_heatmap
from analysis.plots.histogram import plot_histogram
from analysis.plots.iterations import plot_iterations
from analysis.plots.panels import PANELS, closest_fits, panel
from analysis.plots.position import plot_position
from analysis.plots.prediction import plot_prediction
from analysis.plots.roc import plot_roc
from analysis.plots.surface import plot_surface, surface_panels
from analysis.plots.survival import plot_survival
from analysis.plots.time import plot_time
from analysis.plots.validation import Comparison, plot_errors, plot_simulated_vs_measured, simulated_vs_measured_panels
from analysis.plots.variance import plot_variance

__all__ = [
    "Comparison", "PANELS", "closest_fits", "panel", "plot_calibration", "plot_compare", "plot_errors",
    "plot_hazard", "plot_headroom", "plot_heatmap", "plot_histogram", "plot_iterations", "plot_position",
    "plot_prediction", "plot_roc", "plot_simulated_vs_measured", "plot_surface", "plot_survival", "plot_time",
    "plot_variance", "save", "simulated_vs_measured_panels", "surface_panels",
]  # fmt: skip
