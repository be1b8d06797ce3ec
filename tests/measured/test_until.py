"""When enough is measured: the rule by itself, its level, and real runs of the generator under it."""

import numpy as np
import pytest
from builders.pairs import tiny_pair
from builders.runs import fake_runs, some_trace
from builders.virtual import Virtual

from analysis.intervals import ratio
from analysis.measured.until import FIRST, GROWTH, LEVEL, Until
from oracle.measure import measure, shuffled
from oracle.records.runs import Runs
from oracle.timing import Clock

POLICIES = ["constant:tokens=2", "constant:tokens=4"]


def test_the_looks_grow_and_end_with_the_prompts():
    until = Until(0.02)
    assert until.looks(40) == [10, 15, 23, 35, 40]
    assert until.looks(10) == [10] and until.looks(3) == [3] and until.looks(11) == [10, 11]


def test_the_baseline_is_settled_before_anything_runs():
    until = Until(0.02)
    assert until.settle(["none", "dynamic", *POLICIES]).baseline == POLICIES[0]
    assert until.settle(["none", "dynamic"]).baseline == "none"
    assert Until(0.02, "dynamic").settle(["none", "dynamic", POLICIES[0]]).baseline == "dynamic"
    with pytest.raises(ValueError, match="'dynamic' is not measured; measured: none, heuristic"):
        Until(0.02, "dynamic").settle(["none", "heuristic"])
    assert until.settle(["none", POLICIES[0]]).baseline == "none"  # nothing else drafts
    with pytest.raises(ValueError, match="is the only policy"):
        Until(0.02, POLICIES[0]).settle(["none", POLICIES[0]])
    for share in (0, -1, 1.5, float("nan"), True):
        with pytest.raises(ValueError, match="above 0"):
            Until(share)


def test_the_intervals_looked_at_are_wider_by_the_level():
    random = np.random.default_rng(0)
    runs = fake_runs(some_trace(4), POLICIES, speed=lambda r, prompt, policy: random.uniform(0.8, 1.2))
    (found,) = Until(0.5, POLICIES[0]).ratios(runs).values()
    seconds = [
        np.array([np.median([c.total_seconds for c in runs.of(policy) if c.prompt == p]) for p in range(4)])
        for policy in POLICIES
    ]
    usual = ratio(*seconds)
    assert found == ratio(*seconds, level=LEVEL) and found.value == usual.value and found.high > usual.high
    share = found.high / found.value - 1
    assert Until(share * 1.01, POLICIES[0]).enough(runs.calls) and not Until(share * 0.99, POLICIES[0]).enough(
        runs.calls
    )


@pytest.mark.parametrize("needed", [8, 25, 90])
def test_the_intervals_keep_their_level_when_they_stop(needed):
    """Prompts whose log ratio is normal around 0; ``needed`` would give the width if their SD were known."""
    from scipy.stats import t

    random, width, stopped, missed = np.random.default_rng(needed), 1.96 / np.sqrt(needed), 0, 0
    live, sums, squares, count = np.arange(4000), np.zeros(4000), np.zeros(4000), 0
    for look in Until(0.02).looks(8 * needed + FIRST):
        drawn = random.standard_normal((len(live), look - count))
        sums, squares, count = sums + drawn.sum(axis=1), squares + (drawn**2).sum(axis=1), look
        mean = sums / count
        reach = t.ppf((1 + LEVEL) / 2, count - 1) * np.sqrt((squares / count - mean**2) / (count - 1))
        done = reach <= width
        stopped, missed = stopped + done.sum(), missed + (abs(mean[done]) > reach[done]).sum()
        live, sums, squares = live[~done], sums[~done], squares[~done]
    assert stopped > 3950 and GROWTH > 1
    assert missed / stopped <= 0.05


# --- real runs on a clock of their own --------------------------------------------------------------------------------


def prompts(count, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(2, 97, int(random.integers(3, 9))).tolist() for _ in range(count)]


def run(share, out=None, count=30, **options):
    pair = tiny_pair()
    virtual = Virtual(pair, lambda tokens, context: 1.0, lambda tokens, context: 10.0)
    options = {"max_new_tokens": 6, "repeats": 2, "clock": virtual.clock, "until": Until(share)} | options
    return measure(pair, prompts(count), ["constant:tokens=1", "constant:tokens=4"], out, **options)


