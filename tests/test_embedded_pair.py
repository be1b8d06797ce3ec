"""The pair that is shipped, and the code that made it."""

import ast
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from oracle.prompts.sets import load_prompts

DATA = Path(__file__).parent.parent / "data"
sys.path.append(str(DATA))

import pair_check  # noqa: E402
import pair_corpus  # noqa: E402
import pair_distil  # noqa: E402
import pair_optimiser  # noqa: E402
import pair_training  # noqa: E402

PAIR = DATA / "pair"


def small(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return LlamaForCausalLM(pair_training.llama(layers=1, width=8, heads=2))


@pytest.fixture(scope="module")
def pair() -> list:
    return [AutoModelForCausalLM.from_pretrained(PAIR / n, dtype=torch.float32).eval() for n in ("target", "draft")]


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(PAIR / "target")


# The shipped files


def test_the_pair_is_small_enough_to_ship():
    assert pair_check.megabytes(PAIR) < 20


@pytest.mark.parametrize("name", ["target", "draft"])
def test_defaults_are_greedy_and_padding_is_eos(name):
    settings = json.loads((PAIR / name / "generation_config.json").read_text())
    settings.pop("transformers_version")
    assert settings == {"do_sample": False, "eos_token_id": 0, "pad_token_id": 0}
    assert json.loads((PAIR / name / "config.json").read_text())["dtype"] == "float16"


def test_both_share_one_vocabulary(pair, tokenizer):
    assert (PAIR / "target/tokenizer.json").read_bytes() == (PAIR / "draft/tokenizer.json").read_bytes()
    assert [m.get_input_embeddings().num_embeddings for m in pair] == [len(tokenizer)] * 2
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == 0 and tokenizer.bos_token_id is None


@pytest.mark.parametrize("text", ["def f(x):\n\treturn  x\n\n", "  a and b  ", "naïve – 東京 🙂", "a\r\nb", ""])
def test_decoding_gives_back_the_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("name", ["demo-code", "demo-text"])
def test_answers_and_agreement_are_worth_looking_at(pair, tokenizer, name):
    prompts = [tokenizer.encode(prompt.text) for prompt in load_prompts(name, limit=6)]
    texts = pair_distil.say(pair[0], prompts, new_tokens=32)
    found = pair_check.figures(pair[1], texts)
    assert found.prompts == 6 and 0.4 < found.agreement < 0.95


def test_the_draft_is_far_cheaper(pair):
    flops = [m.num_parameters() for m in pair]
    assert flops[1] < 0.15 * flops[0]


# The corpus


@pytest.mark.parametrize(("demo", "form"), [("demo-code", "code"), ("demo-text", "text")])
def test_training_prompts_have_the_form_of_the_demo_prompts(demo, form):
    rows = [json.loads(line) for line in (DATA / f"{demo}.jsonl").read_text().splitlines()]
    if form == "code":
        made = [pair_corpus.code_prompt(row["text"], row["test_list"][0]) for row in rows]
    else:
        made = [pair_corpus.text_prompt(row["instruction"], row["input"]) for row in rows]
    assert made == [prompt.text for prompt in load_prompts(demo)]


def test_a_documented_function_becomes_a_code_and_a_text_document():
    source = '''
def double_all(numbers):
    """Return twice each of the numbers, in the order in which they were given to the function by its caller.

    >>> double_all([1])
    [2]
    """
    doubled = [2 * number for number in numbers]  # a comment
    if not doubled: return None
    return doubled
'''
    made = list(pair_corpus.module_documents("sums", ast.parse(source), random.Random(0)))
    code = next(d for d in made if d.form == "code")
    assert "twice each of the numbers" in code.prompt and code.prompt.endswith('\nassert double_all([1]) == [2]\n"""\n')
    assert code.answer == (
        "def double_all(numbers):\n    doubled = [2 * number for number in numbers]\n"
        "    if not doubled:\n        return None\n    return doubled"
    )
    text = next(d for d in made if d.form == "text")
    assert text.answer.startswith("\nReturn twice each") and "double_all" in text.prompt


def test_methods_are_dedented_and_tests_left_out():
    tree = ast.parse("class A:\n    @property\n    def b_c(self):\n        return 1\n")
    node = dict((n.name, n) for _, n in pair_corpus.definitions("m", tree))["b_c"]
    assert pair_corpus.source_without_docstring(node) == "def b_c(self):\n    return 1"
    names = [name for name, _ in pair_corpus.standard_library()]
    assert "json.decoder" in names and not any("test" in name.split(".") for name in names)


# Optimiser and loop


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 16, 8), (2, 8, 16)])
def test_orthogonal_brings_singular_values_near_one(shape):
    torch.manual_seed(0)
    found = pair_optimiser.orthogonal(torch.randn(shape))
    values = torch.linalg.svdvals(found)
    assert found.shape == shape and values.min() > 0.3 and values.max() < 1.3


