"""How often the test of i.i.d. acceptance rejects: its size on coin flips, and its power where it says it has 80 %.

``python tests/benchmarks/bench_independence.py [texts]`` prints rejection rates over ``texts`` (2,000) simulated traces
for each number of prompts, and the seconds that traces of growing size take.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from analysis.independence import iid_test  # noqa: E402
from tests.builders.flips import beta, coins, markov, sample  # noqa: E402


def size(repeats: int) -> None:
    for acceptance, length, most in ((0.8, 64, None), (0.95, 128, None), (0.5, 32, None), (0.8, 64, 5)):
        for prompts in (5, 10, 20, 60):
            found = np.zeros(3)
            for seed in range(repeats):
                rng = np.random.default_rng([prompts, seed])
                test = iid_test(sample(coins(prompts, length, acceptance, rng), length, most), draws=199, seed=seed)
                found += [bool(test.rejected), test.p_shape <= 0.05, test.p_spread <= 0.05]
            cut = "" if most is None else f", runs recorded up to {most}"
            rates = ", ".join(f"{share:.3f}" for share in found / repeats)
            print(f"size, acceptance {acceptance}, {prompts} texts of {length}{cut}: {rates} (both, shape, spread)")


def power(repeats: int) -> None:
    """Rejections where the deviation is the one that `hidden_...` names for coin flips of the same texts."""
    for prompts in (5, 10, 20, 60):
        rng = np.random.default_rng(prompts)
        named = [iid_test(sample(coins(prompts, 64, 0.8, rng), 64), draws=199) for _ in range(40)]
        between, within = (float(np.median([getattr(x, f"hidden_{y}") for x in named])) for y in ("between", "within"))
        found = np.zeros(2)
        for _ in range(repeats):
            found[0] += bool(iid_test(sample(beta(prompts, 64, 0.8, between, rng), 64), draws=199).rejected)
            found[1] += bool(iid_test(sample(markov(prompts, 64, 0.8, within, rng), 64), draws=199).rejected)
        shares = found / repeats
        print(
            f"power, {prompts} texts of 64: {shares[0]:.3f} at an SD between prompts of {between:.3g}, "
            f"{shares[1]:.3f} at a correlation within of {within:.3g}"
        )


def speed() -> None:
    for prompts in (20, 200, 8_000):
        flips = sample(coins(prompts, 128, 0.8, np.random.default_rng(0)), 128)
        start = time.process_time()
        test = iid_test(flips)
        print(f"{prompts * 128:,} tokens, {test.draws} draws: {time.process_time() - start:.2f} s of processor")


if __name__ == "__main__":
    speed()
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    size(times)
    power(times // 4)
