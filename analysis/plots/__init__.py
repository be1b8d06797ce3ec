"""Figures, one file each; drawn without a display.  Each ``plot_*(data, ax=None)`` returns its axes; `save` writes them."""

from analysis.plots.canvas import save
from analysis.plots.heatmap import plot_heatmap
from analysis.plots.histogram import plot_histogram
from analysis.plots.panels import PANELS, closest_fits, panel, plot_hazard, plot_position, plot_survival, plot_variance
from analysis.plots.policies import plot_iterations, plot_simulated_vs_measured
from analysis.plots.signals import plot_calibration, plot_roc

__all__ = [
    "PANELS", "closest_fits", "panel", "plot_calibration", "plot_hazard", "plot_heatmap", "plot_histogram", "plot_iterations",
    "plot_position", "plot_roc", "plot_simulated_vs_measured", "plot_survival", "plot_variance", "save",
]  # fmt: skip
