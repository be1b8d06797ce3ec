import dataclasses

import numpy as np
import pytest
from builders.pairs import tiny_pair
from builders.runs import COST, fake_runs, some_trace
from builders.virtual import PROMPTS, Virtual

from analysis.cost import CostModel, symmetric
from analysis.measured.calibrate import FIT, FIXED, calibrate
from analysis.measured.prices import least_squares
from analysis.measured.speedups import measured
from analysis.price_errors import PriceErrors, Tally
from oracle.measure import measure
from oracle.records.runs import Runs

PRICES = ("draft", "draft_context", "verify_context", "iteration", "plain", "plain_context")
PREFILL = ("draft_prefill", "target_prefill")


def test_a_known_cost_model_is_recovered_from_its_own_runs():
    found = calibrate(fake_runs(some_trace(), FIT))
    for name in (*PRICES, *PREFILL):
        assert getattr(found.cost, name) == pytest.approx(getattr(COST, name)), name
    counts = [count for count, _ in found.cost.verify]
    assert counts == list(range(1, 22))
    assert [price for _, price in found.cost.verify] == pytest.approx(COST.verification(np.array(counts)))
    counts = [count for count, _ in found.cost.draft_phase]
    assert counts == [1, 2, 3, 4, 6, 8, 11, 15, 20]
    assert [price for _, price in found.cost.draft_phase] == pytest.approx(COST.phase(np.array(counts)))
    assert found.policies == FIT and found.cost.unit == "s"
    assert found.cost.measured_range == {"tokens": [1, 21], "context": [5, 84]}
    assert found.cost.machine["fitted_on"] == list(FIT)
    assert max(abs(row.error) for row in found.residuals) < 1e-9


def test_a_price_that_jumps_is_fitted_as_a_table():
    """What a line through four lengths cannot say: a draft's step and a verification dear at some counts only."""
    stepped = dataclasses.replace(
        COST,
        draft_phase=((1, 0.005), (2, 0.007), (3, 0.009), (4, 0.011), (8, 0.03), (20, 0.08)),
        verify=((1, 0.02), (4, 0.021), (5, 0.035), (8, 0.036), (9, 0.06), (21, 0.061)),
    )
    found = calibrate(fake_runs(some_trace(), FIT, stepped)).cost
    counts = np.arange(1, 22)
    assert found.verification(counts) == pytest.approx(stepped.verification(counts))
    assert found.phase(np.array([1, 2, 3, 4, 20])) == pytest.approx(stepped.phase(np.array([1, 2, 3, 4, 20])), rel=0.01)


def test_standard_errors_cover_the_known_prices():
    """Calls that vary by 5 % around known prices: the interval of each round's price holds it in most of many runs."""
    source, random = some_trace(prompts=8, size=50), np.random.default_rng(4)
    drafted, context, hits = np.arange(21), 60, []
    for _ in range(12):
        runs = fake_runs(source, FIT[:2], repeats=2, speed=lambda *_: random.lognormal(0, 0.05))
        cost = calibrate(runs).cost
        covariance, errors = symmetric(cost.covariance), PriceErrors(cost)
        for k in drafted.tolist():
            paid = errors.rounds(Tally.of(np.array([k]), np.array([context])))
            error = np.sqrt(paid @ covariance @ paid)
            hits.append(abs(cost.round(np.int64(k), context) - COST.round(np.int64(k), context)) < 2 * error)
    assert 0.85 < np.mean(hits) <= 1


def test_how_far_a_prompt_moves_the_prices_is_seen_from_the_fit_without_it():
    runs = fake_runs(some_trace(), FIT[:2], speed=lambda repeat, prompt, policy: 1 + 0.2 * (prompt == 2))
    found = calibrate(runs)
    at = found.cost.price_names.index("iteration")
    without = tuple(call for call in runs.calls if call.prompt != 2)
    expected = 5 / 6 * (found.cost.iteration - calibrate(Runs(runs.meta, without)).cost.iteration)
    assert found.moves[0, 2][at] == pytest.approx(expected) and expected > 0
    assert {key: float(np.sign(move[at])) for key, move in found.moves.items()} == {
        (0, prompt): 1.0 if prompt == 2 else -1.0 for prompt in range(6)
    }


