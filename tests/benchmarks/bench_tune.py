"""What tuning costs, and how often it claims that a policy beats the tuned constant where none does.

    python tests/benchmarks/bench_tune.py [--tokens 1000000] [--traces 400]

Where acceptance is independent and the signals say nothing, no policy beats the best constant; at prices at which two
lengths tie, hundreds of settings are nearly as good.  For 10, 20 and 40 prompts it prints the share of traces on which
a policy is advised that is none, with its 95 % interval (nominal: at most 2.5 %), beside the share on which the best of
the sample is such a policy; then the share on which a policy is advised where the confidence foretells acceptance.

Measured: a million tokens take 11 s of processor time.  Of 200 traces of 10 prompts 3.5 % (1.7 to 7.0 %) are advised a
policy, where the best of the sample is one in 48 %.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the toolkit, the tests' builders

from builders.samples import tuned_in_parts  # noqa: E402
from builders.synthetic import synthetic  # noqa: E402
from builders.truths import known  # noqa: E402

from analysis.cost import CostModel  # noqa: E402
from analysis.intervals import wilson  # noqa: E402
from analysis.tune import tune  # noqa: E402

TIE = CostModel(draft=0.2377)  # independent acceptance of .8: 3 and 4 tokens are equally fast
FAMILIES = ("heuristic_transient", "dynamic")


def is_constant(policy: str) -> bool:
    return policy.startswith(("constant", "none"))


def rates(kind: str, cost: CostModel, prompts: int, traces: int) -> None:
    found = list(tuned_in_parts(known(kind, prompts * traces, seed=prompts), cost, FAMILIES, prompts))
    advised = sum(not is_constant(each.policy) for each in found)
    sampled = sum(not is_constant(each.settings[0].policy) for each in found)
    low, high = wilson(np.array([advised]), np.array([len(found)]))
    print(
        f"{kind}, draft {cost.draft:g}, {prompts} prompts, {len(found)} traces: a policy is advised "
        f"in {advised / len(found):.1%} ({low[0]:.1%} to {high[0]:.1%}); the best of the sample is one in "
        f"{sampled / len(found):.0%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of the synthetic trace, 128 a text")
    parser.add_argument("--traces", type=int, default=400, help="small traces for each rate")
    given = parser.parse_args()
    trace = synthetic(max(1, given.tokens // 128), max_overrun=48)
    start, clock = time.process_time(), time.perf_counter()
    found = tune(trace, CostModel(draft=0.1))
    print(
        f"{trace.tokens:,} tokens, {found.tried} settings (50 thresholds x 12 caps), {found.folds} folds: "
        f"{time.process_time() - start:.1f} s of processor time, {time.perf_counter() - clock:.1f} s by the clock "
        f"({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f})",
        flush=True,
    )
    for prompts in (10, 20, 40):
        rates("coins", TIE, prompts, given.traces)
    rates("signal", CostModel(draft=0.1), 20, max(1, given.traces // 4))


if __name__ == "__main__":
    main()
