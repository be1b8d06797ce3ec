"""Reads traces: replays policies, prices them, fits the distributions, and shows the result.  Never loads torch."""
