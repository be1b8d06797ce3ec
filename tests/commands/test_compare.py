"""`oracle compare` and `oracle.compare_traces`: two traces of the same prompts."""

import dataclasses
import json

import pytest
from builders.traces import EOS, pattern
from test_cli import run

import oracle
from oracle.records.trace import write_meta, write_part


def model(name, letter):
    return {"model": name, "weights_sample_sha256": letter * 64, "dtype": "float32"}


@pytest.fixture
def folders(tmp_path):
    """The same trace twice, of two drafts by name and weights."""
    for name, letter in (("small", "b"), ("other", "c")):
        meta = {"eos_token_ids": [EOS], "max_overrun": 9, "target": model("org/big", "a")}
        (tmp_path / name).mkdir()
        write_meta(tmp_path / name, meta | {"draft": model(f"org/{name}", letter)})
        branches = {at: [(1, 0.9)] * 9 for at in range(9)}
        rows = [pattern(text, index=n, overruns=branches) for n, text in enumerate(["++++", "+-+-", "+--+"])]
        write_part(tmp_path / name, 0, [dataclasses.replace(row, id=f"p{row.index}") for row in rows])
    return tmp_path / "small", tmp_path / "other"


def test_the_python_face_takes_paths_and_one_cost_or_two(folders):
    found = oracle.compare_traces(*folders, ["constant:tokens=1"], [0.1, 0.2])
    assert found.rows[0].ratio.value < 1
    assert oracle.compare_traces(*folders, ["constant:tokens=1"]).rows[0].ratio.value == 1
    with pytest.raises(ValueError, match="3 costs given"):
        oracle.compare_traces(*folders, ["none"], [1, 2, 3])


def test_the_command_for_people_and_programs(folders):
    words = ["compare", *folders, "-p", "constant:tokens=1", "-p", "dynamic:threshold=0.6,tokens=10"]
    done = run(*words, "--draft-cost", "0.1", "--draft-cost", "0.6", env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    table = done.stdout.partition("On the ")[2].partition("Compared")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert "Compared: draft: org/small / org/other (A / B)." in done.stdout
    assert "B less A +0.0" in done.stdout
    answer = json.loads(run(*words, "--json").stdout)
    assert answer["prompts"] == 3 and answer["rows"][0]["ratio"]["value"] == 1
    assert answer["differences"] == [{"what": "draft", "first": "org/small", "second": "org/other"}]
    for wrong, message in (
        (["--draft-cost", "1", "--cost", "x.json"], "exclude each other"),
        (["--draft-cost", "1"] * 3, "--draft-cost is given 3 times"),
        (["--any-cost"], "give --cost FILE too"),
    ):
        done = run(*words, *wrong)
        assert done.exit_code == 2 and message in done.stderr
