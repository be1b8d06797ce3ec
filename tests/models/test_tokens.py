"""What two tokenizers differ in, over every kind of tokenizer and every kind of difference: one table."""

import pytest
from builders.pairs import tiny, tiny_pair
from builders.tokenizers import MARKS, TOKENIZERS, save, word_tokenizer, write_tekken

from oracle.collect import collect
from oracle.measure import measure
from oracle.models.checks import check_pair, check_tokenizers
from oracle.models.loading import load_tokenizer, locate
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.models.tokens import compare
from oracle.records.trace import Trace

OTHER_SPECIAL = (*MARKS[:3], "<call>", "<unused7>")
OTHER_UNUSED = (*MARKS[:4], "<image>")
SWAPPED = {"words": ("def", "return"), "word pieces": ("d", "##d")}
# What the draft's is built with -> which kinds of differences there are.
DIFFERENCES = {
    "nothing": ({}, set()),
    "a special token": ({"marks": OTHER_SPECIAL}, {"special"}),
    "a token kept free": ({"marks": OTHER_UNUSED}, {"unused"}),
    "both": ({"marks": (*MARKS[:3], "<call>", "<image>")}, {"special", "unused"}),
    "the way of splitting": ({"whole": False}, {"split"}),
    "two tokens of text": ({"swap": ("d", "e")}, {"used"}),
}


def found_in(one, other):
    found = compare(one, other)
    return {name for name in ("used", "special", "unused", "lone", "split") if getattr(found, name)}


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_difference_is_told_for_every_kind(kind, difference):
    options, expected = DIFFERENCES[difference]
    options = dict(options, swap=SWAPPED.get(kind, ("d", "e"))) if "swap" in options else options
    ours, theirs = TOKENIZERS[kind](), TOKENIZERS[kind](**options)
    assert found_in(ours, theirs) == found_in(theirs, ours) == expected
    if "used" in expected:
        with pytest.raises(
            ValueError, match=r"the tokenizers differ: id \d+ is '.*' in the target's .*, where that is id"
        ):
            check_tokenizers(ours, theirs, allow=True)
    elif "special" in expected:
        with pytest.raises(
            ValueError, match="id 3 is '<tool>' in the target's and '<call>' in the draft's; choose .*allow"
        ):
            check_tokenizers(ours, theirs)
        assert 3 in check_tokenizers(ours, theirs, allow=True).contradicting
    else:
        assert check_tokenizers(ours, theirs).contradicting == ({4} if "unused" in expected else set())


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_token_more_is_no_contradiction(kind):
    ours, theirs = TOKENIZERS[kind](), TOKENIZERS[kind]()
    theirs.add_tokens(["<think>"], special_tokens=True)
    assert found_in(ours, theirs) == found_in(theirs, ours) == {"lone"}
    assert not check_tokenizers(ours, theirs).contradicting


def test_two_bytes_in_each_others_place_are_told_though_neither_is_a_character(tmp_path):
    """Both decode to the same replacement character."""
    found = []
    for name, swapped in (("a", ()), ("b", (150, 151))):
        (tmp_path / name).mkdir()
        folder = write_tekken(save(tmp_path / name, tiny("mistral", vocab=300)), swapped=swapped)
        found.append(load_tokenizer(str(folder), locate(str(folder))))
    assert [one.id for one in compare(*found).used] == [len(MARKS) + 150, len(MARKS) + 151]


def test_another_kind_is_refused_for_its_text():
    with pytest.raises(ValueError, match="ids stand for other text"):
        check_tokenizers(TOKENIZERS["byte level"](), TOKENIZERS["words"](), allow=True)


class Reread:
    """A tokenizer as Mistral's own programme shows it: two strings for an id, none for some, text for others."""

    def __init__(self, core):
        self._core = core

    def __getattr__(self, name):
        return getattr(self._core, name)

    def __call__(self, *words, **options):
        return self._core(*words, **options)

    def __len__(self):
        return len(self._core)

    def get_vocab(self):
        known = {self._core.decode([number]): number for number in range(6, len(self._core))}
        return {"<unk>": 0, "\ufffd": 0} | {mark: n for n, mark in enumerate(MARKS)} | known


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_tokenizer_equals_itself_however_its_strings_are_shown(kind):
    plain, shown = TOKENIZERS[kind](), Reread(TOKENIZERS[kind]())
    also = ((shown, plain), (plain, shown)) if kind == "byte level" else ()  # the one kind that two programmes read
    for ours, theirs in ((plain, plain), (shown, shown), *also):
        assert found_in(ours, theirs) == set()


