"""A draft with a tokenizer of its own (universal assisted generation): measured by the library, refused for replay."""

import numpy as np
import pytest
import torch
from builders.pairs import tiny
from builders.tokenizers import save
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from oracle.collect import collect
from oracle.measure import measure
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.records.runs import Runs

LETTERS = ["<pad>", "<s>", "</s>", *sorted(set("abcdefgh "))]
PROMPTS = ["aaaa aaaa", "abcd abcd ab"]


def letters(*pairs):
    """A token a letter, and one for each pair of letters."""
    words = {word: number for number, word in enumerate([*LETTERS, *pairs])}
    core = Tokenizer(models.BPE(words, [(word[0], word[1]) for word in pairs], unk_token="<pad>"))
    core.decoder = decoders.Fuse()
    marks = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False, **marks)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target that reads letters, drafts that read pairs of them too, and one like the target."""
    root, short, long = tmp_path_factory.mktemp("universal"), letters(), letters("aa", "ab", "bc", "cd")
    twin = tiny(vocab=len(short))
    twin.resize_token_embeddings(len(short) + 1, mean_resizing=False)
    with torch.no_grad():
        twin.get_output_embeddings().weight[-1].zero_()
    swapped = PreTrainedTokenizerFast(tokenizer_object=_swapped(), pad_token="<pad>", eos_token="</s>")
    return {
        "target": save(root / "target", tiny(vocab=len(short)), short),
        "pairs": save(root / "pairs", tiny("gpt2", vocab=len(long), pos=4096), long),
        "twin": save(root / "twin", twin, letters("ha")),
        "short": save(root / "short", tiny("gpt2", vocab=len(long), pos=48), long),
        "swapped": save(root / "swapped", tiny(vocab=len(short)), swapped),
        "mute": save(root / "mute", tiny(vocab=30)),
    }


def _swapped():
    words = LETTERS[:3] + LETTERS[:2:-1]
    core = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, [], unk_token="<pad>"))
    core.decoder = decoders.Fuse()
    return core


@pytest.mark.filterwarnings("ignore")
def test_it_is_measured_in_target_tokens(folders, tmp_path):
    pair = load_pair(target=folders["target"], draft=folders["pairs"], universal=True)
    policies = ["constant:tokens=3", "dynamic:threshold=0.3", "heuristic", "random:tokens=6"]
    measure(pair, PROMPTS, policies, tmp_path / "runs", repeats=1, max_new_tokens=20)
    runs = Runs.load(tmp_path / "runs")
    assert all(call.equal and call.generator == "library" for call in runs.calls)
    constant = runs.of("constant:tokens=3")
    # Three tokens of the draft, which may be two letters each, are up to six of the target's.
    drafted = np.concatenate([call.drafted for call in constant])
    assert 3 < drafted.max() <= 20 and drafted.min() == 0
    assert all((call.draft_seconds >= 0).all() and call.draft_seconds.sum() > 0 for call in constant)
    assert runs.meta["draft"]["kind"] == "other-tokenizer"
    assert runs.meta["policies"]["dynamic:threshold=0.3"]["threshold"] == 0.3


@pytest.mark.filterwarnings("ignore")
def test_a_draft_that_says_the_same_is_accepted(folders):
    pair = load_pair(target=folders["target"], draft=folders["twin"], universal=True)
    runs = measure(pair, PROMPTS, ["constant:tokens=4"], repeats=1, max_new_tokens=20)
    calls = runs.of("constant:tokens=4")
    assert all(call.equal for call in calls)
    assert sum(call.accepted.sum() for call in calls) > 0


@pytest.mark.filterwarnings("ignore")
def test_where_the_library_hands_the_draft_more_than_it_can_read_that_is_said(folders):
    pair = load_pair(target=folders["target"], draft=folders["short"], universal=True)
    with pytest.raises(RuntimeError, match=r"failed to translate between the tokenizers .* \(IndexError: "):
        measure(pair, ["abcdabcd" * 3], ["constant:tokens=9"], repeats=1, max_new_tokens=24)


@pytest.mark.filterwarnings("ignore")
def test_it_is_not_recorded_and_the_reason_is_said(folders, tmp_path):
    pair = load_pair(target=folders["target"], draft=folders["pairs"], universal=True)
    with pytest.raises(ValueError, match=r"tokenised anew in windows .* `oracle measure --universal` clocks it"):
        collect(pair, PROMPTS, tmp_path / "trace")
    assert not (tmp_path / "trace").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("policy", ["svip", "staircase", "roc"])
def test_policies_of_the_own_loop_are_refused(folders, policy):
    pair = load_pair(target=folders["target"], draft=folders["pairs"], universal=True)
    with pytest.raises(ValueError, match="this draft has a tokenizer of its own; take constant, dynamic"):
        measure(pair, PROMPTS, [policy], repeats=1, max_new_tokens=8)


@pytest.mark.filterwarnings("ignore")
def test_two_models_of_one_size_would_not_be_translated(folders):
    pair = load_pair(target=folders["target"], draft=folders["swapped"], universal=True)
    with pytest.raises(ValueError, match="12 embedding rows each: the library takes that for one tokenizer"):
        measure(pair, PROMPTS, ["constant"], repeats=1, max_new_tokens=8)


def test_without_the_word_other_tokenizers_are_refused_and_the_word_is_named(folders):
    with pytest.raises(ValueError, match="the tokenizers differ: .* only measure it .`oracle measure --universal`"):
        load_pair(target=folders["target"], draft=folders["swapped"])


def test_both_models_need_a_tokenizer(folders):
    with pytest.raises(ValueError, match="mute has no tokenizer: universal assisted generation translates"):
        load_pair(target=folders["target"], draft=folders["mute"], universal=True)


def test_an_ordinary_pair_shares_its_ids():
    model = tiny()
    assert Pair(model, model).drafting.shares_ids
