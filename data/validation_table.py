"""The README's tables of simulated and measured speedups, as Markdown, from what ``oracle validate --json`` printed.

python data/validation_table.py data/results/validation-demo.json
"""

import json
import sys
from pathlib import Path

from analysis.intervals import Estimate
from oracle.commands.numbers import interval_text


def main(*files: str) -> None:
    for file in files:
        found = json.loads(Path(file).read_text(encoding="utf-8"))
        datasets = list(dict.fromkeys(row["dataset"] for row in found["rows"]))
        heads = [f"{name}: {column}" for name in datasets for column in ("simulated", "measured", "error [95 %]")]
        print(f"| policy | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
        for policy in dict.fromkeys(row["policy"] for row in found["rows"]):
            cells = []
            for row in found["rows"]:
                if row["policy"] == policy:
                    speedups = [interval_text(_estimate(row[key])) for key in ("simulated", "measured")]
                    error = row["error"]
                    cells += [*speedups, f"{error['value']:+.1%} [{error['low']:+.1%}, {error['high']:+.1%}]"]
            print(f"| `{policy}` | {' | '.join(cells)} |")
        errors = sorted(abs(row["error"]["value"]) for row in found["rows"])
        middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
        same = min(row["identical"] for row in found["rows"])
        print(f"\nmedian {middle:.1%}, worst {errors[-1]:.1%}; at least {same:.1%} of the iterations are identical")
        if "verdict" in found:  # answers from before there were verdicts have none
            floor = [row["floor"] for row in found["rows"]]
            print(f"{found['verdict']}; noise floor {min(floor):.1%} to {max(floor):.1%}")
        for row in found["rows"]:
            if row["divergences"]:
                margins = [each["margin"] for each in row["divergences"]]
                ties = sum(each["near_tie"] for each in row["divergences"])
                print(
                    f"{row['policy']}: {len(margins)} of {row['prompts']} texts leave plain decoding's, {ties} at "
                    f"near-ties, leads {', '.join(f'{margin:.2g}' for margin in sorted(margins))}"
                )


def _estimate(stored: dict) -> Estimate:
    return Estimate(*(float("nan") if stored[key] is None else stored[key] for key in ("value", "low", "high")))


if __name__ == "__main__":
    main(*sys.argv[1:])
