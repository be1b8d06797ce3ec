"""``oracle tune`` as its user meets it."""

import json

from test_cli import run

from oracle.shipped import data_path


def test_the_sample_is_tuned_and_the_lines_to_paste_are_there(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    picture = tmp_path / "surface.png"
    done = run("tune", "--draft-cost", "0.1", "--plot", str(picture))
    assert done.exit_code == 0 and picture.stat().st_size > 20_000 and "using the shipped sample" in done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "[" in line and "--" not in line)
    for words in (
        "Use dynamic:threshold=",
        "Optimism:",
        '"num_assistant_tokens": ',
        "assistant_model=draft",
        "vllm serve",
    ):
        assert words in done.stdout
    assert "The tuned constant, constant:tokens=6:" in done.stdout and "llama-server" in done.stdout


def test_programs_get_everything():
    words = ["tune", "--draft-cost", "0.1", "--policy", "svip:tokens=8", "--json"]
    answer = json.loads(run(*words).stdout)
    assert answer["tried"] == len(answer["settings"]) == 574 + 19 and answer["prompts"] == 80
    assert {each["family"] for each in answer["looks"]} == {
        "constant",
        "heuristic",
        "heuristic_transient",
        "dynamic",
        "svip",
    }
    assert len(answer["surface"]["speedup"]) == 51 and answer["policy"] in answer["group"]
    assert [each["engine"] for each in answer["paste"]] == ["transformers", "vllm", "llama.cpp", "sglang"]


def test_a_loss_is_called_one():
    done = run("tune", "--draft-cost", "3")
    assert (
        "Use no draft: nothing that was tried beats no draft" in done.stdout and "assistant_model=" not in done.stdout
    )


def test_what_will_not_do_is_one_sentence(tmp_path):
    for words, said in (
        (["--policy", "banana"], "unknown policy 'banana'"),
        (["--policy", "disco"], "policy 'disco' is a trained one: `oracle train disco OTHER-TRACE"),
        (["--folds", "1"], "--folds is 1"),
        (["--plot", str(tmp_path / "a.txt")], "name it with one of .png"),
        (["--draft-cost", "-1"], "--draft-cost is -1.0"),
    ):
        done = run("tune", *words)
        assert done.exit_code == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) <= 3


def test_plot_draws_the_surface_and_prices_belong_to_it(tmp_path):
    picture = tmp_path / "surface.svg"
    done = run("plot", str(data_path("sample")), "surface", "--draft-cost", "0.3", "-o", str(picture))
    assert done.exit_code == 0 and "may be the best" in picture.read_text(encoding="utf-8")
    refused = run("plot", "roc", "--draft-cost", "0.3", "-o", str(tmp_path / "roc.png"))
    assert refused.exit_code == 2 and "roc does not hang on --draft-cost" in refused.stderr