def test_a_folder_with_nothing_but_tekken_has_a_tokenizer(tmp_path):
    """As the library reads it, with or without Mistral's own programme."""
    target = write_tekken(save(tmp_path / "target", tiny("mistral", vocab=300)))
    found = load_tokenizer(str(target), locate(str(target)))
    assert found is not None and len(found(" the", add_special_tokens=False)["input_ids"]) == 1
    assert compare(found, found).facts() == {}
    draft = save(tmp_path / "draft", tiny("mistral", vocab=300), word_tokenizer())
    with pytest.raises(ValueError, match="the tokenizers differ"):
        load_pair(target=target, draft=draft, device="cpu")


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox", "qwen2", "opt"])
def test_a_tokenizer_that_the_library_makes_up_is_none(kind, tmp_path):
    folder = save(tmp_path, tiny(kind))
    (folder / "special_tokens_map.json").write_text("{}")  # asks the loader, which finds nothing to read
    assert load_tokenizer(str(folder), locate(str(folder))) is None


def test_a_tokenizer_that_cannot_be_read_is_an_error_and_none_is_borrowed(tmp_path):
    target, draft = save(tmp_path / "target", tiny("llama")), save(tmp_path / "draft", tiny("llama"), word_tokenizer())
    (target / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="target: its tokenizer cannot be loaded"):
        load_pair(target=target, draft=draft, device="cpu")
    (target / "tokenizer.json").unlink()
    with pytest.warns(UserWarning, match="target has no tokenizer: the draft's .* splits the prompts"):
        pair = load_pair(target=target, draft=draft, device="cpu")
    assert pair.info == {"tokenizer": str(draft)}
    with pytest.warns(UserWarning, match="target has no tokenizer: nothing shows that its token ids mean what .*draft"):
        assert load_pair(target=draft, draft=target, device="cpu").info == {}


def marked_pair(tmp_path, marks, **options):
    pair = tiny_pair("llama")
    target = save(tmp_path / "target", pair.target, TOKENIZERS["words"]())
    draft = save(tmp_path / "draft", pair.draft, TOKENIZERS["words"](marks=marks))
    return load_pair(target=target, draft=draft, device="cpu", **options)


def test_prompts_that_hold_another_token_are_left_out_and_the_trace_says_so(tmp_path):
    with pytest.raises(ValueError, match="--allow-token-differences"):
        marked_pair(tmp_path, OTHER_SPECIAL)
    with pytest.warns(UserWarning, match="special tokens differ, which was allowed.*'<tool>'"):
        pair = marked_pair(tmp_path, OTHER_SPECIAL, allow_token_differences=True)
    prompts = ["def return", "def <tool>", [5, 3], [5, 6]]
    summary = collect(pair, prompts, tmp_path / "trace", max_new_tokens=4)
    meta = Trace.load(tmp_path / "trace").meta
    assert (summary.prompts, summary.skipped) == (2, 2)
    assert "token id 3 means another token to the draft (at index 1" in meta["skipped"][0]["reason"]
    assert meta["token_differences"] == {"special": [[3, "<tool>", "<call>"]]}
    assert meta["reading"] == {"prompts_together": True, "overruns_together": True, "remarks": []}
    runs = measure(pair, prompts, ["constant:tokens=2"], max_new_tokens=4, repeats=1)
    assert runs.meta["token_differences"] == meta["token_differences"] and len(runs.meta["skipped"]) == 2


def test_a_text_that_holds_another_token_to_the_draft_is_named(tmp_path):
    with pytest.warns(UserWarning, match="which was allowed"):
        pair = marked_pair(tmp_path, OTHER_SPECIAL, allow_token_differences=True)
    plain = collect(pair, [[5, 6], [7]], tmp_path / "plain", max_new_tokens=4)
    assert plain.facts is not None and "ended" not in plain.facts.odd
    said = next(int(token) for token in Trace.load(tmp_path / "plain").target_tokens if token > 7)
    other = Pair(pair.target, pair.draft, pair.tokenizer, contradicting=frozenset({said}))
    with pytest.warns(UserWarning, match=r"texts: . of 2 .*; \d hold a token that is another one to the draft"):
        found = collect(other, [[5, 6], [7]], tmp_path / "other", max_new_tokens=4)
    assert found.facts is not None and "ended" in found.facts.odd


def test_ids_that_a_tokenizer_keeps_free_need_no_permission(tmp_path):
    with pytest.warns(UserWarning, match="one of them does not use, and prompts that hold one are left out: id 4"):
        assert marked_pair(tmp_path, OTHER_UNUSED).contradicting == {4}


def test_special_tokens_beyond_the_drafts_rows_are_a_remark(tmp_path):
    """As of a family whose larger models see pictures: one special token behind the text."""
    pair, tokenizer = tiny_pair("llama"), word_tokenizer()
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    larger = Pair(tiny("llama", vocab=98), pair.draft, tokenizer)
    with pytest.warns(UserWarning, match=r"the draft .* has no row for special tokens, .*left out: '<image>' \(97\)"):
        check_pair(larger)
    with pytest.warns(UserWarning, match="no row"):
        summary = collect(larger, ["w5 w6", "w5 <image>"], tmp_path, max_new_tokens=3)
    meta = Trace.load(tmp_path).meta
    assert summary.skipped == 1 and "token id 97" in meta["skipped"][0]["reason"]
    assert meta["remarks"][0].startswith("the draft")