def test_rate_rises_then_falls_to_zero():
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule, rates = pair_optimiser.linear_to_zero(optimiser, steps=100), []
    for _ in range(100):
        rates.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0] and np.argmax(rates) in (3, 4) and rates[-1] == pytest.approx(1 / 96)


def test_each_parameter_has_one_optimiser():
    model = small()
    given = [p for o in pair_optimiser.optimisers(model, 0.1, 0.1) for group in o.param_groups for p in group["params"]]
    assert {id(p) for p in given} == {id(p) for p in model.parameters()} and len(given) == len(list(model.parameters()))


def test_a_resumed_training_ends_where_an_uninterrupted_one_does(tmp_path):
    rows = torch.randint(1, 4096, (60, 2, 6), generator=torch.Generator().manual_seed(0))

    def run(name: str, stop: int | None, resume: bool) -> list[torch.Tensor]:
        model = small(seed=7 if resume else 0)

        def losses(step: int) -> list:
            if step == stop:
                raise KeyboardInterrupt
            return [lambda row=row: model(input_ids=row[None], labels=row[None]).loss for row in rows[step]]

        log = pair_training.Log(tmp_path / name, resume, lambda: 0.0)
        try:
            pair_training.train(model, 60, losses, (0.02, 4e-3), log)
        except KeyboardInterrupt:
            return []
        return [p.detach().clone() for p in model.parameters()]

    whole = run("whole", None, False)
    run("cut", 55, False)
    for one, other in zip(whole, run("cut", None, True), strict=True):
        torch.testing.assert_close(one, other)
    assert len((tmp_path / "whole/losses.jsonl").read_text().splitlines()) == 2


def test_resuming_without_a_checkpoint_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="start without --resume"):
        pair_training.train(small(), 1, lambda step: [], (0.1, 0.1), pair_training.Log(tmp_path, True, lambda: 0.0))


# Distillation and check


def test_texts_hold_what_plain_greedy_decoding_says(tmp_path):
    model, prompts = small().eval(), [[5, 6, 7, 8], [9, 10]]
    texts = pair_distil.say(model, prompts, new_tokens=5)
    texts.save(tmp_path / "texts.npz")
    texts = pair_distil.Texts.load(tmp_path / "texts.npz")
    for prompt, ids, answered in zip(prompts, texts.ids, texts.answered, strict=True):
        alone = model.generate(torch.tensor([prompt]), max_new_tokens=5, do_sample=False)[0].tolist()
        assert ids[: len(alone)].tolist() == alone
        assert np.flatnonzero(answered).tolist() == list(range(len(prompt) - 1, len(alone) - 1))
        assert pair_check.agreement(model, ids, answered).all()
    assert texts.top_ids[:, 0].tolist() == [
        i for ids, a in zip(texts.ids, texts.answered, strict=True) for i in ids[1:][a[:-1]]
    ]


def test_distillation_loss_is_lowest_for_the_target_itself():
    target, other = small().eval(), small(seed=1).eval()
    texts = pair_distil.say(target, [[5, 6, 7, 8], [9, 10], [11]], new_tokens=4)
    rows = np.array([2, 0])
    with torch.inference_mode():
        assert pair_distil.distillation_loss(target, texts, rows) < pair_distil.distillation_loss(other, texts, rows)


def test_joined_texts_keep_every_row():
    first, second = (pair_distil.say(small(), [prompt], new_tokens=3) for prompt in ([5], [6, 7, 8]))
    both = pair_distil.join([first, second])
    assert both.ids.shape == (2, 6) and both.answered.sum() == len(both.top_ids)
    assert both.ids[0, :4].tolist() == first.ids[0].tolist() and both.ids[1].tolist() == second.ids[0].tolist()


@pytest.mark.parametrize(("answer", "expected"), [([1, 2, 3, 4, 5, 6], False), ([1] * 7, True), ([1], False)])
def test_repetitive_answers(answer, expected):
    assert pair_check.is_repetitive(answer) is expected
