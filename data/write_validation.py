"""Write data/results/VALIDATION.md from what ``oracle validate --json`` printed.

python data/write_validation.py
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from documents import deliver

from analysis.intervals import Estimate
from oracle.commands.numbers import interval_text

RESULTS = Path(__file__).parent / "results"
# File -> what was run, in the order shown.
RUNS = {
    "validation-demo": (
        "The embedded pair in float32, 6 repeats, nine minutes: `oracle validate --threads 1 --limit 8 --repeats 6 "
        "--median 0.02 --worst 0.05 --plot validation.png --json > validation-demo.json`."
    ),
    "validation-qwen-fp32": (
        "Qwen2.5-Coder-1.5B/0.5B in float32 on MBPP, measured when prices came from constant lengths: verifying three "
        "tokens cost as much as four, which is why prices are tables by count now."
    ),
    "validation-qwen-bf16": (
        "The same pair in bfloat16, on cores without arithmetic for it. A pass over several tokens rounds differently "
        "from one-token steps, so texts part at near-ties."
    ),
}

TEXT = """# Simulated against measured

Written by `python data/write_validation.py` from the answers of `oracle validate --json` beside it; do not edit.

**Counts.** Under greedy decoding the text is the target's own whatever the policy does, so one pass records all that a
policy could see or cause. The tests compare replay with transformers' own `generate(assistant_model=...)` in float32:
every (drafted, accepted) is equal, an EOS in the middle and limits of one token included.

**Seconds.** Prices are fitted on runs whose lookahead is drawn anew for each iteration (policy `random`): tables by
count, with standard errors that enter `simulate --cost`. `oracle validate` judges each half of the repeats by prices of
the other. A row passes or fails where its error's interval lies within or outside the budget, else it is *undecided*
(exit status 1 for a failure only). The *noise floor* is what a perfect simulator would show with as few texts.

**Intervals** are t intervals over prompts; those of a mean or an acceptance hold the truth in 93 to 97 % of samples
from 3 prompts on, the variance between prompts, from 20 on, in 85 to 94 % only
(`python tests/benchmarks/bench_coverage.py 400`). Spreads have no interval below 10 prompts.

![Simulated against measured speedups of the embedded pair](validation.png)
{sections}"""


def main() -> None:
    text = TEXT.format(sections="".join(_section(name, what) for name, what in RUNS.items()))
    deliver(text, RESULTS / "VALIDATION.md")


def _section(name: str, what: str) -> str:
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows = found["rows"]
    told = [_summary(found), *(_parted(row) for row in rows if row["divergences"])]
    bullets = "\n".join(f"- {line}" for line in told)
    return f"\n## `{name}.json`\n\n{what}\n\n{_table(rows)}\n\n{bullets}\n"


def _table(rows: list[dict[str, Any]]) -> str:
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    heads = [f"{name}: {column}" for name in datasets for column in ("simulated", "measured", "error [95 %]")]
    lines = [f"| policy | {' | '.join(heads)} |", "|" + "---|" * (len(heads) + 1)]
    for policy in dict.fromkeys(row["policy"] for row in rows):
        cells = [cell for row in rows if row["policy"] == policy for cell in _cells(row)]
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    speedups = [interval_text(_estimate(row[key])) for key in ("simulated", "measured")]
    error = row["error"]
    return [*speedups, f"{error['value']:+.1%} [{error['low']:+.1%}, {error['high']:+.1%}]"]


def _summary(found: dict[str, Any]) -> str:
    errors = sorted(abs(row["error"]["value"]) for row in found["rows"])
    same = min(row["identical"] for row in found["rows"])
    told = (
        f"The error is {statistics.median(errors):.1%} in the median and {errors[-1]:.1%} at worst; at least "
        f"{same:.1%} of the iterations are identical."
    )
    if "verdict" not in found:  # answers from before there were verdicts have none
        return told
    floor = [row["floor"] for row in found["rows"]]
    return f"{told} Verdict: *{found['verdict']}*; noise floor {min(floor):.1%} to {max(floor):.1%}."


def _parted(row: dict[str, Any]) -> str:
    margins = sorted(each["margin"] for each in row["divergences"])
    ties = sum(each["near_tie"] for each in row["divergences"])
    return (
        f"`{row['policy']}`: {len(margins)} of {row['prompts']} texts leave plain decoding's, {ties} at near-ties "
        f"(leads of {', '.join(f'{margin:.2g}' for margin in margins)})."
    )


def _estimate(stored: dict[str, Any]) -> Estimate:
    return Estimate(*(float("nan") if stored[key] is None else stored[key] for key in ("value", "low", "high")))


if __name__ == "__main__":
    main()
