"""Records what a draft model would propose at every position of a target model's text, for exact replay.

Everything that a user needs is a name of this package, loaded when it is first asked for: ``import oracle`` alone loads
neither models' libraries nor plotting.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.closed_form import predict
    from analysis.cost import CostModel
    from analysis.examine import Source
    from analysis.measured.until import Until
    from analysis.plots import (
        plot_calibration,
        plot_compare,
        plot_errors,
        plot_hazard,
        plot_headroom,
        plot_heatmap,
        plot_histogram,
        plot_iterations,
        plot_position,
        plot_prediction,
        plot_roc,
        plot_simulated_vs_measured,
        plot_surface,
        plot_survival,
        plot_time,
        plot_variance,
        save,
    )
    from analysis.validation.validate import Budget
    from oracle.collect import collect
    from oracle.measure import measure
    from oracle.models.pairs import Pair, load_pair
    from oracle.policies import parse
    from oracle.policies.names import list_policies
    from oracle.prompts.chat import Chat
    from oracle.prompts.sets import load_prompts
    from oracle.records.runs import Runs
    from oracle.records.trace import Trace
    from oracle.shipped import sample
    from oracle.workflows.diagnose import Diagnosis, diagnose
    from oracle.workflows.questions import calibrate, compare_traces, fit, ladder, report, simulate, stats
    from oracle.workflows.train import train
    from oracle.workflows.tune import tune
    from oracle.workflows.validate import compare, validate

__all__ = [
    "Budget", "Chat", "CostModel", "Diagnosis", "Pair", "Runs", "Source", "Trace", "Until", "calibrate", "collect",
    "compare", "compare_traces", "diagnose", "fit", "ladder", "list_policies", "load_pair", "load_prompts",
    "measure", "parse", "plot_calibration", "plot_compare", "plot_errors", "plot_hazard", "plot_headroom",
    "plot_heatmap", "plot_histogram", "plot_iterations", "plot_position", "plot_prediction", "plot_roc",
    "plot_simulated_vs_measured", "plot_surface", "plot_survival", "plot_time", "plot_variance", "predict", "report",
    "sample", "save", "simulate", "stats", "train", "tune", "validate",
]  # fmt: skip

_MODULES = {
    "analysis.closed_form": ("predict",),
    "analysis.cost": ("CostModel",),
    "analysis.plots": (*(name for name in __all__ if name.startswith("plot_")), "save"),
    "analysis.measured.until": ("Until",),
    "analysis.examine": ("Source",),
    "analysis.validation.validate": ("Budget",),
    "oracle.collect": ("collect",),
    "oracle.measure": ("measure",),
    "oracle.models.pairs": ("Pair", "load_pair"),
    "oracle.policies.names": ("list_policies",),
    "oracle.policies": ("parse",),
    "oracle.prompts.chat": ("Chat",),
    "oracle.prompts.sets": ("load_prompts",),
    "oracle.records.runs": ("Runs",),
    "oracle.records.trace": ("Trace",),
    "oracle.shipped": ("sample",),
    "oracle.workflows.diagnose": ("Diagnosis", "diagnose"),
    "oracle.workflows.questions": ("calibrate", "compare_traces", "fit", "ladder", "report", "simulate", "stats"),
    "oracle.workflows.train": ("train",),
    "oracle.workflows.tune": ("tune",),
    "oracle.workflows.validate": ("compare", "validate"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_READING = ("analysis.", "oracle.workflows.")  # what needs our `analysis`, and not a file of the user's called so


class _Face(ModuleType):
    """Python makes every loaded submodule an attribute; ``oracle.collect`` is the function all the same."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name == "policies":  # the package, which is called for a list of what it holds
        return importlib.import_module("oracle.policies")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'oracle' has no attribute {name!r}")
    if home.startswith(_READING):
        from oracle.shadow import expect_own_analysis

        expect_own_analysis()
    found = getattr(importlib.import_module(home), name)
    setattr(sys.modules[__name__], name, found)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "policies"})


sys.modules[__name__].__class__ = _Face
