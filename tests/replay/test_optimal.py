"""The optimal oracle against every way of drafting, and in time that grows with the text only."""

import itertools
import time

import numpy as np
import pytest
from builders.reference import random_trace
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.replay import oracles
from analysis.replay.simulate import simulate

COSTS = [
    CostModel(draft=0.1),
    CostModel(draft=0.02, draft_first=0.5, iteration=0.3, plain=0.9),
    CostModel(draft=0.2, plain=1.7),  # a round of none is cheaper than a step without a draft
    CostModel(draft=0.05, draft_context=0.01, verify=((1, 1.0), (3, 2.5), (4, 2.6)), verify_context=0.02),
    CostModel(draft=0.0, verify=((1, 1.0), (2, 1.0), (5, 3.0), (9, 3.0), (40, 9.0)), plain=1.1, plain_context=0.001),
    CostModel(draft=0.01, draft_phase=((1, 0.3), (2, 0.3), (4, 1.1), (7, 1.2)), iteration=0.1, plain=0.9),
    CostModel(
        draft=0.3, draft_phase=((1, 0.1),), draft_context=0.001, verify=((1, 1.0), (2, 1.4), (3, 1.4), (12, 1.5))
    ),
]


def cheapest(run, cost, context):
    """Cheapest way to produce one text, by trying every draft at every position."""
    best = [0.0] * (len(run) + 1)
    for at in reversed(range(len(run))):
        rounds = (float(cost.round(np.int64(k), context[at])) + best[at + k + 1] for k in range(int(run[at]) + 1))
        best[at] = min(float(cost.step(context[at])) + best[at + 1], *rounds)
    return best[0]


@pytest.mark.parametrize("few", [0, 10**6], ids=["side by side", "one by one"])
@pytest.mark.parametrize("cost", COSTS, ids=range(len(COSTS)))
def test_no_way_of_drafting_is_cheaper(cost, few, monkeypatch):
    monkeypatch.setattr(oracles, "_FEW", few)
    for seed in range(8):
        t = random_trace(seed, prompts=6, longest=40, hits=0.9)
        found = simulate(t, "oracle:optimal", cost)
        pieces = [slice(*ends) for ends in itertools.pairwise(t.offsets)]
        expected = [cheapest(t.accepted_run[piece], cost, t.context[piece]) for piece in pieces]
        assert found.prompt_seconds == pytest.approx(expected, rel=1e-12)
        assert np.array_equal(found.drafted, found.accepted)
        assert np.all(found.prompt_seconds <= simulate(t, "none", cost).prompt_seconds + 1e-12)


def test_where_drafting_never_pays_it_is_plain_decoding():
    t = trace(pattern("++++-++"))
    cost = CostModel(draft=2.0, iteration=0.5, plain=0.8)
    assert simulate(t, "oracle:optimal", cost).speedup == pytest.approx(1.0)
    assert simulate(t, "oracle:optimal", cost).drafted.tolist() == [0] * 7


@pytest.mark.parametrize("cost", [COSTS[0], COSTS[3], COSTS[4], COSTS[5]], ids=["flat", "context", "curve", "table"])
def test_a_run_of_hundreds_of_thousands_of_tokens(cost):
    t = trace(pattern("+" * 300_000))
    assert t.accepted_run[0] == 299_999
    begun = time.process_time()
    found = simulate(t, "oracle:optimal", cost)
    # Quadratic, it took most of a minute; the bound is far from what it takes, so that a slow machine passes too.
    assert time.process_time() - begun < 15
    assert found.tokens == 300_000
    if cost is COSTS[0]:
        assert found.drafted.tolist() == [299_999]  # one verification for all
