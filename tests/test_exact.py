"""Replay equals transformers' own assisted generation, iteration by iteration, in float32."""

import dataclasses
import itertools

import numpy as np
import pytest
from builders.learners import LEARNING
from builders.pairs import set_eos, tiny_pair

from analysis.cost import CostModel
from analysis.replay.simulate import replay
from analysis.train.fitting import train
from oracle.collect import collect
from oracle.generate import assisted
from oracle.loop import draft_and_verify
from oracle.models.pairs import load_pair
from oracle.policies import POLICIES as LISTED
from oracle.policies import Policy, parse
from oracle.policies.contract import after_prompt, unseen
from oracle.policies.library import has_scikit_learn, settings_of, state_left
from oracle.policies.semantics import under
from oracle.prompts.sets import load_prompts
from oracle.records.trace import Trace
from oracle.timing import Clock

KINDS = ("llama", "opt", "gpt_neox", "codegen")
POLICIES = (
    "constant:tokens=1",
    "constant:tokens=3",
    "constant:tokens=5",
    "constant:tokens=20",
    "dynamic:threshold=0.2",
    "dynamic:threshold=0.4",
    "dynamic:threshold=0.8",
    "dynamic:threshold=0.2,tokens=5",
    "dynamic:threshold=0.4,tokens=5",
    "dynamic:threshold=0.8,tokens=5",
    "heuristic:tokens=5",
    "heuristic:tokens=20",
    "heuristic:tokens=5,threshold=0.4",
    "heuristic:tokens=20,threshold=0.4",
    "heuristic_transient:tokens=5",
    "random:tokens=7",
    "roc",
)
WITH_EOS = (
    "constant:tokens=5",
    "dynamic:threshold=0.4",
    "heuristic:tokens=5",
    "heuristic:tokens=20,threshold=0.4",
    "roc",
)
PROMPTS = tuple(tuple(np.random.default_rng(size).integers(2, 97, size).tolist()) for size in (6, 9, 4))


def recorded(pair, path, limit, prompts=PROMPTS):
    collect(pair, [list(prompt) for prompt in prompts], path, max_new_tokens=limit, max_overrun=64)
    return Trace.load(path)


def late_token(trace):
    """The token whose first appearance in a text is the latest: as an EOS it ends that text there."""
    texts = [trace.target_tokens[a:b].tolist() for a, b in itertools.pairwise(trace.offsets)]
    at, token = max((text.index(token), token) for text in texts for token in text)
    assert 2 <= at < len(texts[0]) - 1
    return token


@pytest.fixture(scope="module", params=KINDS)
def tiny(request, tmp_path_factory):
    """A pair of each kind and its trace."""
    pair = tiny_pair(request.param)
    limit = 48 if request.param == "llama" else 24
    prompts = PROMPTS if request.param == "llama" else PROMPTS[:2]
    return pair, recorded(pair, tmp_path_factory.mktemp(request.param), limit, prompts)


