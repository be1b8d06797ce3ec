"""The README's first table: oracle SL and simulated speedups of traces, as Markdown.

python data/summarise.py COST.json TRACE...
"""

import sys

from analysis.cost import CostModel
from analysis.replay.simulate import simulate
from oracle.collect import summarize
from oracle.commands.numbers import interval_text
from oracle.records.trace import Trace

POLICIES = (
    "constant:tokens=2", "constant:tokens=5", "heuristic", "dynamic", "dynamic:threshold=0.8,tokens=20",
    "oracle:detect", "oracle:optimal",
)  # fmt: skip


def main(cost_file: str, *paths: str) -> None:
    prices = {"draft step 0.1, flat": CostModel(draft=0.1), "these two cores": CostModel.load(cost_file)}
    traces = {trace.meta["prompts"]["dataset"]: trace for trace in map(Trace.load, paths)}
    for name, trace in traces.items():
        s = summarize(trace)
        print(
            f"| {name} | {s.prompts} | {s.tokens:,} | {s.agreement:.1%}"
            f" | {s.detect_mean:.1f} ± {s.detect_sd:.1f} | {s.censored:.1%} |"
        )
    print()
    for policy in POLICIES:
        cells = []
        for trace in traces.values():
            for cost in prices.values():
                result = simulate(trace, policy, cost)
                cells.append(interval_text(result.speedup_estimate()))
        print(f"| `{policy}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
