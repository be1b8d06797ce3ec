"""Which policy to use, with which threshold and cap: chosen on a trace, judged on prompts that did not choose it."""

from analysis.tune.result import Looked, Surface, Tuned
from analysis.tune.tuning import tune

__all__ = ["Looked", "Surface", "Tuned", "tune"]
