"""Fits what a policy may learn from a recorded trace."""
