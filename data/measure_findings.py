"""Store what a trace says, in numbers without any text, for data/results/FINDINGS.md.

python data/measure_findings.py NAME TRACE [COST.json]     (then: python data/write_findings.py)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oracle
from analysis.cost import CostModel
from analysis.examine import findings
from analysis.ladder import words
from oracle.collect import summarize
from oracle.commands.programs import plain

FOLDER = Path(__file__).parent / "results" / "findings"
TEXTBOOK = "a draft step of 0.1 target steps, verification of any length for one"
MEASURED = "the prices that were measured on the machine"


def main(name: str, folder: str, cost_file: str | None = None) -> None:
    trace = oracle.Trace.load(folder)
    prices = {TEXTBOOK: CostModel(draft=0.1)}
    if cost_file is not None:
        prices[MEASURED] = CostModel.load(cost_file)
    meta = trace.meta
    found = {
        "collected": plain(summarize(trace)),
        "dtype": meta["dtype"],
        "reference": meta.get("reference"),
        "max_new_tokens": meta["max_new_tokens"],
        "prices": {text: _priced(trace, cost) for text, cost in prices.items()},
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, allow_nan=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def _priced(trace: oracle.Trace, cost: CostModel) -> dict[str, Any]:
    """The ladder, what tuning finds, and the verdict, at these prices."""
    climbed, tuned = oracle.ladder(trace, cost), oracle.tune(trace, cost)
    names = ("policy", "speedup", "over_constant", "constant", "optimism", "tried", "sentences")
    return {
        "steps": _in_steps(cost, float(trace.context.mean())),
        "ladder": plain(climbed),
        "headroom": words.headroom_sentence(climbed),
        "tuned": {each: plain(getattr(tuned, each)) for each in names} | {"group": len(tuned.group)},
        "verdict": list(findings(trace, cost).verdict.sentences),
    }


def _in_steps(cost: CostModel, context: float) -> dict[str, dict[str, float]]:
    """What drafting and verifying some counts of tokens cost at a context of the usual length, in target steps."""

    def each(price: Callable[[np.ndarray], np.ndarray], counts: tuple[int, ...]) -> dict[str, float]:
        found = price(np.array(counts)) / float(cost.step(context))
        return {str(count): round(float(value), 3) for count, value in zip(counts, found, strict=True)}

    return {
        "drafting": each(lambda counts: cost.drafting(counts, context), (1, 2, 5, 10)),
        "verifying": each(lambda counts: cost.verification(counts) + cost.verify_context * context, (2, 3, 6, 11)),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
