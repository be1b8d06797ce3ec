"""Which policy to use, with which threshold and cap: chosen on a trace, judged on prompts that did not choose it."""

from analysis.tune.result import Looked, Surface, Tried, Tuned
from analysis.tune.tuning import tune

__all__ = ["Looked", "Surface", "Tried", "Tuned", "tune"]
