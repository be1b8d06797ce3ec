"""Simulated against measured, iteration by iteration and second by second."""
