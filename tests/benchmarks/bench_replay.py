"""What replaying costs: array operations against a token-by-token walk with policy objects, in one run.

    python tests/benchmarks/bench_replay.py [--tokens 1000000]

Prints seconds and, what can be compared between machines, ratios.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from builders.synthetic import EOS, synthetic
from oracle.policies.rules import Policy, Signals, parse

from analysis.cost import CostModel
from analysis.replay.simulate import replay, simulate
from oracle.records.trace import Trace, iter_records, write_meta, write_part


def walk(trace: Trace, policy: Policy) -> list[tuple[int, int, int]]:
    """The replay rule as a drafter would live it: one policy call a token.  (position, drafted, accepted) an iteration."""
    over = trace.overruns
    draft, target = trace.draft_tokens.tolist(), trace.target_tokens.tolist()
    confidence, tail = trace.confidence.tolist(), over.confidence.tolist()
    tail_tokens, starts, rows = over.tokens.tolist(), over.offsets.tolist(), trace.overrun_of.tolist()
    found = []
    for start, end, limit in zip(
        trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), trace.max_new_tokens.tolist(), strict=True
    ):
        state, at = policy.start(), start
        while at < end:
            budget = min(policy.budget(state), limit - (at - start) - 1)
            drafted, matches, missed = 0, 0, -1
            while drafted < budget:
                if missed < 0:
                    token, value = draft[at + drafted], confidence[at + drafted]
                    if token == target[at + drafted]:
                        matches += 1
                    else:
                        missed = at + drafted
                else:
                    place = starts[rows[missed]] + drafted - (missed - at) - 1
                    token, value = tail_tokens[place], tail[place]
                drafted += 1
                if token == EOS or policy.stop(Signals(value, 1 - value, value / 2), state):
                    break
            accepted = min(matches, end - 1 - at)
            found.append((at, drafted, accepted))
            state = policy.update(state, drafted, accepted, None)
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
    trace = synthetic(parser.parse_args().tokens // 128)
    print(f"{trace.tokens:,} tokens, {trace.prompts:,} prompts")
    for text in ("constant:tokens=5", "dynamic:threshold=0.4,tokens=20", "heuristic_transient"):
        policy = parse(text)
        at, drafted, _ = replay(trace, policy)
        slow = seconds(lambda policy=policy: walk(trace, policy), repeats=1)
        assert [(int(a), int(d)) for a, d in zip(at, drafted, strict=True)] == [row[:2] for row in walk(trace, policy)]
        fast = seconds(lambda policy=policy: replay(trace, policy))
        print(
            f"{text:34} {fast:.3f} s, {slow / fast:.0f} times faster than the walk; {len(at) / fast:,.0f} iterations/s"
        )
    sweep = seconds(
        lambda: [replay(trace, parse(f"dynamic:threshold={value:.3f}")) for value in np.linspace(0.01, 0.99, 100)], 1
    )
    print(f"100 thresholds: {sweep:.1f} s")
    few = synthetic(200)
    roc = seconds(lambda: replay(few, parse("roc")))
    print(f"roc (refits its threshold each iteration): {len(replay(few, parse('roc'))[0]) / roc:,.0f} iterations/s")
    optimal = seconds(lambda: simulate(trace, "oracle:optimal", CostModel(draft=0.1)), 1)
    print(f"oracle:optimal: {optimal:.1f} s")
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
