"""What replaying costs: every policy over all texts at once, against a token-by-token walk, in one run.

    python tests/benchmarks/bench_replay.py [--tokens 1000000]

Prints iterations a second and, what can be compared between machines, how many times faster than the walk that is.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from builders.synthetic import synthetic
from builders.traces import EOS

from analysis.cost import CostModel
from analysis.replay.simulate import replay, simulate, simulate_each
from oracle.policies import POLICIES, Signals, parse
from oracle.policies.contract import Policy, stops_at
from oracle.records.trace import Trace, iter_records, write_meta, write_part


def walk(trace: Trace, policy: Policy) -> int:
    """The replay rule as a drafter would live it, one policy call a token; how many iterations."""
    over, found = trace.overruns, 0
    draft, target = trace.draft_tokens, trace.target_tokens
    for start, end, limit in zip(trace.offsets[:-1], trace.offsets[1:], trace.max_new_tokens, strict=True):
        state, at = policy.start(1), start
        while at < end:
            budget = min(int(np.max(policy.budget(state))), limit - (at - start) - 1)
            drafted, matches, missed = 0, 0, -1
            seen = np.zeros((3, 1, budget), np.float32)
            while drafted < budget:
                if missed < 0:
                    place, source, token = at + drafted, trace, draft[at + drafted]
                    matches, missed = (matches + 1, -1) if token == target[place] else (matches, place)
                else:
                    place, source = over.offsets[trace.overrun_of[missed]] + drafted - (missed - at) - 1, over
                    token = over.tokens[place]
                seen[:, 0, drafted] = source.confidence[place], source.entropy[place], source.margin[place]
                drafted += 1
                stops = stops_at(policy, Signals.of(*seen[:, :, :drafted]), state)
                if token == EOS or (stops is not None and stops[0, -1]):
                    break
            accepted = min(matches, end - 1 - at)
            found += 1
            signals = Signals.of(*seen[:, :, :drafted])
            state = policy.update(state, np.array([drafted]), np.array([accepted]), signals)
            at += accepted + 1
    return found


def seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """The best of ``repeats``: other jobs on the machine only ever add time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    trace, few = synthetic(parser.parse_args().tokens // 128, max_overrun=48), synthetic(8, max_overrun=48)
    print(f"{trace.tokens:,} tokens, {trace.prompts:,} prompts; opening them: ", end="")
    print(f"{seconds(lambda: replay(trace, parse('none')), 1):.2f} s")
    for name in POLICIES:
        policy = parse(name)
        count = len(replay(trace, policy).at)
        fast = seconds(lambda policy=policy: replay(trace, policy))
        slow = []
        slow_seconds = seconds(lambda policy=policy, slow=slow: slow.append(walk(few, policy)), 1)
        speed = count / fast
        print(f"{name:20} {fast:7.3f} s {speed:12,.0f} iterations/s, {speed * slow_seconds / slow[0]:6,.0f} x the walk")
    caps = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)
    settings = [f"dynamic:threshold={value:.3f},tokens={cap}" for value in np.linspace(0.01, 0.99, 50) for cap in caps]
    sweep = seconds(lambda: max(found.speedup for _, found in simulate_each(trace, settings)), 1)
    print(f"50 thresholds x 12 caps, priced: {sweep:.1f} s")
    for what, cost in {
        "flat": CostModel(draft=0.1),
        "a curve": CostModel(0.1, verify=((1, 1), (8, 1.2), (16, 2))),
    }.items():
        print(f"oracle:optimal, {what}: {seconds(lambda cost=cost: simulate(trace, 'oracle:optimal', cost), 1):.1f} s")
    _memory(trace)


def _memory(trace: Trace) -> None:
    """Peak memory of a process that does nothing but load the trace (Linux: VmHWM, which starts anew with the process)."""
    with tempfile.TemporaryDirectory() as folder:
        write_meta(folder, trace.meta)
        records = list(iter_records(trace))
        for number, first in enumerate(range(0, len(records), 500)):
            write_part(folder, number, records[first : first + 500])
        code = (
            "import sys; from oracle.records.trace import Trace; t = Trace.load(sys.argv[1]); peak = open('/proc/self/status').read();"
            "print(t.tokens, int(peak.split('VmHWM:')[1].split()[0]) // 1024)"
        )
        tokens, peak = subprocess.run(
            [sys.executable, "-c", code, folder], check=True, capture_output=True, text=True
        ).stdout.split()
    print(f"loading {int(tokens):,} tokens from disk: {peak} MB at its peak")


if __name__ == "__main__":
    main()
