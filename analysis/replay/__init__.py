"""Replays policies over a trace, exactly, and prices every iteration."""
