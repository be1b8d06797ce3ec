"""How often each sentence of a verdict is false on traces whose truth is known.

    python tests/benchmarks/bench_truths.py [--repeats 100]

For each truth (``tests/builders/truths.py``), 5, 20 and 80 prompts and two prices it counts, of the verdicts made, the
share in which each claim is false.  The truth of gains is that of 1,500 prompts of the same kind.

Measured at a draft cost of 0.1 only, with truths of 600 prompts: 40 verdicts at 5 prompts, 30 at 20 and 8 at 80 of each
of the five kinds, 390 in all (the flips of "coins" and "signal" are the same).  False were: i.i.d. rejected, 1 in 8 at
80 prompts (none in 70 below); order matters, 1 in 40 at 5 (coins); a constant per prompt pays, 1 in 40 at 5 (within);
every other claim never.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]  # the toolkit, the tests' builders

from builders.truths import TRUTHS, known  # noqa: E402

from analysis.cost import CostModel  # noqa: E402
from analysis.examine import Findings, findings  # noqa: E402
from analysis.gains.split import gains  # noqa: E402
from analysis.replay.sweep import Sweep, sweep  # noqa: E402
from analysis.verdict import NO_DRAFT  # noqa: E402

SAME = 0.003  # of the time: what a large trace leaves open is no difference


@dataclass(frozen=True)
class Truth:
    """What holds of a kind of trace, from many prompts."""

    kind: str
    swept: Sweep
    beyond: tuple[float, float]  # gain between and within prompts

    @staticmethod
    def of(kind: str, cost: CostModel, prompts: int = 1500) -> "Truth":
        trace = known(kind, prompts, seed=12345)
        split = gains(trace, cost).split
        return Truth(kind, sweep(trace, cost), (split.between.value, split.within.value))

    def speedup(self, policy: str) -> float:
        return next(each.speedup for each in self.swept.results if each.policy == policy)

    @property
    def best_gain(self) -> float:
        """Of the best setting over the best constant."""
        return self.swept.results[0].speedup / self.swept.best_constant().speedup


def false_claims(found: Findings, truth: Truth) -> list[str]:
    """Names of the claims of a verdict that are false."""
    said, best_constant = found.verdict, truth.swept.best_constant().speedup
    between, within = truth.kind in ("between", "both"), truth.kind in ("within", "both")
    wrong = {
        "i.i.d. rejected": said.iid_rejected is True and not (between or within),
        "prompts differ": said.prompts_differ is True and not between,
        "prompts alike": said.prompts_differ is False and truth.beyond[0] > 0.02 + SAME,
        "order matters": said.order_matters is True and not within,
        "order does not matter": said.order_matters is False and truth.beyond[1] > 0.02 + SAME,
        "constant per prompt pays": said.per_prompt is True and not between,
        "a policy beats the constant": said.foreseeable is True
        and truth.speedup(found.evidence.held_out.policy) < best_constant * (1 - SAME),
        "no more than hidden": truth.best_gain > found.evidence.held_out.hidden + SAME,
        "the draft pays": said.pays is True and truth.swept.results[0].speedup < 1 - SAME,
        "the draft does not pay": said.pays is False and truth.swept.results[0].speedup > 1 + SAME,
        "signals foretell": said.predictable in ("partly", "well") and truth.kind == "coins",
        "signals do not foretell": said.predictable == "hardly" and truth.kind == "signal",
        # To advise what loses: a policy that is slower than the target alone, or no draft where a draft pays and is
        # said not to.
        "advice": said.advice != NO_DRAFT and said.foreseeable is True and truth.speedup(said.advice) < 1 - SAME,
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def rates(truth: Truth, prompts: int, cost: CostModel, repeats: int) -> Counter:
    """How often each claim was false."""
    count: Counter = Counter()
    for seed in range(repeats):
        count.update(false_claims(findings(known(truth.kind, prompts, seed), cost), truth))
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    repeats = parser.parse_args().repeats
    for cost in (CostModel(draft=0.1), CostModel(draft=0.7)):
        for kind in TRUTHS:
            truth = Truth.of(kind, cost)
            for prompts in (5, 20, 80):
                found = rates(truth, prompts, cost, repeats)
                shares = ", ".join(f"{name} {number / repeats:.2f}" for name, number in found.items()) or "none"
                print(f"draft {cost.draft}, {kind}, {prompts} prompts: false {shares}", flush=True)


if __name__ == "__main__":
    main()
