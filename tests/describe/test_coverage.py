"""How often the intervals hold the truth, and that what should be nothing where there is nothing is 0 on average.

Small simulations with fixed seeds; ``tests/benchmarks/bench_coverage.py`` is the long version.
"""

import numpy as np
import pytest
from builders.populations import Population, calibrated, coverage

from analysis.describe import statistics
from analysis.describe.calibration import calibration_error
from analysis.describe.signals import auc

PROMPTS = (3, 5, 10, 20, 60)


@pytest.fixture(scope="module", params=["iid", "between", "both"])
def population(request):
    return request.param, Population.of(request.param, prompts=2000)


def numbers(sample):
    averages, cut = statistics.averages(sample), statistics.censoring(sample)
    summary, spread = statistics.summarise(sample, resamples=2), statistics.heterogeneity(sample)
    return {
        "mean": averages.over_iterations,
        "mean over positions": averages.over_positions,
        "acceptance rate": statistics.acceptance_rate(sample),
        "iterations cut": cut.iterations,
        "lag 1": spread.lag1,
        "design effect": spread.design_effect,
        "SD": summary.sd,
        "dispersion": summary.dispersion,
        "between": spread.between,
        "within": spread.within,
    }


@pytest.mark.parametrize("prompts", PROMPTS)
def test_intervals_hold_the_truth(population, prompts):
    kind, source = population
    found = coverage(source, numbers, prompts, draws=150)
    # 150 draws hold .95 to within .05 in nearly all of so many cells.
    for name in ("mean", "mean over positions", "acceptance rate", "iterations cut", "lag 1"):
        assert found[name] >= 0.87, (name, found)
    assert np.isnan(found["SD"]) if prompts < 10 else found["SD"] >= 0.86
    for name in ("dispersion", "between", "within"):
        assert np.isnan(found[name]) if prompts < 20 else found[name] >= 0.82, (name, found)


@pytest.mark.parametrize("prompts", [5, 20])
@pytest.mark.parametrize("kind", ["iid", "between"])
def test_what_should_be_nothing_is_0_on_average(kind, prompts):
    """Iterations' intra-class correlation is .12 where nothing differs, a pooled lag 1 -.19 where prompts do."""
    source, rng = Population.of(kind, prompts=4000, tokens=64, seed=3), np.random.default_rng(prompts)
    found = [statistics.heterogeneity(source.draw(rng, prompts)) for _ in range(1500 // prompts)]
    for name in ("within", "lag1") + (("between",) if kind == "iid" else ()):
        values = np.array([getattr(each, name).value for each in found])
        assert abs(values.mean()) < 3 * values.std() / np.sqrt(len(values)) + 0.003, name


@pytest.mark.parametrize("prompts", PROMPTS)
@pytest.mark.parametrize("tilt", [1.0, 0.7])
def test_calibration_errors_interval_holds_the_truth(prompts, tilt):
    rng, bins = np.random.default_rng(prompts), 15
    gaps = gaps_of(*calibrated(rng, 20_000, tilt=tilt), bins)
    truth = 0.0 if tilt == 1 else np.abs(gaps.sum(axis=0)).sum() / (20_000 * 64)
    chosen = rng.integers(len(gaps), size=(200, prompts))
    found = [calibration_error(gaps[each], np.full(prompts, 64)) for each in chosen]
    assert np.mean([each.low <= truth <= each.high for each, _ in found]) >= 0.90
    values, if_perfect = np.array([[each.value, perfect] for each, perfect in found]).T
    if tilt == 1:
        assert values.mean() == pytest.approx(if_perfect.mean(), rel=0.15)
    elif prompts >= 10:
        assert values.mean() == pytest.approx(truth, rel=0.08)


def gaps_of(scores, outcomes, bins):
    """Sums of score minus outcome by prompt and bin, float [P, bins]."""
    cell = np.arange(len(scores))[:, None] * bins + np.minimum((scores * bins).astype(int), bins - 1)
    wrong = np.bincount(cell.ravel(), (scores - outcomes).ravel(), minlength=len(scores) * bins)
    return wrong.reshape(len(scores), bins)


@pytest.mark.parametrize("prompts", PROMPTS)
def test_aucs_interval_holds_the_truth(prompts):
    rng = np.random.default_rng(prompts)
    scores, outcomes = calibrated(rng, 3000)
    truth = auc(scores.ravel(), outcomes.ravel(), np.repeat(np.arange(3000), 64)).value
    held, prompt = [], np.repeat(np.arange(prompts), 64)
    for _ in range(200):
        chosen = rng.integers(3000, size=prompts)
        found = auc(scores[chosen].ravel(), outcomes[chosen].ravel(), prompt)
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.89
