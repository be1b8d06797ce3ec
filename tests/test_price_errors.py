"""Errors of prices in totals: against repricing the same iterations with other prices."""

import dataclasses

import numpy as np
import pytest
from builders.reference import random_trace

from analysis.cost import CostModel, symmetric
from analysis.price_errors import PriceErrors, Tally, apart
from analysis.replay.simulate import simulate, simulate_totals

POLICIES = ["constant:tokens=1", "constant:tokens=5", "dynamic:threshold=0.3,tokens=9", "heuristic", "p-min:n_max=6"]
POLICIES += ["none", "oracle:detect", "oracle:optimal"]
TABLES = CostModel(
    draft=0.11, draft_phase=((1, 0.2), (2, 0.29), (4, 0.5)), draft_context=1e-4, verify_context=3e-4, iteration=0.05,
    verify=((1, 1.0), (2, 1.3), (3, 1.31), (6, 1.6)), plain=0.95, plain_context=3e-4, draft_prefill=0.01,
    target_prefill=0.02,
)  # fmt: skip
MODELS = {
    "tables": TABLES,
    "a line": CostModel(draft=0.1),
    "a first step": CostModel(draft=0.1, draft_first=0.2, draft_context=1e-3, verify=((1, 1.0), (4, 2.0))),
}


def vector(cost):
    """The price vector as `price_names` lists it."""
    tables = [price for name in ("draft_phase", "verify") for _, price in getattr(cost, name)]
    return np.array([getattr(cost, name) for name in cost.price_names if "." not in name] + tables)


def repriced(cost, prices):
    """The model with another price vector."""
    values = dict(zip(cost.price_names, prices.tolist(), strict=True))
    tables = {
        name: tuple((count, values[f"{name}.{count}"]) for count, _ in getattr(cost, name))
        for name in ("draft_phase", "verify")
    }
    return dataclasses.replace(cost, covariance=(), **{k: v for k, v in values.items() if "." not in k}, **tables)


def with_errors(cost, seed=0, size=1e-3):
    """The model with a covariance of a few common causes, so that it is singular, as lower triangle."""
    random = np.random.default_rng(seed)
    prices = vector(cost)
    causes = random.normal(0, size, (len(prices), 3)) * prices[:, None]
    return dataclasses.replace(cost, covariance=triangle(causes @ causes.T))


def triangle(matrix):
    return tuple(tuple(float(value) for value in row[: number + 1]) for number, row in enumerate(matrix))


@pytest.mark.parametrize("cost", MODELS.values(), ids=MODELS)
def test_a_price_times_how_often_it_is_paid_is_the_total(cost):
    random = np.random.default_rng(1)
    passes = random.integers(0, 12, 200)
    drafted, context = random.integers(0, passes + 1), random.integers(5, 300, 200)
    errors, prices = PriceErrors(cost), vector(cost)
    rounds = errors.rounds(Tally.of(drafted, context, passes)) @ prices
    assert rounds == pytest.approx(cost.round(drafted, context, passes).sum(), rel=1e-12)
    assert errors.steps(200, context.sum()) @ prices == pytest.approx(cost.step(context).sum(), rel=1e-12)


@pytest.mark.parametrize("cost", MODELS.values(), ids=MODELS)
def test_the_variance_of_a_ratio_is_that_of_drawn_prices(cost):
    trace, noisy = random_trace(3, prompts=30, longest=60, overrun=20), with_errors(cost)
    found = [simulate(trace, policy, noisy) for policy in POLICIES[:-1]]  # the optimal draft is another at other prices
    spread, random = symmetric(noisy.covariance), np.random.default_rng(2)
    draws = random.multivariate_normal(vector(cost), spread, 400, method="svd", check_valid="ignore")
    logs = np.array(
        [
            [np.log(simulate(trace, policy, price).prompt_seconds.sum()) for policy in POLICIES[:-1]]
            + [np.log(price.step(trace.context).sum())]
            for price in (repriced(cost, np.abs(draw)) for draw in draws[:40])
        ]
    )
    base = np.array([np.log(each.prompt_seconds.sum()) for each in found] + [np.log(found[0].plain_seconds.sum())])
    # Prices enter a total as a sum, so to first order every drawn total is the gradient times what was drawn.
    moved = (draws[:40] - vector(cost)) @ np.linalg.pinv(_root_of(noisy).T)
    shifts = np.array([each.shifts for each in found] + [found[0].plain_shifts])
    assert logs - base == pytest.approx(moved @ shifts.T, abs=3e-5)
    for number, each in enumerate(found):
        expected = np.var(logs[:, -1] - logs[:, number])
        if expected > 1e-12:
            assert each.price_variance() == pytest.approx(expected, rel=0.8)
        assert found[0].price_variance(each) == apart(each.shifts, found[0].shifts)


def _root_of(cost):
    from analysis.price_errors import _root

    return _root(symmetric(cost.covariance))


def test_totals_of_a_sweep_have_the_same_shifts_as_the_rows():
    trace, cost = random_trace(5, prompts=40, overrun=30), with_errors(TABLES)
    for number, totals in simulate_totals(trace, POLICIES, cost):
        rows = simulate(trace, POLICIES[number], cost)
        assert totals.shifts == pytest.approx(rows.shifts, rel=1e-9), POLICIES[number]
        assert np.array_equal(totals.plain_shifts, rows.plain_shifts) and totals.prices_vary
        assert totals.speedup_estimate() == rows.totals.speedup_estimate()


def test_an_interval_holds_the_prices_and_says_whether_it_does():
    trace, cost = random_trace(6, prompts=12, overrun=30), with_errors(TABLES, size=0.05)
    sure, unsure = (simulate(trace, "constant:tokens=3", price) for price in (TABLES, cost))
    assert (sure.prices_vary, unsure.prices_vary, sure.price_variance()) == (False, True, 0)
    narrow, wide = sure.speedup_estimate(), unsure.speedup_estimate()
    assert narrow.value == wide.value and wide.high / wide.low > 1.02 * narrow.high / narrow.low


def test_decoding_without_a_draft_has_no_error_against_itself():
    found = simulate(random_trace(7, prompts=12, overrun=30), "none", with_errors(TABLES))
    assert found.price_variance() == pytest.approx(0, abs=1e-18)


def test_a_covariance_is_stored_a_row_a_line_and_read_back(tmp_path):
    cost = with_errors(TABLES)
    cost.save(tmp_path / "cost.json")
    loaded = CostModel.load(tmp_path / "cost.json")
    assert loaded == cost and loaded.covariance == cost.covariance
    assert len((tmp_path / "cost.json").read_text().splitlines()) < 100


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (((1.0,), (0.0, 1.0)), "covariance has 2 rows; it must be a lower triangle, one row for each of 7 prices"),
        (((1.0,),) * 7, "must be a lower triangle"),
        (triangle(-np.eye(7)), "negative variance"),
        (triangle(np.ones((7, 7)) - 0.5 * np.eye(7)), "negative variance"),
        (((float("nan"),),), "a finite number"),
    ],
)
def test_what_is_no_covariance_is_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        CostModel(draft=0.1, covariance=rows)
