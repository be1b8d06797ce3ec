"""How often the 95 % intervals of `oracle stats` hold the truth, by number of prompts.

``python tests/benchmarks/bench_coverage.py [draws]`` prints a row a number, a column a number of prompts, for four
populations of texts of 32 to 128 tokens (tests/builders/populations.py), and the calibration error's mean beside its
truth; 1,000 draws take some minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from builders.populations import KINDS, Population, calibrated, coverage  # noqa: E402
from describe.test_coverage import gaps_of, numbers  # noqa: E402

from analysis.describe import statistics  # noqa: E402
from analysis.describe.calibration import calibration_error  # noqa: E402

PROMPTS = (3, 5, 10, 20, 60)


def everything(sample: statistics.Sample) -> dict:
    """The numbers of the short test and those that are drawn again."""
    summary = statistics.summarise(sample, resamples=400)
    return numbers(sample) | {
        "median": summary.median,
        "trimmed mean": summary.trimmed_mean,
        "share of the longest": statistics.longest_share(sample, resamples=400),
        "excess": statistics.variance(sample).excess,
        "accepted tokens cut": statistics.censoring(sample).accepted,
    }


def lookahead(draws: int) -> None:
    for kind in KINDS:
        source = Population.of(kind, prompts=20_000)
        found = [coverage(source, everything, prompts, draws) for prompts in PROMPTS]
        print(f"\n{kind:24s}" + "".join(f"{prompts:>8d}" for prompts in PROMPTS))
        for name in found[0]:
            print(f"{name:24s}" + "".join(f"{each[name]:8.3f}" for each in found))


def calibration(draws: int) -> None:
    for tilt in (1.0, 0.9, 0.7):
        rng = np.random.default_rng(0)
        gaps = gaps_of(*calibrated(rng, 100_000, tilt=tilt), 15)
        truth = 0.0 if tilt == 1 else np.abs(gaps.sum(axis=0)).sum() / (len(gaps) * 64)
        print(f"\ncalibration error, truth {truth:.4f}: coverage, mean, mean if perfect")
        for prompts in PROMPTS:
            chosen = rng.integers(len(gaps), size=(draws, prompts))
            found = [calibration_error(gaps[each], np.full(prompts, 64)) for each in chosen]
            held = np.mean([each.low <= truth <= each.high for each, _ in found])
            value, perfect = np.mean([[each.value, perfect] for each, perfect in found], axis=0)
            print(f"{prompts:4d} prompts: {held:.3f} {value:.4f} {perfect:.4f}")


if __name__ == "__main__":
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    lookahead(draws)
    calibration(draws)
