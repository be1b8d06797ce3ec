"""Families against exact values, fits against the truth that drew the data, samples without an ordinary answer."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from analysis.describe.statistics import acceptance_rate
from analysis.fit import estimation
from analysis.fit.distributions import FAMILIES, Counts, Fit, best, fit, fit_all, goodness_of_fit, kaplan_meier
from analysis.fit.families import Poisson
from analysis.fit.series import cumulative
from analysis.intervals import Estimate
from analysis.plots.samples import counts_of
from tests.builders.flips import beta, sample
from tests.builders.synthetic import synthetic

TRUTH = {
    "geometric": (0.7,),
    "zero-inflated-geometric": (0.2, 0.8),
    "geometric-mixture": (0.5, 0.92, 0.3),
    "beta-geometric": (0.6, 0.25),
    "negative-binomial": (3.0, 2.0),
    "discrete-weibull": (2.0, 0.7),
}
TAIL = np.array([0, 1, 2, 10, 1_000, 1_023, 1_024, 1_025, 5_000, 10**6], dtype=float)


def draw(name: str, theta: tuple[float, ...], n: int, rng: np.random.Generator) -> np.ndarray:
    """Accepted lengths [n] by a route that shares nothing with the formulas under test."""
    if name == "geometric":
        return rng.geometric(1 - theta[0], n) - 1
    if name == "zero-inflated-geometric":
        return np.where(rng.random(n) < theta[0], 0, rng.geometric(1 - theta[1], n) - 1)
    if name == "geometric-mixture":
        return rng.geometric(1 - np.where(rng.random(n) < theta[2], theta[1], theta[0])) - 1
    if name == "beta-geometric":
        acceptance = rng.beta(theta[0] / theta[1], (1 - theta[0]) / theta[1], n)
        return np.minimum(rng.geometric(np.maximum(1 - acceptance, 1e-7)) - 1, 10**6)
    if name == "negative-binomial":
        return rng.negative_binomial(1 / theta[1], 1 / (1 + theta[0] * theta[1]), n)
    return np.ceil(theta[0] * rng.exponential(size=n) ** (1 / theta[1])).astype(int) - 1


def cut(lengths: np.ndarray, at: np.ndarray | int) -> Counts:
    """What is left when a run that would have reached ``at`` is only known to have got there."""
    return Counts.from_samples(np.minimum(lengths, at), lengths >= at)


@pytest.fixture(autouse=True)
def log_of_zero_is_minus_infinity():
    with np.errstate(divide="ignore", over="ignore"):
        yield


def exactly(log_value: np.ndarray, expected: list[float]) -> None:
    np.testing.assert_allclose(log_value, expected, rtol=1e-9, atol=1e-14)


# --- the mathematics of the families ------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_probabilities_sum_to_survival_and_start_at_one(name):
    k = np.arange(400.0)
    pmf, survival = np.exp(FAMILIES[name].log_pmf(TRUTH[name], k)), np.exp(FAMILIES[name].log_survival(TRUTH[name], k))
    assert survival[0] == 1
    np.testing.assert_allclose(pmf[:-1], survival[:-1] - survival[1:], atol=1e-13)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "beta-geometric"])
def test_moments_are_those_of_the_probabilities(name):
    k = np.arange(20_000.0)
    pmf = np.exp(FAMILIES[name].log_pmf(TRUTH[name], k))
    mean, variance = FAMILIES[name].moments(TRUTH[name])
    assert mean == pytest.approx(pmf @ k, rel=1e-8)
    assert variance == pytest.approx(pmf @ (k - mean) ** 2, rel=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.9, 1.0])
def test_every_family_contains_the_geometric(name, acceptance):
    k = np.arange(60.0)
    family, plain = FAMILIES[name], FAMILIES["geometric"]
    theta = family.at_geometric(acceptance)
    np.testing.assert_allclose(
        family.log_survival(theta, k), plain.log_survival((acceptance,), k), rtol=1e-12, atol=1e-15
    )
    assert np.allclose(np.exp(family.log_pmf(theta, k)), np.exp(plain.log_pmf((acceptance,), k)), atol=1e-15)


def test_beta_geometric_tail_is_an_exact_rational_number():
    # acceptance ~ Beta(2, 5): P(SL >= c) = B(2 + c, 5) / B(2, 5) = 720 / ((c + 2) ... (c + 6))
    theta = (2 / 7, 1 / 7)
    exact = [Fraction(720, math.prod(int(c) + i for i in range(2, 7))) for c in TAIL]
    survival = FAMILIES["beta-geometric"].log_survival(theta, TAIL)
    exactly(survival, [math.log(f.numerator) - math.log(f.denominator) for f in exact])
    assert survival[-1] == pytest.approx(-62.5, abs=0.01)  # scipy's betanbinom says -36.7
    hazard = [math.log(5) - math.log(7 + c) for c in TAIL]
    exactly(FAMILIES["beta-geometric"].log_pmf(theta, TAIL), survival + hazard)


@pytest.mark.parametrize("size", [1e6, 3e9, 3e15, 1e300])
def test_beta_geometric_with_huge_shapes_is_geometric(size):
    # shapes (size / 3, 2 size / 3): acceptance 1/3 whatever the size
    log_pmf = FAMILIES["beta-geometric"].log_pmf((1 / 3, 1 / size), np.array([0.0, 1.0, 5.0]))
    np.testing.assert_allclose(
        log_pmf, [math.log(2 / 3) + k * math.log(1 / 3) for k in (0, 1, 5)], rtol=20 / size + 1e-15
    )


def test_negative_binomial_tail_with_size_two_has_a_closed_form():
    # size 2, q = 2/3: P(SL = k) = (k + 1) q^k (1 - q)^2 and P(SL >= k) = q^k (1 + k (1 - q))
    theta, q = (4.0, 0.5), 2 / 3
    exactly(
        FAMILIES["negative-binomial"].log_pmf(theta, TAIL),
        [math.log(k + 1) + k * math.log(q) + 2 * math.log(1 / 3) for k in TAIL],
    )
    exactly(
        FAMILIES["negative-binomial"].log_survival(theta, TAIL), [k * math.log(q) + math.log(1 + k / 3) for k in TAIL]
    )


@pytest.mark.parametrize("mean", [1e-3, 3.0, 1000.0])
def test_negative_binomial_with_dispersion_one_is_geometric_in_the_far_tail(mean):
    expected = [k * -math.log1p(1 / mean) for k in TAIL]
    exactly(FAMILIES["negative-binomial"].log_survival((mean, 1.0), TAIL), expected)
    exactly(FAMILIES["negative-binomial"].log_pmf((mean, 1.0), TAIL), [e - math.log1p(mean) for e in expected])


def test_negative_binomial_and_poisson_agree_with_scipy():
    k = np.arange(1.0, 80.0)
    reference = stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * 4))
    np.testing.assert_allclose(FAMILIES["negative-binomial"].log_pmf((4, 0.7), k), reference.logpmf(k), rtol=1e-10)
    np.testing.assert_allclose(
        FAMILIES["negative-binomial"].log_survival((4, 0.7), k), reference.logsf(k - 1), rtol=1e-9
    )
    np.testing.assert_allclose(Poisson().log_pmf((4,), k), stats.poisson(4).logpmf(k), rtol=1e-10)
    np.testing.assert_allclose(Poisson().log_survival((4,), k), stats.poisson(4).logsf(k - 1), rtol=1e-9)


@pytest.mark.parametrize("name", ["geometric", "zero-inflated-geometric", "geometric-mixture"])
def test_geometric_tails(name):
    a, tail = TRUTH[name], TAIL[1:]
    expected = {
        "geometric": tail * math.log(0.7),
        "zero-inflated-geometric": math.log(0.8) + tail * math.log(0.8),
        # log(0.3 * 0.92^k + 0.7 * 0.5^k), the larger term taken out by hand
        "geometric-mixture": [math.log(0.3) + k * math.log(0.92) + math.log1p(7 / 3 * (0.5 / 0.92) ** k) for k in tail],
    }
    exactly(FAMILIES[name].log_survival(a, tail), expected[name])


def test_discrete_weibull_tail_and_pmf():
    scale, shape = 4.0, 0.5
    exactly(FAMILIES["discrete-weibull"].log_survival((scale, shape), TAIL), [-math.sqrt(k / 4) for k in TAIL])
    # sqrt(k + 1) - sqrt(k) = 1 / (sqrt(k + 1) + sqrt(k)) without cancellation
    rises = [0.5 / (math.sqrt(k + 1) + math.sqrt(k)) for k in TAIL]
    expected = [-math.sqrt(k / 4) + math.log(-math.expm1(-r)) for k, r in zip(TAIL, rises, strict=True)]
    exactly(FAMILIES["discrete-weibull"].log_pmf((scale, shape), TAIL), expected)


def test_cumulative_sums_beyond_the_dense_part():
    # sum of log((j + 3) / (j + 1)) telescopes to log((k + 1)(k + 2) / 2)
    exactly(cumulative(lambda j: np.log1p(2 / (j + 1)), TAIL), [math.log((k + 1) * (k + 2) / 2) for k in TAIL])


# --- count tables and Kaplan-Meier --------------------------------------------------------------------------


def test_counts_from_samples():
    counts = Counts.from_samples([0, 2, 2, 3], [False, False, True, True])
    assert counts.events.tolist() == [1, 0, 1, 0]
    assert counts.censored.tolist() == [0, 0, 1, 1]
    assert (counts.n, counts.accepted) == (4, 7)
    assert Counts.from_samples([]).n == 0
    assert counts.cut_at(2).events.tolist() == [1, 0, 0] and counts.cut_at(2).censored.tolist() == [0, 0, 3]


@pytest.mark.parametrize("values", [[-1], [0.5], [math.nan], [math.inf], ["a"], [[1]], [10**9]])
def test_counts_refuse_what_is_not_a_length(values):
    with pytest.raises(ValueError, match="length|one-dimensional"):
        Counts.from_samples(values)


def test_counts_refuse_tables_that_do_not_fit():
    with pytest.raises(ValueError, match="3 entries"):
        Counts(np.array([1, 2, 3]), np.array([0]))
    with pytest.raises(ValueError, match="whole numbers"):
        Counts(np.array([1, -2]), np.array([0, 0]))
    with pytest.raises(ValueError, match="equally long"):
        Counts.from_samples([1, 2], [True])


def test_kaplan_meier_by_hand():
    # 1 ends at 0, one cut at 1, one ends at 1, one cut at 2, one ends at 3
    km = kaplan_meier(Counts.from_samples([0, 1, 1, 2, 3], [0, 1, 0, 1, 0]))
    assert km.at_risk.tolist() == [5, 3, 1, 1]  # the run cut at 1 says nothing about ending at 1
    np.testing.assert_allclose(km.hazard, [1 / 5, 1 / 3, 0, 1])
    np.testing.assert_allclose(km.survival, [1, 4 / 5, 8 / 15, 8 / 15])
    # Greenwood on the log(-log) scale: var log S(2) = 1/(5*4) + 1/(3*2)
    width = 1.959964 * math.sqrt(1 / 20 + 1 / 6) / math.log(15 / 8)
    assert km.low[2] == pytest.approx((8 / 15) ** math.exp(width), rel=1e-5)
    assert km.high[2] == pytest.approx((8 / 15) ** math.exp(-width), rel=1e-5)
    assert km.restricted_mean == pytest.approx(4 / 5 + 16 / 15)


def test_kaplan_meier_without_censoring_is_the_empirical_survival():
    lengths = np.random.default_rng(0).geometric(0.3, 500) - 1
    km = kaplan_meier(Counts.from_samples(lengths))
    np.testing.assert_allclose(km.survival, [(lengths >= k).mean() for k in km.k])
    assert km.restricted_mean == pytest.approx(lengths.mean())


def test_kaplan_meier_sees_through_censoring():
    lengths = np.random.default_rng(1).geometric(0.2, 20_000) - 1
    km = kaplan_meier(cut(lengths, np.random.default_rng(2).integers(1, 20, 20_000)))
    truth = 0.8**km.k
    assert np.mean((km.low <= truth) & (truth <= km.high)) > 0.8
    assert np.all(np.isfinite([km.low, km.high]))


@pytest.mark.parametrize("values, censored", [([], []), ([0, 0], [0, 0]), ([7, 7], [1, 1]), ([5], [0])])
def test_kaplan_meier_has_no_nan(values, censored):
    km = kaplan_meier(Counts.from_samples(values, censored))
    assert all(np.all(np.isfinite(column)) for column in vars(km).values())


# --- fits ---------------------------------------------------------------------------------------------------


def test_geometric_support_starts_at_zero():
    found = fit(Counts.from_samples([0, 0, 0, 1]), "geometric")
    assert found.theta == (1 / 5,)
    assert found.log_likelihood == pytest.approx(4 * math.log(4 / 5) + math.log(1 / 5))
    assert found.aic == pytest.approx(2 - 2 * found.log_likelihood)
    assert found.bic == pytest.approx(math.log(4) - 2 * found.log_likelihood)
    assert (found.mean_accepted, found.mean_detect, found.convention) == (
        pytest.approx(0.25),
        pytest.approx(1.25),
        "accepted",
    )


def test_a_run_cut_at_c_contributes_at_least_c():
    counts = cut(np.random.default_rng(0).geometric(0.2, 20_000) - 1, 4)
    naive = fit(Counts(counts.events + counts.censored, np.zeros_like(counts.events)), "geometric").theta[0]
    found = fit(counts, "geometric")
    assert found.theta[0] == pytest.approx(0.80, abs=0.01)  # "more than c" instead of "at least c" would give 0.83
    assert found.parameters["acceptance"].low < 0.8 < found.parameters["acceptance"].high
    assert naive < 0.75
    ended = counts.events.sum()
    assert found.theta[0] == counts.accepted / (counts.accepted + ended)


def test_geometric_interval_is_the_normal_one_on_the_logit_scale():
    found = fit(Counts(np.array([60, 0, 20]), np.array([0, 10, 10])), "geometric").parameters["acceptance"]
    accepted, ended = 20 * 2 + 10 + 20, 80
    centre, width = math.log(accepted / ended), 1.959964 * math.sqrt(1 / accepted + 1 / ended)
    assert found.low == pytest.approx(1 / (1 + math.exp(width - centre)), rel=1e-5)
    assert found.high == pytest.approx(1 / (1 + math.exp(-width - centre)), rel=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("censoring", [False, True])
def test_parameters_are_recovered_at_the_nominal_rate(name, censoring):
    truth, seeds, n = TRUTH[name], 20, 4_000
    inside = np.zeros(len(truth), dtype=int)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        found = fit(cut(draw(name, truth, n, rng), rng.integers(1, 25, n) if censoring else 10**7), name)
        assert found.status == "ok"
        inside += [each.low <= value <= each.high for each, value in zip(found.parameters.values(), truth, strict=True)]
    assert inside.min() >= 16  # 95 % of 20 is 19; 15 or fewer has a chance of 0.3 %


@pytest.mark.parametrize("name", FAMILIES)
def test_maximum_cannot_be_improved_nearby(name):
    rng = np.random.default_rng(3)
    counts = cut(draw(name, TRUTH[name], 3_000, rng), rng.integers(1, 30, 3_000))
    found = fit(counts, name)
    k = np.arange(counts.events.size, dtype=float)

    def log_likelihood(theta):
        family = FAMILIES[name]
        return counts.events @ family.log_pmf(theta, k) + counts.censored @ family.log_survival(theta, k)

    assert found.log_likelihood == pytest.approx(log_likelihood(found.theta), abs=1e-8)
    for i in range(len(found.theta)):
        for factor in (0.999, 1.001):
            moved = [value * (factor if i == j else 1) for j, value in enumerate(found.theta)]
            assert log_likelihood(moved) < found.log_likelihood + 1e-9


def test_negative_binomial_agrees_with_scipy_likelihood():
    lengths = np.random.default_rng(4).negative_binomial(0.6, 0.2, 2_000)
    found = fit(Counts.from_samples(lengths), "negative-binomial")
    mean, dispersion = found.theta
    assert mean == pytest.approx(lengths.mean(), rel=1e-5)  # the estimate of the mean is the mean
    assert found.log_likelihood == pytest.approx(
        stats.nbinom(1 / dispersion, 1 / (1 + dispersion * mean)).logpmf(lengths).sum(), rel=1e-10
    )


def test_zero_inflated_geometric_agrees_with_its_closed_form():
    lengths = draw("zero-inflated-geometric", (0.3, 0.8), 5_000, np.random.default_rng(5))
    later = lengths[lengths > 0]
    acceptance = (later - 1).sum() / ((later - 1).sum() + later.size)
    found = fit(Counts.from_samples(lengths), "zero-inflated-geometric")
    assert found.theta == (
        pytest.approx(1 - (lengths > 0).mean() / acceptance, abs=1e-5),
        pytest.approx(acceptance, abs=1e-6),
    )


@pytest.mark.parametrize("name", [name for name in TRUTH if name != "beta-geometric"])
def test_mean_of_the_fit_is_the_mean_of_the_sample(name):
    lengths = draw(name, TRUTH[name], 20_000, np.random.default_rng(6))
    found = fit(Counts.from_samples(lengths), name)
    assert found.mean == pytest.approx(lengths.mean(), rel=0.02)
    assert found.sd == pytest.approx(lengths.std(), rel=0.05)


@pytest.mark.parametrize("name", TRUTH)
def test_the_family_that_drew_the_data_has_the_smallest_aic(name):
    lengths = draw(name, TRUTH[name], 20_000, np.random.default_rng(7))
    fits = fit_all(Counts.from_samples(lengths))
    assert best(fits).family == name
    assert fits[0].family == "geometric"
    assert min(each.delta_aic for each in fits) == 0


def test_infinite_mean_is_flagged():
    # acceptance ~ Beta(1, 0.5) per iteration: mean of acceptance / (1 - acceptance) diverges
    lengths = draw("beta-geometric", (2 / 3, 2 / 3), 5_000, np.random.default_rng(8))
    found = fit(cut(lengths, 500), "beta-geometric")
    assert math.isinf(found.mean) and "infinite" in found.note


# --- samples without an ordinary answer ---------------------------------------------------------------------


def check_sound(found: Fit) -> None:
    """Nothing non-finite without a word about it."""
    assert np.isfinite([found.log_likelihood, found.aic, found.bic]).all()
    assert not math.isnan(found.mean + found.sd)
    assert math.isfinite(found.mean) or "infinite" in found.note
    for each in found.parameters.values():
        assert each.low <= each.value <= each.high
        assert math.isfinite(each.value) or found.note


@pytest.mark.parametrize("values", [[0] * 50, [3] * 50, [0], [5], [3, 3, 4, 4], [0, 0, 1, 5, 200_000], [0] * 9 + [1]])
@pytest.mark.parametrize("name", FAMILIES)
def test_odd_samples_end_well(values, name):
    found = fit(Counts.from_samples(values), name)
    check_sound(found)
    assert found.log_likelihood >= fit(Counts.from_samples(values), "geometric").log_likelihood - 1e-6
    goodness = goodness_of_fit(Counts.from_samples(values), found, draws=3)
    assert (goodness.status == "ok") == math.isfinite(goodness.p)


def test_all_zeros():
    first, *others = fit_all(Counts.from_samples([0] * 50))
    assert first.parameters["acceptance"] == Estimate(0, 0, pytest.approx(1 - math.exp(-1.9207 / 50), abs=1e-5))
    assert (first.log_likelihood, first.mean, first.status) == (0, 0, "boundary: every value is 0")
    assert all(each.status == "degenerate: every value is 0" for each in others)
    assert first.log_sf([0, 1]).tolist() == [0, -math.inf]


def test_constant_sample_and_single_value():
    for values, acceptance in (([3] * 50, 3 / 4), ([5], 5 / 6)):
        first, *others = fit_all(Counts.from_samples(values))
        assert first.theta == (pytest.approx(acceptance),) and first.status == "ok"
        assert all(each.status == f"degenerate: every value is {values[0]}" for each in others)
        for other in others:
            if "acceptance" in other.parameters:
                found, expected = (dataclasses.astuple(each.parameters["acceptance"]) for each in (other, first))
                assert found == pytest.approx(expected)


def test_perfect_draft_where_every_run_is_censored():
    first, *others = fit_all(Counts.from_samples([7, 7, 7], [True] * 3))
    assert first.theta == (1,) and first.parameters["acceptance"].low == pytest.approx(math.exp(-1.9207 / 21), abs=1e-5)
    assert first.log_likelihood == 0 and math.isinf(first.mean) and first.note == "the fitted mean is infinite"
    assert first.status.startswith("boundary: every run is censored")
    for other in others:
        check_sound(other)
        assert other.status.startswith("degenerate: every run is censored") and other.log_likelihood == 0


@pytest.mark.parametrize("counts", [Counts.from_samples([]), Counts.from_samples([0, 0], [True, True])])
def test_no_data(counts):
    assert fit_all(counts) == []
    found = fit(counts, "geometric")
    assert found.status == "no data" and found.parameters == {}
    assert goodness_of_fit(counts, found).status == "not tested: no data"
    with pytest.raises(ValueError, match="saw no data"):
        found.log_pmf(0)


@pytest.mark.parametrize("lengths", [
    np.random.default_rng(0).binomial(10, 0.5, 300),
    # Poisson itself is the edge; this seed varies a little less than its mean
    next(x for s in range(20) if (x := np.random.default_rng(s).poisson(3, 300)).var() < 0.97 * x.mean()),
])  # fmt: skip
def test_under_dispersed_data_end_at_the_poisson_limit(lengths):
    fits = {each.family: each for each in fit_all(Counts.from_samples(lengths))}
    found = fits["negative-binomial"]
    assert found.status == "boundary: Poisson limit"
    assert found.parameters["mean"].value == pytest.approx(lengths.mean(), rel=1e-4)
    dispersion = found.parameters["dispersion"]
    assert dispersion.value == dispersion.low == 0 and 0 < dispersion.high < 0.1
    assert found.log_likelihood == pytest.approx(stats.poisson(lengths.mean()).logpmf(lengths).sum(), rel=1e-8)
    assert best(list(fits.values())).family != "negative-binomial"
    for each in fits.values():
        check_sound(each)


@pytest.mark.parametrize("seed", range(4))
def test_pure_geometric_sample_earns_no_extra_parameter(seed):
    fits = {
        each.family: each
        for each in fit_all(Counts.from_samples(np.random.default_rng(seed).geometric(0.25, 5_000) - 1))
    }
    plain, richer = fits["geometric"], fits["beta-geometric"]
    assert plain.log_likelihood - 1e-6 <= richer.log_likelihood < plain.log_likelihood + 1
    assert plain.aic < richer.aic
    assert richer.status == "boundary: no heterogeneity" or richer.parameters["heterogeneity"].low < 1e-3
    assert richer.parameters["heterogeneity"].high < 0.05


def test_unknown_family_names_the_known_ones():
    with pytest.raises(ValueError, match="'gauss'.*beta-geometric"):
        fit(Counts.from_samples([1]), "gauss")
    with pytest.raises(ValueError, match="'gauss'"):
        fit_all(Counts.from_samples([1]), ["gauss"])


def test_geometric_row_is_always_there_and_first():
    assert [each.family for each in fit_all(Counts.from_samples([0, 1, 4]), ["discrete-weibull"])] == [
        "geometric",
        "discrete-weibull",
    ]


def test_probabilities_of_a_fit():
    found = fit(Counts.from_samples([0, 1, 1, 2]), "geometric")
    assert found.pmf([[0, 1]]).shape == (1, 2)
    assert found.log_sf(3) == pytest.approx(3 * math.log(0.5))
    assert set(found.meanings) == set(found.parameters)
    for bad in (-1, 0.5):
        with pytest.raises(ValueError, match="whole numbers"):
            found.pmf(bad)


# --- goodness of fit ----------------------------------------------------------------------------------------


def test_wrong_family_is_rejected_and_the_right_one_is_not():
    rng = np.random.default_rng(11)
    counts = cut(draw("geometric-mixture", TRUTH["geometric-mixture"], 3_000, rng), rng.integers(1, 60, 3_000))
    assert goodness_of_fit(counts, fit(counts, "geometric"), draws=40).p == pytest.approx(1 / 41)
    assert goodness_of_fit(counts, fit(counts, "geometric-mixture"), draws=40).p > 0.05


@pytest.mark.parametrize("censor", [None, 4])
def test_p_values_of_the_true_family_are_spread_out(censor):
    ps = []
    for seed in range(40):
        counts = cut(np.random.default_rng(seed).geometric(0.2, 800) - 1, censor or 10**7)
        ps.append(goodness_of_fit(counts, fit(counts, "geometric"), draws=19, seed=seed).p)
    assert 0.35 < np.mean(ps) < 0.65
    assert np.mean(np.array(ps) <= 0.1) < 0.25


def test_goodness_of_fit_is_seeded_and_checks_its_arguments():
    counts = Counts.from_samples(np.random.default_rng(0).geometric(0.3, 300) - 1)
    found = fit(counts, "geometric")
    first = goodness_of_fit(counts, found, draws=20, seed=1)
    assert first == goodness_of_fit(counts, found, draws=20, seed=1)
    assert first.cells >= 5
    with pytest.raises(ValueError, match="draws"):
        goodness_of_fit(counts, found, draws=0)


def test_pooled_statistic_by_hand():
    # geometric with a = 1/2 and 40 runs expects 20, 10, 5 and 5 in the pooled tail
    counts = Counts(np.array([20, 12, 2, 4, 2]), np.zeros(5, dtype=int))
    found = fit(counts, "geometric")
    expected = 40 * found.pmf([0, 1, 2])
    cells = [*expected, 40 - expected.sum()]
    observed = [20, 12, 2, 6]
    if cells[2] < 5:
        cells, observed = [cells[0], cells[1], cells[2] + cells[3]], [20, 12, 8]
    result = goodness_of_fit(counts, found, draws=5)
    assert result.cells == len(cells)
    assert result.statistic == pytest.approx(sum((o - e) ** 2 / e for o, e in zip(observed, cells, strict=True)))


# --- runs of one prompt are alike -----------------------------------------------------------------------------


def of_beta_prompts(prompts: int, seed: int, sd: float = 0.1) -> Counts:
    """Runs of texts of 64 tokens, independent within a prompt, whose acceptances have mean 0.8."""
    found = sample(beta(prompts, 64, 0.8, sd, np.random.default_rng([prompts, seed])))
    return Counts.from_samples(found.accepted, found.censored, found.prompt)


def alone(counts: Counts) -> Counts:
    return Counts(counts.events, counts.censored)


def test_counts_know_the_runs_of_each_prompt():
    counts = Counts.from_samples([2, 0, 2, 3, 2], [0, 0, 0, 1, 1], ["b", "a", "b", "a", "b"])
    assert (counts.prompts, counts.independent, alone(counts).prompts, alone(counts).independent) == (2, 2, None, 5)
    clusters = counts.clusters
    rows = list(zip(*(getattr(clusters, name).tolist() for name in ("prompt", "length", "cut", "count")), strict=True))
    assert rows == [(0, 0, False, 1), (0, 3, True, 1), (1, 2, False, 2), (1, 2, True, 1)]
    assert clusters.sums(clusters.length).tolist() == [3, 6]
    assert counts.cut_at(2).clusters.sums(counts.cut_at(2).clusters.cut).tolist() == [1, 3]
    with pytest.raises(ValueError, match="one for each of the 2 values"):
        Counts.from_samples([1, 2], None, [0])


def test_the_acceptance_is_the_one_of_the_description_interval_included():
    trace = synthetic(7, 40)
    found = fit_all(counts_of(trace))[0].parameters["acceptance"]
    assert found == acceptance_rate(trace)


def test_geometric_interval_over_prompts_by_hand():
    # accepted (5, 3), rejected (1, 3): odds 8 / 4, moves 5/8 - 1/4 = 3/8 and 3/8 - 3/4 = -3/8
    counts = Counts.from_samples([5, 0, 3, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 1, 1])
    # The prompts are 7/16 and 9/16 of both on average.
    half = 12.7062 * math.sqrt((3 / 8) ** 2 * (16 / 9 + 16 / 7))
    found = fit(counts, "geometric").parameters["acceptance"]
    assert found.value == pytest.approx(8 / 12)
    assert found.low == pytest.approx(2 / (2 + math.exp(half)), rel=1e-4)
    assert found.high == pytest.approx(2 / (2 + math.exp(-half)), rel=1e-4)


def test_scores_of_the_geometric_are_its_closed_form():
    # the score of the logit is accepted tokens less acceptance times trials, in each prompt
    counts = of_beta_prompts(6, 0)
    accepted, ended = counts.clusters.sums(counts.clusters.length), counts.clusters.sums(~counts.clusters.cut)
    share = accepted.sum() / (accepted + ended).sum()
    at = np.array([math.log(share / (1 - share))])
    scores = estimation._scores(counts, FAMILIES["geometric"], at)
    np.testing.assert_allclose(scores[:, 0], accepted - share * (accepted + ended), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["zero-inflated-geometric", "negative-binomial", "discrete-weibull"])
def test_a_prompt_a_run_gives_the_intervals_of_independent_runs(name):
    lengths = draw(name, TRUTH[name], 4_000, np.random.default_rng(3))
    over, plain = (fit(Counts.from_samples(lengths, None, each), name) for each in (np.arange(4_000), None))
    assert (over.theta, over.log_likelihood, over.aic) == (plain.theta, plain.log_likelihood, plain.aic)
    for one, other in zip(over.parameters.values(), plain.parameters.values(), strict=True):
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.05)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_prompt_twice_leaves_the_estimate_and_widens_the_interval(name):
    lengths = draw(name, TRUTH[name], 1_000, np.random.default_rng(4))
    twice, prompts = np.concatenate([lengths, lengths]), np.tile(np.arange(1_000) // 2, 2)
    once, doubled = fit(Counts.from_samples(lengths), name), fit(Counts.from_samples(twice, None, prompts), name)
    assert doubled.theta == pytest.approx(once.theta, rel=1e-2)
    for one, other in zip(doubled.parameters.values(), once.parameters.values(), strict=True):
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.25)  # 0.7 of it as independent


def test_fits_say_what_their_intervals_rest_on():
    counts = of_beta_prompts(5, 0)
    assert {each.over for each in fit_all(counts)} == {"over 5 prompts"}
    assert fit(alone(counts), "geometric").over == "iterations taken as independent"


@pytest.mark.parametrize("values", [[3, 0, 1, 7, 2, 2], [0, 0, 0], [3, 3, 3]])
def test_one_prompt_has_no_interval(values):
    counts = Counts.from_samples(values, None, [4] * len(values))
    for each in fit_all(counts):
        assert all(math.isnan(found.low) and math.isnan(found.high) for found in each.parameters.values())
        assert each.theta == fit(alone(counts), each.family).theta
        assert each.over == "none, one prompt says nothing about others"
    km = kaplan_meier(counts)
    assert np.isnan(km.low[1:]).all() and np.isnan(km.high[1:]).all()
    np.testing.assert_array_equal(km.survival, kaplan_meier(alone(counts)).survival)


@pytest.mark.parametrize("values, cut", [([0] * 6, [0] * 6), ([7] * 6, [1] * 6)])
def test_all_or_nothing_over_prompts_is_a_trial_a_prompt(values, cut):
    prompts = [0, 0, 1, 1, 2, 2]
    first, *others = fit_all(Counts.from_samples(values, cut, prompts))
    away = 1 - math.exp(-(4.302653**2) / 2 / 3)
    found = first.parameters["acceptance"]
    assert (found.low, found.high) == (pytest.approx((0, away)) if values[0] == 0 else pytest.approx((1 - away, 1)))
    for each in [first, *others]:
        check_sound(each)


@pytest.mark.parametrize("name", FAMILIES)
def test_prompts_that_do_not_differ_have_no_interval_of_no_width(name):
    found = fit(Counts.from_samples([3, 3, 3], None, [0, 1, 2]), name)
    for each in found.parameters.values():
        assert math.isnan(each.low) or each.low < each.high


def test_prompts_that_say_nothing_do_not_make_an_interval():
    """A text of one token has a run that is cut at 0: it says nothing, whatever the family."""
    values, cut = [3, 0, 7, 1, 2, 5, 0, 0], [False] * 6 + [True] * 2
    two = Counts.from_samples(values, cut, [0, 0, 0, 1, 1, 1, 2, 3])
    four = Counts.from_samples(values[:6], cut[:6], [0, 0, 1, 1, 2, 3])
    assert (two.prompts, two.telling, four.telling) == (4, 2, 4)
    assert all(math.isnan(each.low) for each in fit(two, "discrete-weibull").parameters.values())
    assert all(each.low < each.high for each in fit(four, "discrete-weibull").parameters.values())
    assert fit(two, "geometric").parameters["acceptance"].low > 0


@pytest.mark.parametrize("prompts", [5, 10, 20, 60])
def test_the_interval_of_a_fit_holds_the_acceptance_of_prompts_that_differ(prompts):
    inside, as_independent, repeats = 0, 0, 200
    for seed in range(repeats):
        counts = of_beta_prompts(prompts, seed)
        for which in (counts, alone(counts)):
            found = fit(which, "geometric").parameters["acceptance"]
            if which is counts:
                inside += found.low <= 0.8 <= found.high
            else:
                as_independent += found.low <= 0.8 <= found.high
    assert 0.9 <= inside / repeats <= 0.985
    assert as_independent / repeats < 0.75


def test_kaplan_meier_over_prompts_by_hand():
    # prompt 0: ends at 0 and 1; prompt 1: ends at 1, cut at 2. h(0) = 1/4; moves (h n - d) / (N - D) = -+(1/2) / 3
    counts = Counts.from_samples([0, 1, 1, 2], [0, 0, 0, 1], [0, 0, 1, 1])
    km = kaplan_meier(counts)
    np.testing.assert_allclose(km.survival, [1, 3 / 4, 1 / 4])
    width = 12.7062 * math.sqrt(2 * 2 * (1 / 6) ** 2) / math.log(4 / 3)
    assert km.high[1] == pytest.approx((3 / 4) ** math.exp(-width), rel=1e-4)
    assert km.low[1] == pytest.approx((3 / 4) ** math.exp(width), rel=1e-3, abs=1e-12)
    # h(1) = 2/3; prompt 0 moves -1/6 + (2/3 - 1) / 1, prompt 1 the opposite
    width = 12.7062 * math.sqrt(2 * 2 * (1 / 2) ** 2) / math.log(4)
    assert km.high[2] == pytest.approx((1 / 4) ** math.exp(-width), rel=1e-4)


def test_kaplan_meier_with_a_prompt_a_run_is_greenwoods():
    lengths = np.random.default_rng(1).geometric(0.2, 3_000) - 1
    at = np.random.default_rng(2).integers(1, 20, 3_000)
    values, censored = np.minimum(lengths, at), lengths >= at
    over, plain = (kaplan_meier(Counts.from_samples(values, censored, each)) for each in (np.arange(3_000), None))
    np.testing.assert_allclose(over.low, plain.low, rtol=2e-3, atol=1e-9)
    np.testing.assert_allclose(over.high, plain.high, rtol=2e-3, atol=1e-9)


def test_kaplan_meier_in_blocks_is_the_same(monkeypatch):
    counts = of_beta_prompts(9, 0)
    whole = kaplan_meier(counts)
    monkeypatch.setattr("analysis.fit.kaplan_meier._BLOCK", 40)
    np.testing.assert_allclose(kaplan_meier(counts).low, whole.low, rtol=1e-12)


def test_kaplan_meier_bands_hold_the_survival_of_prompts_that_differ():
    # the survival at 3 of prompts of many: iterations weigh prompts by how many they have
    truth = kaplan_meier(of_beta_prompts(20_000, 0)).survival[[1, 3, 8]]
    inside, as_independent, repeats = np.zeros(3), np.zeros(3), 200
    for seed in range(repeats):
        counts = of_beta_prompts(10, seed)
        for which, counted in ((counts, inside), (alone(counts), as_independent)):
            km = kaplan_meier(which)
            counted += (km.low[[1, 3, 8]] <= truth) & (truth <= km.high[[1, 3, 8]])
    assert np.all((inside / repeats >= 0.88) & (inside / repeats <= 0.98))
    assert np.all(as_independent / repeats < 0.88)
