"""Verdicts on traces whose truth is known: hardly a sentence is false.  The long count is a benchmark.

``tests/benchmarks/bench_truths.py`` counts many more; here are a few verdicts of each kind, so that a claim which is
wrong as a rule shows.
"""

import sys
from pathlib import Path

import pytest
from builders.truths import TRUTHS, known

from analysis.cost import CostModel
from analysis.examine import findings

sys.path.append(str(Path(__file__).parent / "benchmarks"))
from bench_truths import Truth, false_claims  # noqa: E402

COST = CostModel(draft=0.1)
SEEDS = {5: 2, 20: 1, 80: 1}  # verdicts by number of prompts


@pytest.mark.parametrize("kind", TRUTHS)
def test_hardly_a_claim_is_false(kind):
    truth = Truth.of(kind, COST, prompts=400)
    wrong = []
    for prompts, seeds in SEEDS.items():
        for seed in range(1000, 1000 + seeds):
            wrong += false_claims(findings(known(kind, prompts, seed), COST), truth)
    assert len(wrong) <= 1, wrong  # of some dozens


def test_what_is_there_is_found_with_eighty_prompts():
    found = {kind: findings(known(kind, 80, 7), COST).verdict for kind in ("between", "within", "signal")}
    assert found["between"].prompts_differ and not found["within"].prompts_differ
    assert found["within"].order_matters and not found["between"].order_matters
    assert found["signal"].foreseeable and found["signal"].advice.startswith("dynamic")
    assert found["signal"].predictable == "well" and found["between"].predictable == "hardly"


def test_where_the_draft_is_dear_the_first_sentence_says_so():
    found = findings(known("coins", 20, 7), CostModel(draft=1.5)).verdict
    assert found.advice == "none" and found.pays is False
    assert found.sentences[0].startswith("The draft does not pay")
