import numpy as np
import pytest
from builders.runs import fake_runs, some_trace

from analysis.measured.speedups import Paired, paired, speedup


def test_a_speedup_is_a_ratio_of_totals_of_each_prompts_median():
    plain = np.array([[4.0, 9.0], [4.0, 30.0], [7.0, 9.0]])  # medians 4 and 9
    assisted = np.array([[2.0, 8.0], [50.0, 5.0], [2.0, 5.0]])  # medians 2 and 5
    assert speedup(Paired(plain, assisted)).value == pytest.approx(13 / 7)


def test_a_disturbed_call_in_every_repeat_changes_nothing():
    """Each repeat's total is off, and with them their median was; no prompt's median is."""
    source = some_trace()
    spoilt = {(repeat, repeat, policy) for repeat in range(3) for policy in ("none", "dynamic")}
    quiet = fake_runs(source, ["dynamic"])
    loud = fake_runs(
        source, ["dynamic"], speed=lambda repeat, prompt, policy: 5.0 if (repeat, prompt, policy) in spoilt else 1.0
    )
    for decoding in (True, False):
        expected, found = (speedup(paired(runs, "dynamic", decoding=decoding)) for runs in (quiet, loud))
        assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))