@pytest.fixture(scope="module", params=KINDS)
def tiny_with_eos(request, tmp_path_factory):
    """The same with an end-of-text token taken from the middle of a text."""
    pair = tiny_pair(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    set_eos(pair, late_token(recorded(pair, folder / "open", 32, PROMPTS[:2])))
    return pair, recorded(pair, folder / "ends", 32, PROMPTS[:2])


def prompt_of(trace, number):
    return trace.prompt_tokens[trace.prompt_offsets[number] : trace.prompt_offsets[number + 1]]


def real(pair, trace, policy):
    """(position, drafted, accepted) of every iteration of the library's own run, and its texts, prompt by prompt."""
    policy = under(policy)
    rows, texts, state = [], [], policy.start(1)
    for number in range(trace.prompts):
        settings = settings_of(policy, state)
        limit = int(trace.max_new_tokens[number])
        seen = assisted(pair, prompt_of(trace, number), settings, max_new_tokens=limit, clock=Clock())
        left = seen.tokens_after, len(seen.iterations["drafted"]), seen.threshold_after
        state = after_prompt(policy, state_left(policy, state, *left))
        rows += [(number, *row) for row in zip(*(seen.iterations[name].tolist() for name in COLUMNS), strict=True)]
        texts.append(seen.tokens.tolist())
    return rows, texts, state


COLUMNS = ("position", "drafted", "accepted")


def replayed(trace, policy, cost=None):
    at, drafted, _, _ = replay(trace, under(policy), cost)
    prompt = trace.prompt_of[at]
    accepted = np.minimum(drafted, trace.accepted_run[at])
    return list(
        zip(*(column.tolist() for column in (prompt, at - trace.offsets[prompt], drafted, accepted)), strict=True)
    )


def texts_of(trace):
    return [trace.target_tokens[a:b].tolist() for a, b in itertools.pairwise(trace.offsets)]


def check(pair, trace, text):
    policy = parse(text)
    rows, texts, _ = real(pair, trace, policy)
    assert rows == replayed(trace, policy)
    assert texts == texts_of(trace)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_iteration_is_replayed(tiny, policy):
    check(*tiny, policy)


@pytest.mark.parametrize("policy", WITH_EOS)
def test_end_of_text_in_the_middle(tiny_with_eos, policy):
    pair, trace = tiny_with_eos
    assert "eos" in trace.finish
    check(pair, trace, policy)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """The shipped pair, on one prompt that asks for code and one in words."""
    pair = load_pair("demo", device="cpu")
    prompts = [next(iter(load_prompts(name, limit=1))) for name in ("demo-code", "demo-text")]
    path = tmp_path_factory.mktemp("embedded")
    collect(pair, prompts, path, max_new_tokens=28, max_overrun=64)
    return pair, Trace.load(path)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_embedded_pair_is_replayed(embedded, policy):
    check(*embedded, policy)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("policy", ["constant:tokens=5", "dynamic", "heuristic:tokens=20"])
def test_short_limits_clip_the_draft(limit, policy, tmp_path):
    pair = tiny_pair("llama")
    trace = recorded(pair, tmp_path, limit)
    check(pair, trace, policy)
    assert replayed(trace, parse(policy))[0][2] <= limit - 1


def test_the_heuristic_leaves_its_length_to_the_next_prompt(tmp_path):
    pair = tiny_pair("llama")
    trace = recorded(pair, tmp_path, 32)
    policy = parse("heuristic:tokens=5")
    before = pair.draft.generation_config.num_assistant_tokens
    left = real(pair, trace, policy)[2]
    state = policy.start(1)
    for _, _, drafted, accepted in replayed(trace, policy):
        drafted, accepted = np.array([drafted]), np.array([accepted])
        state = policy.update(state, drafted, accepted, unseen(drafted))
    assert left.tokens == state.tokens != 5
    assert pair.draft.generation_config.num_assistant_tokens == before  # the caller's own config is untouched


def test_a_fixed_threshold_is_fixed_whether_or_not_scikit_learn_is_there(tmp_path, monkeypatch):
    if not has_scikit_learn():
        pytest.skip("needs scikit-learn (the test extra has it)")
    pair = tiny_pair("llama")
    trace = recorded(pair, tmp_path, 48)
    fixed, adaptive = parse("dynamic:threshold=0.4"), parse("roc:threshold=0.4")
    assert replayed(trace, fixed) != replayed(trace, adaptive)
    assert real(pair, trace, adaptive)[0] == replayed(trace, adaptive)
    settings = settings_of(adaptive)
    monkeypatch.setattr("transformers.generation.candidate_generator.is_sklearn_available", lambda: False)
    assert real(pair, trace, fixed)[0] == replayed(trace, fixed)
    # Without scikit-learn the library's adaptive threshold stands still without a word: then it is the fixed one.
    seen = assisted(pair, prompt_of(trace, 0), settings, max_new_tokens=48, clock=Clock())
    assert set(seen.iterations["threshold"]) == {0.4}


@dataclasses.dataclass(frozen=True)
class LastTwo(Policy):
    """A rule of a user's own: stop after two tokens in a row that are not likely."""

    def budget(self, state):
        return 9

    def stop(self, signals, state):
        unlikely = signals.confidence < 0.5
        unlikely[:, 1:] &= unlikely[:, :-1]
        unlikely[:, :1] = False
        return unlikely


DROPPING = ("p-min:n_max=5,p_min=0.3", "p-min:n_max=6,n_min=2,p_min=0.5", "p-min:n_max=4,n_min=3,p_min=0")


@pytest.mark.parametrize("rule", [*map(parse, (*LISTED, *DROPPING, *LEARNING)), LastTwo()], ids=str)
def test_our_own_loop_equals_the_replay_and_so_the_library(tiny, rule):
    check_loop(*tiny, rule)


@pytest.mark.parametrize(
    "policy", ["expected-gain", "margin:warmup=2,rate=1", "ucb:arms=1/8", "exp3:arms=1/8", "tapout:arms=1/8"]
)
def test_our_own_loop_asks_for_the_prices_that_the_replay_is_told(embedded, policy):
    curve = CostModel(draft=0.05, verify=((1, 1.0), (4, 1.1), (8, 9.0)), iteration=0.2)
    assert check_loop(*embedded, parse(policy), curve) != check_loop(*embedded, parse(policy))


@pytest.mark.parametrize("policy", ["specdec++", "margin"])
def test_a_trained_policy_runs_in_our_own_loop_as_it_replays(tiny, policy, tmp_path):
    train(tiny[1], policy, 9).head.save(tmp_path / "head.json")
    check_loop(*tiny, parse(f"{policy}:tokens=9,file={tmp_path / 'head.json'},in_sample=True"))


def test_disco_runs_in_our_own_loop_as_it_replays(tiny, tmp_path):
    """On the largest probabilities that collecting recorded, in text and overruns."""
    pair, trace = tiny
    prompts = [prompt_of(trace, number).tolist() for number in range(trace.prompts)]
    limit = int(trace.max_new_tokens[0])
    collect(pair, prompts, tmp_path / "t", max_new_tokens=limit, max_overrun=64, top_k=10)
    found = Trace.load(tmp_path / "t")
    assert np.allclose(found.extra["draft_top"].values[::10], found.confidence, atol=1e-6)
    train(found, "disco", 9).head.save(tmp_path / "head.json")
    policy = parse(f"disco:tokens=9,threshold=0.6,file={tmp_path / 'head.json'},in_sample=True")
    rows = check_loop(pair, found, policy)
    assert 1 < len({row[2] for row in rows})  # it stops here and there


def check_loop(pair, trace, rule, cost=None):
    """The iterations of the loop, which are those of the replay."""
    rule = under(rule)  # as the installed release has it, which is what is replayed
    rows, texts, state = [], [], rule.start(1, cost)
    for number in range(trace.prompts):
        limit = int(trace.max_new_tokens[number])
        seen, state = draft_and_verify(pair, prompt_of(trace, number), rule, state, max_new_tokens=limit, clock=Clock())
        state = after_prompt(rule, state, cost)
        columns = (seen.iterations[name].tolist() for name in (*COLUMNS, "passes"))
        rows += [(number, *row) for row in zip(*columns, strict=True)]
        texts.append(seen.tokens.tolist())
    # Which equals the library, where it has the policy: see above.
    assert [row[:4] for row in rows] == replayed(trace, rule, cost)
    assert [row[4] for row in rows] == replay(trace, rule, cost).passes.tolist()
    assert texts == texts_of(trace)
    return rows


@pytest.mark.parametrize("policy", ["constant:tokens=5", "dynamic"])
def test_our_own_loop_ends_at_the_end_of_the_text(tiny_with_eos, policy):
    pair, trace = tiny_with_eos
    rule = parse(policy)
    for number in range(trace.prompts):
        seen, _ = draft_and_verify(
            pair, prompt_of(trace, number), rule, rule.start(1), max_new_tokens=32, clock=Clock()
        )
        assert seen.tokens.tolist() == texts_of(trace)[number]
        expected = [row[1:] for row in replayed(trace, rule) if row[0] == number]
        assert list(zip(*(seen.iterations[name].tolist() for name in COLUMNS), strict=True)) == expected


def test_identical_models_accept_everything(tmp_path):
    target = tiny_pair("llama").target
    pair = type(tiny_pair("llama"))(
        target, target, None
    )  # one and the same object: its passes as a draft are told apart
    trace = recorded(pair, tmp_path, 40, PROMPTS[:1])
    check(pair, trace, "constant:tokens=4")
    rows = replayed(trace, parse("constant:tokens=4"))
    assert all(drafted == accepted == 4 for _, _, drafted, accepted in rows[:-1])
