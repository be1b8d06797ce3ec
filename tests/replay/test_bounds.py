"""No policy is cheaper in replay than the optimal oracle, at any prices: not even the target alone."""

import numpy as np
import pytest
from builders.reference import random_trace

from analysis.cost import CostModel
from analysis.replay.simulate import simulate


def some_prices(rng):
    costs = np.sort(rng.uniform(0.2, 4, 3))
    maybe = lambda value: None if rng.random() < 0.5 else value  # noqa: E731
    return CostModel(
        draft=rng.uniform(0, 2),
        draft_first=maybe(rng.uniform(0, 3)),
        draft_context=rng.uniform(0, 0.01) * (rng.random() < 0.5),
        verify=tuple(zip((1, 3, 9), costs.tolist(), strict=True)),
        verify_context=rng.uniform(0, 0.05),  # often several times that of a plain step
        iteration=rng.uniform(0, 2),
        plain=maybe(rng.uniform(0.1, 3)),
        plain_context=maybe(rng.uniform(0, 0.02)),
    )


@pytest.mark.parametrize("hits", [0.0, 0.5, 0.95, 1.0])
def test_nothing_is_cheaper_than_the_optimal_oracle(hits):
    rng = np.random.default_rng(5)
    for seed in range(12):
        trace, cost = random_trace(seed, prompts=4, longest=30, hits=hits), some_prices(rng)
        best = simulate(trace, "oracle:optimal", cost).prompt_seconds
        for policy in ("none", "constant:tokens=1", "constant:tokens=7", "heuristic:tokens=5", "oracle:detect"):
            assert np.all(best <= simulate(trace, policy, cost).prompt_seconds + 1e-9), (policy, cost)
