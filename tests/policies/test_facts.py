"""What `oracle policies` says is what the policies are."""

import dataclasses
import re

import numpy as np
import pytest
from builders.traces import pattern, trace

from analysis.cost import CostModel
from analysis.replay.simulate import NotRecorded, simulate
from oracle.policies import POLICIES, parse
from oracle.policies.contract import SIGNALS
from oracle.policies.facts import facts, reads

READS = {
    "none": (),
    "heuristic": ("outcomes",),
    "dynamic": ("confidence",),
    "roc": ("confidence", "outcomes"),
    "svip": ("entropy",),
    "adaedl": ("entropy", "outcomes"),
    "expected-gain": ("confidence", "prices"),
    "margin": ("margin", "outcomes", "prices"),
    "ema": ("outcomes",),
    "exp3": ("outcomes", "prices"),
    "tapout": ("confidence", "entropy", "outcomes", "prices"),
}


@pytest.mark.parametrize("name", READS)
def test_what_a_policy_reads_is_found_by_watching_it(name):
    assert facts(name).reads == READS[name] == reads(parse(name))


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_reads_no_signal_but_those_that_are_told(name):
    """Without the others in the trace it replays all the same; without one of them it is refused."""
    full = trace(pattern("++-+++-+" * 3, overruns={at: [(3, 0.9)] * 24 for at in range(24)}), max_overrun=24)
    mine = [signal for signal in SIGNALS if signal in facts(name).reads]

    def without(signal):
        return dataclasses.replace(
            full, overruns=dataclasses.replace(full.overruns, **{signal: None}), **{signal: None}
        )

    for signal in SIGNALS:
        if signal not in mine:
            assert np.array_equal(simulate(without(signal), name).drafted, simulate(full, name).drafted)
        else:
            with pytest.raises(NotRecorded, match=signal):
                simulate(without(signal), name)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_carries_over_where_it_says_so(name):
    """The order of prompts matters to no other."""
    found = facts(name)
    assert found.carries_over == (parse(name).next_prompt(parse(name).start(1)) is not None)
    assert found.name == name and found.rule.endswith(".") and parse(found.usage) == parse(name)
    releases = {"transformers", "transformers up to 4.46", "transformers 4.47 to 4.49", "transformers 4.50 to 4.57"}
    assert set(found.found_in) <= releases | {"vLLM", "SGLang", "llama.cpp"}
    assert found.source is None or re.search(r"arXiv \d{4}\.\d{5}|Transformers|vLLM|SGLang|llama\.cpp", found.source)


def test_prices_matter_to_those_that_read_them():
    t = trace(
        *[pattern("++-+++-+" * 6, index=n, overruns={at: [(3, 0.9)] * 48 for at in range(48)}) for n in range(3)],
        max_overrun=48,
    )
    cheap, dear = CostModel(draft=0.01), CostModel(draft=0.6, iteration=0.5)
    for name in ("expected-gain", "ucb:arms=1/8", "exp3:arms=1/8"):
        assert "prices" in reads(parse(name))
        assert simulate(t, name, cheap).drafted.tolist() != simulate(t, name, dear).drafted.tolist()
