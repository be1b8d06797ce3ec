"""How often a perfect simulator is told to fail, and how often the error's interval holds the truth, by simulation.

python tests/benchmarks/bench_validation.py RUNS PROMPTS REPEATS: for a call that varies by 3 % (all of it alike) and
iterations that vary by 10 % besides, the verdicts over so many sets of runs, and the coverage of the error's interval.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from builders.runs import fake_runs, some_trace  # noqa: E402

from analysis.measured.calibrate import FIT  # noqa: E402
from analysis.validation.folds import cross_fit  # noqa: E402
from analysis.validation.validate import Budget, validate  # noqa: E402
from oracle.records.runs import Call, Runs  # noqa: E402

POLICIES = ("constant:tokens=2", "constant:tokens=5", "dynamic", "heuristic")
COLUMNS = ("draft_seconds", "verify_seconds", "forward_seconds", "rest_seconds")


def uneven(call: Call, random: np.random.Generator) -> Call:
    """The call with iterations that vary by 10 %, skewed as clocked ones are."""
    noise = random.gamma(100, 0.01, len(call.position))
    columns = {name: getattr(call, name) * noise for name in COLUMNS}
    seconds = columns["draft_seconds"] + columns["verify_seconds"] + columns["rest_seconds"]
    return dataclasses.replace(call, **columns, total_seconds=float(seconds.sum()), prefill_seconds=float(seconds[0]))


def main(count: int, prompts: int, repeats: int) -> None:
    verdicts: Counter[str] = Counter()
    errors, floors = [], []
    for seed in range(count):
        random = np.random.default_rng(seed)
        source = some_trace(prompts=prompts, size=64 + 3 * prompts, seed=seed)
        runs = fake_runs(
            source, [*FIT, *POLICIES], repeats=repeats, speed=lambda *_, random=random: random.lognormal(0, 0.03)
        )
        noisy = Runs(runs.meta, tuple(uneven(call, random) for call in runs.calls))
        found = validate(source, noisy, cross_fit(noisy), budget=Budget(median=0.02, worst=0.05))
        verdicts[found.verdict] += 1
        errors += [(row.error.value, row.error.low, row.error.high) for row in found.rows]
        floors += [row.floor for row in found.rows]
    value, low, high = np.array(errors).T
    held = np.mean((low <= 0) & (high >= 0))
    print(f"{prompts} prompts, {repeats} repeats, {count} runs: {dict(verdicts)}; {held:.1%} of intervals hold 0")
    print(f"error {np.median(np.abs(value)):.2%} (median), noise floor {np.median(floors):.2%}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