def test_it_stops_at_the_first_look_where_the_ratio_is_known_so_closely():
    runs = run(0.5)
    assert runs.meta["stopped"] == "enough is known" and runs.meta["prompts_planned"] == 10
    assert len(runs.calls) == 10 * 3 * 2
    assert runs.meta["until"]["baseline"] == "constant:tokens=1"


def test_it_ends_with_the_prompts_where_that_is_never_reached():
    runs = run(1e-6, count=12)
    assert runs.meta["stopped"] == "no prompt is left" and runs.meta["prompts_planned"] == 12
    # Ten prompts with both repeats, then the two others with both.
    assert [call.prompt for call in runs.calls][::3] == [*range(10), *range(10), 10, 11, 10, 11]
    assert run(0.5, count=4).meta["prompts_planned"] == 4  # fewer than the first look takes


def test_the_policies_run_in_random_order_plain_decoding_first_in_the_first_repeat():
    arms = ["none", "a", "b", "c"]
    orders = [shuffled(arms, repeat, prompt) for repeat in range(2) for prompt in range(200)]
    assert all(sorted(order) == sorted(arms) for order in orders)
    assert {order[0] for order in orders[:200]} == {"none"} and {order[0] for order in orders[200:]} == set(arms)
    for place in (1, 2, 3):
        often = [sum(order[place] == arm for order in orders[:200]) for arm in "abc"]
        assert min(often) > 45  # 67 expected, SD 7
    assert shuffled(arms, 1, 7) == shuffled(arms, 1, 7)


def calls(runs):
    return [(call.key, call.tokens.tolist(), call.drafted.tolist()) for call in runs.calls]


class Battery:
    """A clock that ticks by its readings and ends after so many of them."""

    def __init__(self, readings=10**9):
        self.left = self.all = readings
        self.clock = Clock(self.read)

    def read(self):
        if self.left == 0:
            raise RuntimeError("the battery is empty")
        self.left -= 1
        return float(self.all - self.left)


def readings(share):
    """How many a whole run takes."""
    battery = Battery()
    run(share, clock=battery.clock)
    return battery.all - battery.left


def test_an_interrupted_run_goes_on_to_the_same_end(tmp_path):
    whole = run(0.5, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="battery"):
        run(0.5, tmp_path / "cut", clock=Battery(readings(0.5) // 2).clock)
    cut = Runs.load(tmp_path / "cut")
    assert "stopped" not in cut.meta and cut.unfinished and 0 < len(cut.calls) < 60
    found = run(0.5, tmp_path / "cut", resume=True)
    assert found.meta["prompts_planned"] == 10 and calls(found) == calls(whole)
    loaded = Runs.load(tmp_path / "cut")
    assert loaded.unfinished is None and loaded.meta["stopped"] == "enough is known"
    # Resumed again it does nothing, and under another width it is refused.
    assert calls(run(0.5, tmp_path / "cut", resume=True)) == calls(whole)
    with pytest.raises(ValueError, match="was begun with until"):
        run(0.4, tmp_path / "cut", resume=True)


class Patient(Until):
    def enough(self, calls):
        return max(call.prompt for call in calls) >= 14


class Hasty(Until):
    def enough(self, calls):
        return True


def test_a_run_that_was_interrupted_later_asks_no_earlier_look_again(tmp_path):
    """At the look after 10 prompts it had gone on; what it would say of them now is no matter."""
    with pytest.raises(RuntimeError, match="battery"):
        run(0.5, tmp_path / "cut", clock=Battery(readings(0.5) + 20).clock, until=Patient(0.5))
    assert 10 <= max(call.prompt for call in Runs.load(tmp_path / "cut").calls) < 15
    found = run(0.5, tmp_path / "cut", resume=True, until=Hasty(0.5))
    assert found.meta["prompts_planned"] == 15 and len(found.calls) == 15 * 3 * 2


def test_a_policy_that_learns_goes_on_where_the_last_stage_left_it():
    """`heuristic` carries its length from prompt to prompt within a repeat, over the looks too."""
    pair = tiny_pair()
    options = {"max_new_tokens": 20, "repeats": 2, "clock": Battery().clock}
    staged = measure(pair, prompts(12), ["heuristic:tokens=4"], until=Until(1e-6), **options)
    usual = measure(pair, prompts(12), ["heuristic:tokens=4"], **options)
    drafts = [{call.key: call.budget.tolist() for call in runs.of("heuristic:tokens=4")} for runs in (staged, usual)]
    assert drafts[0] == drafts[1]
