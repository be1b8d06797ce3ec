"""What a trace looks like: statistics, signals, curves, repeated text."""
