"""A target that drafts for itself, and a draft with a tokenizer of its own, as a user types them."""

import json

import pytest
from builders.pairs import tiny
from builders.tokenizers import WORDS, save, word_tokenizer
from test_cli import run

FEW = ("--device", "cpu", "--threads", 1, "--max-new-tokens", 10, "--no-progress")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A target, a model of another tokenizer and size, and two prompts."""
    root = tmp_path_factory.mktemp("alone")
    save(root / "target", tiny("llama"), word_tokenizer())
    save(root / "other", tiny("llama", vocab=98), word_tokenizer([*WORDS[:3], *WORDS[:2:-1], "more"]))
    (root / "prompts.txt").write_text("w5 w6 w7 w5 w6 w7 w5\nw8 w9 w8 w9 w8\n")
    return root


@pytest.fixture(scope="module", params=["lookup", "layers"])
def kind(request):
    return request.param


def words(folder, kind):
    draft = {"lookup": ("--draft", "prompt-lookup:tokens=6"), "layers": ("--draft-layers", 1)}[kind]
    return ("--target", folder / "target", *draft, "--dataset", folder / "prompts.txt", *FEW)


def done(*words):
    found = run(*words)
    assert found.exit_code == 0, found.output
    return found


def test_it_is_collected_replayed_drawn_and_clocked(folder, kind, tmp_path):
    trace, runs = tmp_path / "trace", tmp_path / "runs"
    done("collect", trace, *words(folder, kind))
    said = json.loads((trace / "meta.json").read_text())["draft"]
    assert said["kind"] == {"lookup": "prompt-lookup", "layers": "first-layers"}[kind]
    assert done("simulate", trace, "--policy", "constant:tokens=3", "--json").stdout.startswith("[")
    # Without policies: those that such a draft can follow.
    for picture in ("iterations", "time", "compare"):
        done("plot", trace, picture, "--output", tmp_path / f"{picture}.svg")
    measured = json.loads(done("measure", runs, *words(folder, kind), "--repeats", 1, "--limit", 1, "--json").stdout)
    assert {each["generator"] for each in measured} == {"library"}


def test_another_tokenizer_is_clocked_and_not_recorded(folder, tmp_path):
    pair = ("--target", folder / "target", "--draft", folder / "other", "--dataset", folder / "prompts.txt", *FEW)
    once = ("--repeats", 1, "--limit", 1, "--policy", "constant:tokens=3")
    refused = run("collect", tmp_path / "trace", *pair)
    assert refused.exit_code == 2 and "oracle measure --universal" in refused.output
    assert not (tmp_path / "trace").exists()
    found = json.loads(done("measure", tmp_path / "runs", *pair, "--universal", *once, "--json").stdout)
    assert [each["policy"] for each in found] == ["constant:tokens=3"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--draft-layers", 2), "has 2 layers, of which a draft may be the first 1 to 1"),
        (("--draft-layers", 0), "--draft-layers"),
        (("--draft", "prompt-lookup:tokens=0"), "tokens=0 must be a whole number from 1 to 1000"),
        (("--draft", "prompt-lookup:words=3"), "'words=3' will not do; write it like prompt-lookup:tokens=20,ngram=2"),
        (("--draft", "prompt-lookup", "--draft-layers", 1), "exclude each other: give one of them"),
    ],
)
def test_what_will_not_do_is_one_clear_error(folder, wrong, sentence, tmp_path):
    found = run("collect", tmp_path / "trace", "--target", folder / "target", *wrong, *FEW)
    assert found.exit_code == 2 and sentence in " ".join(found.output.split()), found.output
    assert not (tmp_path / "trace").exists()


def test_a_lookup_is_assumed_to_take_no_time(folder, tmp_path):
    done("collect", tmp_path / "trace", *words(folder, "lookup"))
    found = done("simulate", tmp_path / "trace", "--policy", "constant:tokens=6")
    assert "Assuming that a lookup takes no time" in found.output
    free = json.loads(done("simulate", tmp_path / "trace", "--policy", "constant:tokens=6", "--json").stdout)[0]
    said = json.loads(
        done("simulate", tmp_path / "trace", "--policy", "constant:tokens=6", "--draft-cost", 0, "--json").stdout
    )[0]
    assert free == said and free["speedup"]["value"] >= 1
    both = done("compare", tmp_path / "trace", tmp_path / "trace", "--policy", "constant:tokens=6").output
    assert "Assuming that a lookup takes no time" in both and "for both" in both