def test_one_prompt_gives_prices_without_errors_and_says_so():
    found = calibrate(fake_runs(some_trace(prompts=1, size=150), FIT))
    assert found.cost.covariance == () and "single prompt have no standard errors" in found.notes[-1]
    several = calibrate(fake_runs(some_trace(), FIT))
    assert len(several.cost.covariance) == len(several.cost.price_names) and not several.notes


def test_runs_of_fixed_lengths_are_still_fitted():
    found = calibrate(fake_runs(some_trace(), [*FIXED, "constant:tokens=5"]))
    assert found.policies == FIXED
    for drafted in (1, 3, 8, 20):
        assert found.cost.round(np.int64(drafted), 40) == pytest.approx(COST.round(np.int64(drafted), 40))


def test_a_few_disturbed_repeats_change_little():
    random = np.random.default_rng(0)
    spikes = {(repeat, prompt, policy): 4 if random.random() < 0.1 else random.normal(1, 0.02)
              for repeat in range(3) for prompt in range(6) for policy in ["none", *FIT]}  # fmt: skip
    found = calibrate(fake_runs(some_trace(), FIT, speed=lambda *key: spikes[key])).cost
    for drafted in (1, 3, 8, 20):
        assert found.round(np.int64(drafted), 40) == pytest.approx(COST.round(np.int64(drafted), 40), rel=0.03)
    assert found.step(40) == pytest.approx(COST.step(40), rel=0.03)


def test_several_runs_are_fitted_together():
    short, long = some_trace(prompts=3), some_trace(prompts=3, size=120, seed=1)
    found = calibrate([fake_runs(short, FIT), fake_runs(long, FIT)])
    assert found.cost.draft == pytest.approx(COST.draft)
    assert found.cost.measured_range["context"] == [5, 5 + 14 + 119 - 6]


def test_verification_never_gets_cheaper_with_more_tokens():
    dented = dataclasses.replace(COST, verify=((1, 0.02), (2, 0.03), (4, 0.03), (9, 0.04), (21, 0.06)))
    runs = fake_runs(
        some_trace(), FIXED, dented, speed=lambda repeat, prompt, policy: 0.9 if policy == "constant:tokens=3" else 1
    )
    prices = [price for _, price in calibrate(runs).cost.verify]
    assert prices == sorted(prices)


def test_seconds_that_leave_nothing_for_a_target_pass_are_refused():
    runs = fake_runs(some_trace(), FIT)

    def free_rounds_without_a_draft(call):
        seconds = call.verify_seconds * ((call.drafted > 0) | (call.policy == "none"))
        return dataclasses.replace(call, verify_seconds=seconds)

    noisy = dataclasses.replace(runs, calls=tuple(map(free_rounds_without_a_draft, runs.calls)))
    with pytest.raises(RuntimeError, match="fit no cost model.*over one token costs nothing"):
        calibrate(noisy)


def test_what_is_fitted_is_said_with_its_residuals():
    runs = fake_runs(some_trace(), FIXED, speed=lambda repeat, prompt, policy: 1 + 0.1 * (policy == FIXED[1]))
    found = calibrate(runs)
    rows = {(row.part, row.tokens): row for row in found.residuals}
    assert {part for part, _ in rows} == {"draft", "verify", "iteration", "plain"}
    # The table has a point of its own at 3: only the other policies' drafts of 3 at the ends of texts pull at it.
    assert -0.01 < rows["draft", 3].error < -0.001 and rows["draft", 3].rows > 150
    assert rows["plain", None].error == pytest.approx(0, abs=1e-5)  # its slope is the verification's too


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (["dynamic", "constant:tokens=3"], "'dynamic' drafts neither drawn nor fixed lengths"),
        (["heuristic"], "drafts neither drawn nor fixed lengths"),
        (["constant:tokens=3"], "at least two lengths"),
        ([], "at least two lengths"),
        (["constant:tokens=3", "constant:tokens=7"], "'constant:tokens=7' was not measured"),
    ],
)
def test_policies_that_cannot_be_fitted_on_are_refused(policies, message):
    runs = fake_runs(some_trace(prompts=2), [*FIXED[:2], "dynamic", "heuristic"])
    with pytest.raises(ValueError, match=message):
        calibrate(runs, policies)


