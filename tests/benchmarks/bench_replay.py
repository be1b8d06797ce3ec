"""What replaying costs: every policy over all texts at once, against a token-by-token walk, in one run.

    python tests/benchmarks/bench_replay.py [--tokens 1000000]

Prints iterations a second of processor time and, what can be compared between machines, how many times faster than the
walk that is; then a sweep, the optimal oracle, what `oracle stats` computes, and the memory of loading.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the toolkit, the tests' builders

from builders.synthetic import synthetic  # noqa: E402
from builders.traces import EOS  # noqa: E402

from analysis.cost import CostModel  # noqa: E402
from analysis.examine import findings  # noqa: E402
from analysis.replay.simulate import replay, simulate, simulate_totals  # noqa: E402
from oracle.policies import POLICIES, Signals, parse  # noqa: E402
from oracle.policies.contract import Policy, after_prompt, sent_of, stops_at  # noqa: E402
from oracle.policies.facts import facts  # noqa: E402
from oracle.records.trace import Trace, iter_records, write_meta, write_part  # noqa: E402

COSTS = {"flat": CostModel(draft=0.1), "a curve": CostModel(0.1, verify=((1, 1), (8, 1.2), (16, 2)))}


def walk(trace: Trace, policy: Policy) -> int:
    """The replay rule as a drafter would live it, one policy call a token; how many iterations."""
    over, found, state = trace.overruns, 0, policy.start(1)
    draft, target = trace.draft_tokens, trace.target_tokens
    for start, end, limit in zip(trace.offsets[:-1], trace.offsets[1:], trace.max_new_tokens, strict=True):
        at = start
        while at < end:
            budget = min(int(np.max(policy.budget(state))), limit - (at - start) - 1)
            drafted, matches, missed, stopped = 0, 0, -1, False
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
                stopped = stops is not None and bool(stops[0, -1])
                if token == EOS or stopped:
                    break
            sent = sent_of(policy, np.array([drafted]), np.array([stopped]), state)
            accepted = min(matches, int(sent[0]), end - 1 - at)
            found += 1
            signals = Signals.of(*seen[:, :, : sent[0]])
            state = policy.update(state, sent, np.array([accepted]), signals)
            at += accepted + 1
        state = after_prompt(policy, state)
    return found


def seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """Processor time, the best of ``repeats``: other jobs on the machine only ever add to it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of the synthetic trace, 128 a text")
    trace, few = synthetic(max(1, parser.parse_args().tokens // 128), max_overrun=48), synthetic(8, max_overrun=48)
    report(f"{trace.tokens:,} tokens, {trace.prompts:,} texts; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    report(f"first look at the trace: {seconds(lambda: replay(trace, parse('none')), 1):.2f} s")
    _policies(trace, few)
    _sweep(trace)
    for what, cost in COSTS.items():
        report(f"oracle:optimal, {what}: {seconds(lambda cost=cost: simulate(trace, 'oracle:optimal', cost), 1):.2f} s")
    report(f"what `oracle stats` computes: {seconds(lambda: findings(trace), 1):.2f} s")
    _memory(trace)


def report(line: str) -> None:
    print(line, flush=True)


def _policies(trace: Trace, few: Trace) -> None:
    """A policy that learns on from one text to the next is walked text by text: of those a tenth is enough."""
    some = synthetic(max(1, trace.prompts // 10), max_overrun=48)
    for name in POLICIES:
        policy = parse(name)
        whole = some if facts(name).carries_over else trace
        count = len(replay(whole, policy).at)
        fast = seconds(lambda policy=policy, whole=whole: replay(whole, policy))
        walked = []
        slow = seconds(lambda policy=policy, walked=walked: walked.append(walk(few, policy)), 1)
        if walked[0] != len(replay(few, policy).at):
            raise RuntimeError(f"{name}: {walked[0]} iterations token by token, {len(replay(few, policy).at)} at once")
        speed = count / fast
        report(f"{name:20} {fast:7.3f} s {speed:12,.0f} iterations/s, {speed * slow / walked[0]:6,.0f} x the walk")


def _sweep(trace: Trace) -> None:
    caps = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)
    settings = [f"dynamic:threshold={value:.3f},tokens={cap}" for value in np.linspace(0.01, 0.99, 50) for cap in caps]
    taken = seconds(lambda: max(found.speedup for _, found in simulate_totals(trace, settings)), 1)
    report(f"a sweep of 50 thresholds x 12 caps, priced: {taken:.1f} s")


def _memory(trace: Trace) -> None:
    """Peak memory of a process that does nothing but load the trace (Linux: VmHWM, new with each process)."""
    with tempfile.TemporaryDirectory() as folder:
        write_meta(folder, trace.meta)
        records = list(iter_records(trace))
        for number, first in enumerate(range(0, len(records), 500)):
            write_part(folder, number, records[first : first + 500])
        code = (
            "import sys; from oracle.records.trace import Trace; t = Trace.load(sys.argv[1]); "
            "peak = open('/proc/self/status').read();"
            "print(t.tokens, int(peak.split('VmHWM:')[1].split()[0]) // 1024)"
        )
        tokens, peak = subprocess.run(
            [sys.executable, "-c", code, folder], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.split()
    report(f"loading {int(tokens):,} tokens from disk: {peak} MB at its peak")


if __name__ == "__main__":
    main()
