"""What README says of policies, held against the code."""

import re
from pathlib import Path

import numpy as np
import pytest
from builders.traces import pattern, trace

import oracle
from analysis.replay.simulate import known_policies
from oracle.policies import POLICIES, parse

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
TABLE = README.split("\n| policy | rule |\n|---|---|\n", 1)[1].split("\n\n", 1)[0].splitlines()
LISTED = [re.match(r"\| `([^`]+)` \| \S", row)[1] for row in TABLE]


def test_the_table_lists_the_policies_there_are_in_their_order():
    names = [text if text.startswith("oracle:") else text.partition(":")[0] for text in LISTED]
    assert names == known_policies()


@pytest.mark.parametrize("text", [text for text in LISTED if not text.startswith("oracle:")])
def test_the_table_gives_the_defaults(text):
    name, _, keys = text.partition(":")
    assert parse(text) == POLICIES[name]()
    main = {"tokens", "threshold", "n_max", "n_min", "p_min"} & set(POLICIES[name].__dataclass_fields__)
    if name != "constant":  # whose threshold makes it `dynamic`
        assert main <= {key.partition("=")[0] for key in keys.split(",")}


def test_the_policy_of_ones_own_in_readme_runs_as_written():
    block = next(each for each in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "class Unsure" in each)
    recorded = trace(pattern("++++++++", confidence=[0.9, 0.9, 0.25, 0.9, 0.9, 0.9, 0.9, 0.9]))
    found = {"oracle": oracle, "trace": recorded}
    exec(compile(block, "README.md", "exec"), found)
    rule = found["Unsure"]
    assert oracle.simulate(recorded, rule(least=0.2)).drafted.tolist() == [7]
    assert oracle.simulate(recorded, rule(least=0.3)).drafted.tolist() == [3, 3]
    assert oracle.simulate(recorded, rule(tokens=2, least=0.3)).policy == "Unsure:tokens=2,least=0.3"

    def stop(signals):
        return np.minimum.accumulate(signals.confidence, axis=1) < 0.3

    assert oracle.simulate(recorded, stop).drafted.tolist() == [3, 3]