def test_other_constant_lengths_do_where_the_usual_ones_did_not_run():
    found = calibrate(
        fake_runs(some_trace(), ["constant:tokens=2", "dynamic", "constant:tokens=8", "constant:tokens=5"])
    )
    assert found.policies == ("constant:tokens=2", "constant:tokens=8", "constant:tokens=5")
    assert found.cost.draft == pytest.approx(COST.draft)


def test_two_generators_have_no_common_prices():
    source = some_trace(prompts=2)
    ours, theirs = fake_runs(source, FIT[:1], generator="loop"), fake_runs(source, FIT[1:2])
    mixed = Runs(ours.meta, ours.calls + theirs.calls)
    with pytest.raises(ValueError, match=r"ran in \['library', 'loop'\]"):
        calibrate(mixed)


def test_one_token_texts_are_too_little_to_fit():
    source = some_trace(prompts=2, size=4)
    with pytest.raises(ValueError, match="too little was measured"):
        calibrate(fake_runs(source, FIT[:2]))


def test_coefficients_are_never_negative():
    design = np.stack([np.ones(50), np.arange(50.0)], axis=1)
    base, slope = least_squares(design, np.linspace(2.0, 1.0, 50))
    assert slope == 0 and base == pytest.approx(1.5, rel=0.1)


def test_seconds_inside_the_librarys_own_rounds_are_found(monkeypatch):
    """Slow preparation of a drafting phase, slow bookkeeping, a growing context: each lands in its own price."""
    from transformers.generation.candidate_generator import AssistedCandidateGenerator

    pair = tiny_pair()
    world = Virtual(
        pair,
        lambda tokens, context: 0.1 + 0.001 * (context + tokens - 1),
        lambda tokens, context: 1 + 0.2 * (tokens - 1),
    )
    update, get = AssistedCandidateGenerator.update_candidate_strategy, AssistedCandidateGenerator.get_candidates

    def late(seconds, method):
        def wrapped(self, *args):
            world.time += seconds
            return method(self, *args)

        return wrapped

    monkeypatch.setattr(AssistedCandidateGenerator, "update_candidate_strategy", late(0.02, update))
    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", late(0.3, get))
    runs = measure(
        pair, PROMPTS[:2], ["constant:tokens=1", "constant:tokens=4"], max_new_tokens=24, repeats=1, clock=world.clock
    )
    cost = calibrate(runs, ["constant:tokens=1", "constant:tokens=4"]).cost
    assert cost.draft_context == pytest.approx(0.001, rel=0.01)
    assert cost.draft == pytest.approx(0.1, rel=0.02)
    assert cost.drafting(np.int64(1)) == pytest.approx(0.1 + 0.3, rel=0.02)
    assert cost.iteration == pytest.approx(0.02, rel=0.1)
    assert [count for count, _ in cost.verify] == [1, 2, 5]
    assert [price for _, price in cost.verify] == pytest.approx([1.0, 1.2, 1.8], rel=0.01)
    assert cost.plain == pytest.approx(1.0) and cost.plain_context == pytest.approx(0, abs=1e-9)


def test_a_fitted_model_survives_its_file(tmp_path):
    cost = calibrate(fake_runs(some_trace(prompts=3), FIT)).cost
    cost.save(tmp_path / "cost.json")
    loaded = CostModel.load(tmp_path / "cost.json")
    assert loaded == cost and loaded.machine == cost.machine and loaded.measured_range == cost.measured_range


def test_speedups_take_no_memory_for_numbers_that_no_prompt_has():
    runs = fake_runs(some_trace(), FIT[:1])
    far = tuple(dataclasses.replace(call, prompt=2**31 - 1) if call.prompt == 5 else call for call in runs.calls)
    found, known = measured(dataclasses.replace(runs, calls=far), FIT[0]), measured(runs, FIT[0])
    assert found == known
    late = tuple(dataclasses.replace(call, repeat=2**31 - 1) if call.repeat == 2 else call for call in runs.calls)
    with pytest.raises(ValueError, match="no prompt is finished in every repeat"):
        measured(dataclasses.replace(runs, calls=late), FIT[0])
