"""No run of a model gives an answer out of logits that are not numbers: each says whose they are, and what to try."""

import numpy as np
import pytest
import torch
from builders.pairs import tiny_pair
from builders.tokenizers import save, word_tokenizer
from typer.testing import CliRunner

from oracle.cli import app
from oracle.collect import collect
from oracle.generate import Settings, assisted, plain
from oracle.loop import draft_and_verify
from oracle.measure import measure
from oracle.models.compat import cache_of
from oracle.models.scores import check_numbers, check_pass
from oracle.policies import parse
from oracle.timing import Clock

PROMPT = np.arange(5, 11)
OPTIONS = {"max_new_tokens": 8, "clock": Clock()}
RUNS = {
    "collect": lambda pair, path: collect(pair, [PROMPT], path, max_new_tokens=8),
    "collect assisted": lambda pair, path: collect(pair, [PROMPT], path, max_new_tokens=8, reference="assisted"),
    "measure": lambda pair, path: measure(pair, [PROMPT], ["constant:tokens=3"], max_new_tokens=8, repeats=1),
    "plain": lambda pair, path: plain(pair, PROMPT, **OPTIONS),
    "assisted": lambda pair, path: assisted(pair, PROMPT, Settings(3), **OPTIONS),
    "own loop": lambda pair, path: draft_and_verify(pair, PROMPT, parse("constant:tokens=3"), None, **OPTIONS),
}


def spoil(model, value, late):
    """Make one logit no number; ``late``: only once the text has reached its last tokens."""

    def after(module, args, kwargs, output):
        if not late or int(cache_of(output).get_seq_length()) >= len(PROMPT) + 6:
            output.logits[..., 5] = value

    model.register_forward_hook(after, with_kwargs=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("run", RUNS)
def test_every_run_refuses_and_says_whose_logits_they_are(run, role, value, tmp_path):
    if (run, role) == ("plain", "draft"):
        pytest.skip("no draft takes part")
    pair = tiny_pair("llama")
    spoil(getattr(pair, role), value, late=False)
    with pytest.raises(RuntimeError, match=f"the {role} model's logits are not numbers .*float32.*checkpoint again"):
        RUNS[run](pair, tmp_path)


@pytest.mark.parametrize("run", ["plain", "assisted", "own loop"])
def test_numbers_that_end_within_a_text_are_seen(run, tmp_path):
    pair = tiny_pair("llama")
    spoil(pair.target, float("nan"), late=True)
    with pytest.raises(RuntimeError, match="the target model's logits are not numbers"):
        RUNS[run](pair, tmp_path)


@pytest.mark.parametrize("run", RUNS)
def test_tokens_that_a_model_rules_out_are_no_fault(run, tmp_path):
    pair = tiny_pair("llama")
    for model in (pair.target, pair.draft):
        spoil(model, float("-inf"), late=False)
    RUNS[run](pair, tmp_path)


@pytest.mark.parametrize("command", ["measure --policy constant:tokens=3 --max-new-tokens 8", "calibrate"])
def test_a_command_fails_in_one_line(command, tmp_path):
    pair = tiny_pair("llama")
    with torch.no_grad():
        pair.target.lm_head.weight[5] = float("nan")
    target = save(tmp_path / "target", pair.target, word_tokenizer())
    draft = save(tmp_path / "draft", pair.draft, word_tokenizer())
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "w5 w6"}\n')
    name, *words = command.split()
    words += ["--target", target, "--draft", draft, "--dataset", tmp_path / "prompts.jsonl", "--device", "cpu"]
    done = CliRunner().invoke(app, [name, str(tmp_path / "out.json"), *map(str, words)])
    assert done.exit_code == 1, done.output
    assert "Error: the target model's logits are not numbers" in done.output
    assert not (tmp_path / "out.json").is_file()


def test_the_checks_by_hand():
    check_numbers(np.array([1.0, -2.0]), "target")
    check_numbers(np.zeros(0), "target")
    check_pass(None, "draft")
    check_pass(torch.tensor([[1.0, float("-inf")]]), "draft")
    for row in ([1.0, float("nan")], [float("inf"), 1.0], [float("-inf")] * 2):
        with pytest.raises(RuntimeError, match="draft model's"):
            check_pass(torch.tensor([row]), "draft")


def test_nothing_of_a_pass_is_kept_after_the_call():
    pair = tiny_pair("llama")
    assisted(pair, PROMPT, Settings(3), **OPTIONS)
    for model in (pair.target, pair.draft):
        assert not model._forward_hooks and not model._forward_pre_hooks
