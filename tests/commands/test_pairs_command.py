"""``oracle pairs``, and what --pair says before it loads."""

import dataclasses
import json

import pytest
from test_cli import run

from oracle.models.named import NAMED, SHIPPED, loads, named


def test_the_table_fits_a_terminal_and_names_every_pair(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("pairs")
    lines = listed.stdout.splitlines()
    assert listed.exit_code == 0 and all(len(line) <= 80 for line in lines)
    assert {line.split()[0] for line in lines if line[:1].strip()} >= set(NAMED)
    for pair in NAMED.values():  # no name is broken over two lines
        for model in (pair.target, pair.draft):
            assert model.name.partition("/")[2] in listed.stdout
    assert "opt-6.7b+" in listed.stdout and "Llama-3.1-8B*" in listed.stdout


@pytest.mark.parametrize("name", NAMED)
def test_one_pair_is_told_in_full(name, monkeypatch):
    told = run("pairs", name)
    assert told.exit_code == 0 and all(len(line) <= 80 for line in told.stdout.splitlines())
    words = " ".join(told.stdout.split())
    pair = NAMED[name]
    for known in (pair.target.name, pair.draft.name, pair.target.licence, pair.source, *pair.remarks, *pair.tasks):
        assert known in words
    assert f"oracle collect --pair {name}" in words and "run here never" in words


def test_programs_get_the_same():
    rows = json.loads(run("pairs", "--json").stdout)
    assert [row["name"] for row in rows] == list(NAMED)
    first = rows[0]
    assert first["target"] | {"gigabytes": 0} == {
        **{key: value for key, value in dataclasses.asdict(NAMED["opt"].target).items() if key != "extra_gigabytes"},
        "gigabytes": 0,
    }
    assert first["target"]["gigabytes"] == 13.32 and not any(row["run_by_the_project"] for row in rows)
    assert [row["name"] for row in json.loads(run("pairs", "llama-3", "--json").stdout)] == ["llama-3"]


def test_another_name_is_refused():
    wrong = run("pairs", "lama-3")
    assert wrong.exit_code == 2 and "Did you mean 'llama-3'" in wrong.output
    for shipped in SHIPPED:
        told = run("pairs", shipped)
        assert told.exit_code == 2 and f"{shipped} is an embedded pair" in told.output
        assert shipped in run("pairs").stderr
    with pytest.raises(ValueError, match="no pair is called 'x'; choose one of demo, demo-t5, opt, codegen"):
        named("x")


def test_a_pair_says_what_it_loads_before_it_does(monkeypatch, tmp_path):
    def load(name, **options):
        raise RuntimeError("nothing is loaded in a test")

    monkeypatch.setattr("oracle.models.pairs.load_pair", load)
    done = run("collect", str(tmp_path / "trace"), "--pair", "opt")
    assert (
        "Loading opt: target facebook/opt-6.7b (6.66B parameters, 13 GB), draft facebook/opt-125m (125M parameters, "
        "0.25 GB); licence: OPT licence, for research that is not commercial.\n" in done.output
    )
    assert done.output.index("Loading opt") < done.output.index("nothing is loaded")
    assert loads("llama-3").endswith("gated: access is asked for on the hub")


def test_sizes_are_what_the_configurations_count():
    """Of the two architectures of the published benchmark whose numbers are the least round."""
    import torch
    from transformers import AutoModelForCausalLM, CodeGenConfig, OPTConfig

    configs = {
        NAMED["opt"].draft: OPTConfig(),  # the library's default is OPT 125M
        NAMED["codegen"].draft: CodeGenConfig(vocab_size=51200, n_embd=1024, n_layer=20, n_head=16, rotary_dim=32),
    }
    for checkpoint, config in configs.items():
        with torch.device("meta"):
            counted = AutoModelForCausalLM.from_config(config).num_parameters()
        assert counted == checkpoint.parameters, checkpoint.name
