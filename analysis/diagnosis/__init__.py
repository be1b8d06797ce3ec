"""Why a pair is as fast as it is, and what would change that: numbers from traces, prices and runs, then words."""
