"""``oracle datasets``, and a task by the name of its option."""

import json

from test_cli import run

from oracle.prompts.sets import DEMOS, HUB_SETS
from oracle.prompts.tasks import TASKS
from oracle.shipped import data_path


def test_the_command_lists_tasks_and_data_sets_in_lines_that_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("datasets")
    lines = listed.stdout.splitlines()
    assert listed.exit_code == 0 and all(len(line) <= 80 for line in lines)
    assert {line.split()[0] for line in lines if line[:1].strip()} >= {*TASKS, *HUB_SETS, *DEMOS}
    assert "CC BY-NC" in listed.stdout and "validation 13,368" in listed.stdout


def test_programs_get_the_same():
    found = json.loads(run("datasets", "--json").stdout)
    assert [each["name"] for each in found["tasks"]] == list(TASKS)
    assert [each["name"] for each in found["datasets"]] == [*HUB_SETS, *DEMOS]
    assert found["tasks"][0]["prompt_tokens"] == 256 and found["datasets"][0]["splits"]["test"] == 500
    for name in DEMOS:
        rows = next(each["splits"]["-"] for each in found["datasets"] if each["name"] == name)
        assert rows == len(data_path(f"{name}.jsonl").read_text().splitlines())


def test_prompts_are_cut_on_the_command_line(tmp_path):
    done = run("collect", str(tmp_path / "t"), "--task", "demo-text", "--limit", "2", "--max-new-tokens", "4",
               "--prompt-tokens", "90", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    meta = json.loads((tmp_path / "t" / "meta.json").read_text())
    assert meta["prompts"]["prompt_tokens"] == 90
