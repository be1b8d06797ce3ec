"""``oracle train``, and ``simulate --allow-in-sample``."""

import json

import pytest
from builders.traces import EOS, pattern
from test_cli import run

from oracle.records.trace import write_meta, write_part


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "trace"
    made.mkdir()
    write_meta(made, {"eos_token_ids": [EOS], "max_overrun": 30, "prompts": {"dataset": "by-hand"}})
    texts = ["++-+++-+" * 3, "+-" * 12, "+" * 24, "--++" * 6, "+-++" * 6]
    branches = {at: [(1, 0.9)] * (22 - at) for at in range(23)}
    rows = [pattern(text, index=n, overruns=branches, prompt=(n + 1, 9)) for n, text in enumerate(texts)]
    write_part(made, 0, rows)
    return made


@pytest.mark.parametrize("policy", ["specdec++", "margin"])
def test_it_writes_a_head_that_the_policy_takes_where_it_may(policy, folder, tmp_path):
    file = tmp_path / "heads" / "h.json"
    done = run("train", policy, folder, "-o", file)
    assert done.exit_code == 0 and "on held-out prompts" in done.stdout, done.output
    assert json.loads(file.read_text())["trained"]["dataset"] == "by-hand"
    words = ["simulate", folder, "-p", f"{policy}:file={file}", "-p", "oracle:detect", "--draft-cost", "0.1"]
    refused = run(*words)
    assert refused.exit_code == 2 and "trained on 5 of the 5 prompts" in refused.output
    shown = json.loads(run(*words, "--allow-in-sample", "--json").stdout)
    assert shown[0]["policy"] == f"{policy}:file={file},in_sample=True" and shown[1]["policy"] == "oracle:detect"


def test_a_file_of_somebody_elses_stays(folder, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text("{}")
    words = ["train", "margin", folder, "-o", file]
    assert run(*words).exit_code == 2 and file.read_text() == "{}"
    assert run(*words, "--force").exit_code == 0
    assert run(*words).exit_code == 0  # one of its own is replaced
    assert "legal: specdec++, margin, disco" in run("train", "svip", folder).output
    assert ".json" in run("train", "margin", folder, "-o", tmp_path / "x.txt").output
