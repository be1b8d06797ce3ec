"""The walk: over architectures and policies, a replay of a collected trace is the library's own run, all iterations.

In float32, 100 % of the iterations.  Prompts lie on both sides of the windows of those that have one (8 positions).
Our own loop runs what the library lacks.  To add an architecture, add its name to ``WALKED`` (and its configuration to
``builders.pairs`` or ``builders.architectures``).
"""

import numpy as np
import pytest
from builders.architectures import READ, built
from builders.pairs import CONFIGS, noisy, tiny_pair
from test_exact import check, check_loop, recorded, replayed

from oracle.models.pair import Pair
from oracle.policies import parse
from oracle.policies.library import has_scikit_learn

WALKED = (
    "llama", "opt", "codegen", "gpt_neox", "gpt_bigcode", "gpt2", "qwen2", "qwen3", "mistral", "gemma2", "gemma3",
)  # fmt: skip
WINDOWED = {"mistral", "gemma2", "gemma3"}
OF_THE_LIBRARY = (
    "constant:tokens=1",
    "constant:tokens=3",
    "constant:tokens=20",
    "heuristic:tokens=5",
    "heuristic_transient:tokens=5",
    "heuristic:tokens=20,threshold=0.4",
    "dynamic:threshold=0.2",
    "dynamic:threshold=0.4",
    "dynamic:threshold=0.6,tokens=8",
    "dynamic:threshold=0.9",
    "roc",
    "roc:threshold=0.6,tokens=6",
)
OF_OUR_LOOP = ("svip", "adaedl")
SIZES = (4, 12)  # prompt tokens: within a window of 8, and beyond it from the start
NEW = 16


@pytest.fixture(scope="module", params=WALKED)
def walked(request, tmp_path_factory):
    """A pair of that architecture, its draft a noised copy of its target, and its trace."""
    kind = request.param
    if kind in CONFIGS:
        pair = tiny_pair(kind)
    else:
        target = built(READ[kind]())
        pair = Pair(target, noisy(target), None, kind)
    prompts = [np.random.default_rng(size).integers(11, 97, size).tolist() for size in SIZES]
    return pair, recorded(pair, tmp_path_factory.mktemp(kind), NEW, prompts)


@pytest.mark.parametrize("policy", OF_THE_LIBRARY)
def test_a_replay_is_the_librarys_own_run(walked, policy):
    if policy.startswith("roc") and not has_scikit_learn():
        pytest.skip("needs scikit-learn (the test extra has it)")
    check(*walked, policy)


@pytest.mark.parametrize("policy", OF_OUR_LOOP)
def test_a_replay_is_our_own_loop(walked, policy):
    check_loop(*walked, parse(policy))


def test_the_walk_says_something(walked):
    """The draft is neither the target nor nothing like it, and windows are met from both sides."""
    pair, trace = walked
    rows = replayed(trace, parse("constant:tokens=3"))
    accepted, drafted = sum(row[3] for row in rows), sum(row[2] for row in rows)
    assert 0 < accepted < drafted
    window = getattr(pair.target.config, "sliding_window", None)
    assert (window == 8) is (pair.name.removeprefix("tiny-") in WINDOWED)
