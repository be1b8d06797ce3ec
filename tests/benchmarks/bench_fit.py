"""How long fits take, and how often the intervals hold the truth.

``python tests/benchmarks/bench_fit.py [seeds]`` prints seconds (and processor seconds, which a busy machine does not
inflate) for tables of a million iterations, the ratio to the same fit on a thousand, and the coverage of the 95 %
intervals over 20,000 draws.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from analysis.fit.distributions import FAMILIES, Counts, fit, fit_all, goodness_of_fit  # noqa: E402
from tests.fit.test_distributions import TRUTH, cut, draw  # noqa: E402


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """(wall, processor) seconds of one call."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def speed() -> None:
    rng = np.random.default_rng(0)
    million = draw("beta-geometric", TRUTH["beta-geometric"], 10**6, rng)
    tables = {
        "cut at 1..127": cut(million, rng.integers(1, 128, million.size)),
        "cut at 2,000": cut(million, 2_000),
        "one outlier of 1e6": Counts.from_samples(np.append(million[million < 2_000], 10**6)),
    }
    small = timed(lambda: fit_all(cut(million[:1_000], 127)))
    print(f"fit_all, 1,000 iterations: {small[0]:.2f} s ({small[1]:.2f} s processor)")
    for name, table in tables.items():
        wall, processor = timed(lambda table=table: fit_all(table))
        ratio = processor / small[1]
        print(f"fit_all, a million iterations, {name}: {wall:.2f} s ({processor:.2f} s processor), {ratio:.1f}x")
    table = tables["cut at 1..127"]
    for name in FAMILIES:
        found = fit(table, name)
        wall, processor = timed(lambda found=found: goodness_of_fit(table, found))
        print(f"goodness_of_fit, 200 draws of a million, {name}: {wall:.2f} s ({processor:.2f} s processor)")
    wall, processor = timed(lambda: Counts.from_samples(million))
    print(f"Counts.from_samples, a million: {wall:.3f} s ({processor:.3f} s processor)")


def coverage(seeds: int, n: int = 20_000) -> None:
    for name, truth in TRUTH.items():
        for censoring in (False, True):
            inside = np.zeros(len(truth))
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                counts = cut(draw(name, truth, n, rng), rng.integers(1, 25, n) if censoring else 10**7)
                estimates = fit(counts, name).parameters.values()
                inside += [each.low <= value <= each.high for each, value in zip(estimates, truth, strict=True)]
            shares = ", ".join(
                f"{p.name} {share:.3f}" for p, share in zip(FAMILIES[name].parameters, inside / seeds, strict=True)
            )
            print(f"coverage of 0.95, {seeds} x {n} draws, {'censored' if censoring else 'complete'}, {name}: {shares}")


if __name__ == "__main__":
    speed()
    coverage(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
