"""What is pasted into each engine."""

import json

import pytest

from oracle.policies import POLICIES, parse
from oracle.policies.library import settings_of
from oracle.settings import nearest, settings

ENGINES = ["transformers", "vllm", "llama.cpp", "sglang"]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_engine_says_what_there_is_or_why_not(policy):
    found = settings(policy)
    assert [each.engine for each in found] == ENGINES
    assert all(each.version and each.note.endswith(".") and each.text != "" for each in found)


def of(policy, engine):
    return settings(policy)[ENGINES.index(engine)]


def fragment(text):
    return json.loads(text[text.index("{") : text.index("}") + 1])


@pytest.mark.parametrize("policy", ["constant:tokens=7", "heuristic", "heuristic_transient", "dynamic", "roc"])
def test_the_fragment_makes_transformers_follow_the_policy(policy):
    """Read back by the library itself, it says what the generator is set to when the policy is measured."""
    pytest.importorskip("sklearn")
    from transformers import GenerationConfig

    read = GenerationConfig.from_dict(fragment(of(policy, "transformers").text))
    expected = settings_of(parse(policy))
    assert read.num_assistant_tokens == expected.tokens
    assert read.num_assistant_tokens_schedule == expected.schedule
    assert read.assistant_confidence_threshold == expected.threshold
    assert "assistant_model=draft" in of(policy, "transformers").text


def test_a_threshold_comes_with_what_scikit_learn_does_to_it():
    assert "scikit-learn" in of("dynamic", "transformers").note and "scikit-learn" in of("roc", "transformers").note
    assert "scikit-learn" not in of("constant", "transformers").note
    assert "silently ignored" in of("constant", "transformers").note


def test_the_flags_of_a_constant():
    config = fragment(of("constant:tokens=4", "vllm").text)
    assert config == {"method": "draft_model", "model": "DRAFT", "num_speculative_tokens": 4}
    assert "--spec-draft-n-max 4 --spec-draft-n-min 0 --spec-draft-p-min 0" in of("constant:tokens=4", "llama.cpp").text
    assert "--speculative-num-steps 4 --speculative-eagle-topk 1 --speculative-num-draft-tokens 5" in (
        of("constant:tokens=4", "sglang").text
    )


def test_a_rule_that_only_one_engine_has():
    own = of("p-min:n_max=9,n_min=2,p_min=0.6", "llama.cpp")
    assert own.note == "The same rule." and "n-max 9 --spec-draft-n-min 2 --spec-draft-p-min 0.6" in own.text
    near = of("dynamic:threshold=0.3,tokens=8", "llama.cpp")
    assert near.note.startswith("Near") and "n-max 8 --spec-draft-n-min 0 --spec-draft-p-min 0.3" in near.text
    assert fragment(of("margin", "vllm").text)["enable_adaptive_verification"] is True
    assert of("dynamic", "vllm").text is of("ema", "sglang").text is of("svip", "transformers").text is None
    assert "EAGLE" in of("ema", "sglang").note


def test_what_an_engine_lacks_is_replaced_by_what_comes_nearest():
    found = dict(zip(ENGINES, nearest("survival", "constant:tokens=6", "dynamic:threshold=0.5,tokens=9"), strict=True))
    assert fragment(found["transformers"][0].text)["num_assistant_tokens"] == 9
    assert "Not distinguishable from survival, dynamic:threshold=0.5,tokens=9:" in found["transformers"][1]
    assert fragment(found["vllm"][0].text)["num_speculative_tokens"] == 6
    assert found["sglang"][1].endswith("The tuned constant, constant:tokens=6:")
    assert nearest("constant", "constant:tokens=6")[1] == (of("constant", "vllm"), "The same rule.")


def test_no_draft_is_a_setting_too():
    assert all("DRAFT" not in each.text and "assistant" not in each.text for each in settings("none"))


def test_an_unknown_policy_is_said():
    with pytest.raises(ValueError, match="unknown policy 'banana'"):
        settings("banana")


LOOKUP = {"kind": "prompt-lookup", "ngram": 3}
EARLY = {"kind": "first-layers", "layers": 2}


def test_a_lookup_is_two_arguments_of_the_call():
    (found,) = settings("constant:tokens=7", LOOKUP)  # and no other engine's
    call = "prompt_lookup_num_tokens=7, max_matching_ngram_size=3, do_sample=False"
    assert found.text == f"output = target.generate(**inputs, {call})"
    assert settings("heuristic", LOOKUP)[0].text is None
    ((found, told),) = nearest("heuristic", "constant:tokens=4", draft=LOOKUP)
    assert "prompt_lookup_num_tokens=4," in found.text and "constant lengths only. The tuned constant" in told


def test_layers_of_its_own_are_set_on_the_target():
    (found,) = settings("dynamic:threshold=0.3,tokens=9", EARLY)
    assert "# in the target's generation_config.json" in found.text and "assistant_early_exit=2" in found.text
    assert fragment(found.text)["assistant_confidence_threshold"] == 0.3
    assert "scikit-learn" not in found.note  # an early exit refits nothing
    assert settings("roc", EARLY)[0].text is None


@pytest.mark.parametrize(
    ("draft", "name"),
    [(LOOKUP, "prompt_lookup_num_tokens"), (EARLY, "assistant_early_exit"), ({}, "assistant_model")],
)
def test_what_to_leave_out_is_what_asks_for_such_a_draft(draft, name):
    assert settings("none", draft)[0].note == f"No {name}: the target alone."
    assert f"{name}=" in settings("constant", draft)[0].text
