"""What `oracle diagnose` foretells and what it measures, on the embedded pair with the real clock.

python tests/benchmarks/bench_diagnose.py [SECONDS] [SEEDS]: for both demo sets and each seed, which deals the prompts,
the recommended setting, its speedup of decoding as the replay of the check's prompts foretells it and as it was
measured there, the error with its interval, the verdict, and how long it took beside the budget.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import oracle  # noqa: E402


def main(budget: float, seeds: int) -> None:
    torch.set_num_threads(1)
    pair = oracle.load_pair("demo")
    errors = []
    print("data       seed  policy                            foretold  measured  error [95 %]              seconds")
    for name in ("demo-code", "demo-text"):
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                prompts = oracle.load_prompts(name)
                found = oracle.diagnose(pair, prompts, Path(folder) / "out", budget=budget, seed=seed)
                took = time.perf_counter() - started
            check = found.found.check
            errors.append(abs(check.error.value))
            ends = f"{check.error.value:+.1%} [{check.error.low:+.1%}, {check.error.high:+.1%}]"
            print(
                f"{name:<10} {seed:>4}  {check.judged:<32}  "
                f"{check.predicted.value:>8.2f}  {check.decoding.value:>8.2f}  "
                f"{ends:<24}  {took:>4.0f} of {budget:.0f}  {check.verdict}, {check.prompts} prompts",
                flush=True,
            )
    print(f"error {np.median(errors):.1%} in the median, {max(errors):.1%} at worst")


if __name__ == "__main__":
    main(*(float(word) for word in sys.argv[1:2] or ["75"]), *(int(word) for word in sys.argv[2:3] or ["2"]))
