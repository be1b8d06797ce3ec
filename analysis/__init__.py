"""Reads traces: replays policies, prices them, fits the distributions, and shows the result.  Never loads torch."""

from analysis.cost import CostModel
from analysis.replay.simulate import SimulationResult, simulate

__all__ = ["CostModel", "SimulationResult", "simulate"]
