"""N-gram lookup: its rule by hand and against the library's own class, and its text."""

import numpy as np
import pytest
import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from oracle.drafts.kinds import PromptLookup, is_lookup, lookup
from oracle.drafts.lookup import Occurrences, rounds

EOS = 9


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ([1, 2, 3, 1, 2], 5, [3, 1, 2]),  # what followed "1 2", up to the end of what is known
        ([1, 2, 3, 1, 2], 1, [3]),
        ([1, 2, 3, 4, 2, 5, 1, 2], 2, [3, 4]),  # the pair "1 2" before the single 2
        ([1, 2, 3, 7, 2, 5, 6, 2], 2, [3, 7]),  # "6 2" stands nowhere before: the first 2 decides
        ([1, 1], 5, [1]),
        ([1], 5, []),
        ([1, 2, 3], 5, []),
        ([1, 2, EOS, 4, 1, 2], 5, []),  # the first occurrence is followed by an end: no other one is tried
        ([2, EOS, 2, 4, 1, 2], 5, []),
        ([1, 2, 3, EOS, 1, 2], 5, [3]),
    ],
)
def test_candidates_by_hand(text, most, expected):
    assert Occurrences(2, {EOS}).candidates(text, most) == expected


@pytest.mark.parametrize("ngram", [1, 2, 3, 5])
@pytest.mark.parametrize("most", [1, 4, 30])
def test_candidates_are_the_librarys_as_a_text_grows(ngram, most):
    drawn = np.random.default_rng(ngram).integers(0, 10, (6, 40))  # few tokens: many repeats, and an end now and then
    found = 0
    for text in drawn.tolist():
        occurrences = Occurrences(ngram, {EOS})
        theirs = PromptLookupCandidateGenerator(torch.tensor([EOS]), most, ngram, max_length=1000)
        for size in range(1, len(text) + 1):
            ids = torch.tensor([text[:size]])
            expected = theirs.get_candidates(ids)[0][0, size:].tolist()
            assert occurrences.candidates(text[:size], most) == expected
            found += len(expected)
    assert found > 100


def test_a_growing_text_may_be_asked_for_in_leaps():
    text = np.random.default_rng(0).integers(0, 5, 60).tolist()
    leaping = Occurrences(2, ())
    for size in (3, 4, 20, 21, 60):
        assert leaping.candidates(text[:size], 8) == Occurrences(2, ()).candidates(text[:size], 8)


def test_rounds_say_what_is_accepted_and_stop_before_the_last_token():
    prompt, text = np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])
    run, said = rounds(prompt, text, 3, 2, {EOS}, limit=4)
    # Nothing but a 4 is known at first; from "4 1" on what followed the 1, then the pairs.
    assert [each.tolist() for each in said] == [[], [2, 3, 4], [3, 4, 1], []]
    assert run.tolist() == [0, 2, 1, 0]
    longer = rounds(prompt, text, 3, 2, {EOS}, limit=9)
    assert longer[1][3].tolist() == [4, 1, 2] and longer[0][3] == 0  # more tokens were allowed: it is looked up


def test_the_text_of_a_lookup():
    assert lookup("prompt-lookup") == PromptLookup(20, 2)
    assert lookup("prompt-lookup:tokens=7,ngram=3") == PromptLookup(7, 3)
    assert str(PromptLookup(7, 3)) == "prompt-lookup:tokens=7,ngram=3"
    assert is_lookup("prompt-lookup:tokens=7") and not is_lookup("prompt-lookups/model") and not is_lookup(None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prompt-lookup:token=7", "token=7"),
        ("prompt-lookup:tokens=x", "tokens=x"),
        ("prompt-lookup:tokens=3,tokens=4", "tokens=4"),
        ("prompt-lookup:tokens=0", "tokens=0 must be a whole number from 1"),
        ("prompt-lookup:ngram=1001", "ngram=1001 must be a whole number from 1 to 1000"),
    ],
)
def test_a_lookup_that_will_not_do_is_named(text, named):
    with pytest.raises(ValueError, match=named):
        lookup(text)
