"""``oracle policies``."""

import json

from test_cli import run

from oracle.policies import POLICIES
from oracle.policies.facts import facts


def test_the_command_lists_them_all_in_lines_that_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("policies")
    assert listed.exit_code == 0 and all(len(line) <= 80 for line in listed.stdout.splitlines() if line.startswith(" "))
    assert all(facts(name).usage in listed.stdout.splitlines() for name in POLICIES)
    answer = json.loads(run("policies", "--json").stdout)
    assert [row["name"] for row in answer] == list(POLICIES)
    assert answer[0]["source"] is None and answer[1]["defaults"] == {"tokens": 5, "threshold": 0}
    one = run("policies", "margin").stdout
    assert one.startswith("margin:tokens=7") and "gradient steps" in one and "constant" not in one
    wrong = run("policies", "margn")
    assert wrong.exit_code == 2 and "did you mean 'margin'" in wrong.output
