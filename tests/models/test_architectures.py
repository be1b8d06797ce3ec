"""One table: what each architecture was found able to do, that it is read rightly, or in one line why it is not."""

import numpy as np
import pytest
import torch
from builders.architectures import READ, REFUSED, SWITCH, built
from builders.pairs import noisy, tiny
from builders.recomputed import expect_equals_recomputation
from builders.tokenizers import save

from oracle.collect import collect
from oracle.generate import Settings, assisted
from oracle.loop import draft_and_verify
from oracle.measure import measure
from oracle.models.abilities import Abilities, check_able
from oracle.models.decoding import neutral
from oracle.models.lengths import room, side, switch
from oracle.models.loading import load_model, locate
from oracle.models.pair import Pair
from oracle.models.view import View, views
from oracle.policies import parse
from oracle.prompts.encode import encode
from oracle.records.trace import Trace
from oracle.timing import Clock

USUAL = {
    "reads_left_to_right": True,
    "goes_on": True,
    "reads_alike_at_any_length": True,
    "takes_positions": True,
    "remembers": None,
    "obeys_masks": True,
    "rolls_back": True,
    "keeps_rows_apart": True,
}
WINDOW = {"remembers": 7, "obeys_masks": False}
UNUSUAL = {
    "lfm2": {"remembers": 0, "obeys_masks": False},
    "gemma2": WINDOW,
    "gemma3": WINDOW,
    "gemma3, pictures": WINDOW,
    "gpt-oss": WINDOW,
    "llama4": WINDOW,
    "falcon, alibi": {"obeys_masks": False},
    "gpt-neo": {"obeys_masks": False},
}
# Short ones beside long ones, on both sides of the switch, none with a picture's token.
PROMPTS = [np.random.default_rng(size).integers(11, 97, size).tolist() for size in (7, 1, SWITCH + 14, 3)]


@pytest.fixture(scope="module", params=READ)
def pair(request):
    target = built(READ[request.param]())
    return Pair(target, noisy(target), None, request.param)


@pytest.mark.filterwarnings("ignore:.*cannot continue several texts")
def test_what_was_probed_and_that_no_row_depends_on_its_neighbours(pair, tmp_path):
    with neutral(pair):
        can = Abilities(views(pair)[1], 60)
        assert {name: getattr(can, name) for name in USUAL} == USUAL | UNUSUAL.get(pair.name, {})
    collect(pair, PROMPTS, tmp_path, max_new_tokens=12, max_overrun=4)
    trace = Trace.load(tmp_path)
    read = [row for row in PROMPTS if pair.name != "llama, dynamic rope" or len(row) < SWITCH]
    assert trace.prompts == len(read)
    expect_equals_recomputation(pair, trace, read, 4)
    together = trace.meta["reading"]["overruns_together"]
    assert together is (pair.name not in UNUSUAL) and bool(trace.meta["reading"]["remarks"]) is not together


def test_the_librarys_own_run_and_ours_write_the_same_text(pair):
    with torch.inference_mode():
        prompt = np.array(PROMPTS[0])
        limit = encode(pair, [PROMPTS[0]], 12)[0][0].max_new_tokens
        real = assisted(pair, prompt, Settings(tokens=3), max_new_tokens=limit, clock=Clock())
        ours, _ = draft_and_verify(pair, prompt, parse("constant:tokens=3"), max_new_tokens=limit, clock=Clock())
    assert real.tokens.tolist() == ours.tokens.tolist()
    assert real.iterations["accepted"].tolist() == ours.iterations["accepted"].tolist()


@pytest.mark.parametrize("kind", ["mistral3", "qwen2.5-vl", "gemma3, pictures", "llava"])
def test_a_model_that_sees_is_loaded_for_its_text(kind, tmp_path):
    save(tmp_path, built(READ[kind]()))
    model = load_model(str(tmp_path), locate(str(tmp_path)), "float32", "cpu")
    assert type(model).__name__.endswith("ForConditionalGeneration") and not model.training


WHY = {
    "openai-gpt": "cannot go on from what it has read",
    "xlnet": "cannot go on from what it has read",
    "minimax": "cannot go on from what it has read .*MiniMax uses cache of its own",
    "paligemma": "lets later tokens change what it says of earlier ones",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(kind, tmp_path):
    model = built(REFUSED[kind]())
    why = WHY.get(kind, "keeps a recurrent state, which cannot be rolled back")
    for pair, role in ((Pair(model, model), "target"), (Pair(tiny("llama"), model), "draft")):
        match = rf"^the {role} \({type(model).__name__}\) {why}[^\n]*; choose "
        with pytest.raises(ValueError, match=match):
            collect(pair, PROMPTS, tmp_path / role, max_new_tokens=4)
        with pytest.raises(ValueError, match=match):
            measure(pair, PROMPTS, ["constant:tokens=2"], max_new_tokens=4, repeats=1)


def test_a_length_that_a_configuration_hides_is_found_by_the_probe():
    class Stretching(View):
        """As longrope, but nothing says so: a far position anywhere changes every row."""

        def logits(self, ids, mask, positions, cache, keep):
            found = super().logits(ids, mask, positions, cache, keep)
            return found.flip(-1) if int(positions.max()) > 30 else found

    model = tiny("llama")
    view = Stretching(model, "target", 97, ())
    with torch.inference_mode():
        check_able(view, Abilities(view, 30))
        with pytest.raises(ValueError, match="in another way next to a long one"):
            check_able(view, Abilities(view, 40))


@pytest.mark.parametrize(
    ("kind", "expected", "rooms"),
    [
        ("phi3, two ropes", SWITCH, {1: 15, 15: 1, 16: 1, 17: None, 200: None}),
        ("llama, yarn", None, {1: None, 17: None}),
    ],
)
def test_where_a_model_begins_to_read_in_another_way(kind, expected, rooms):
    model = built(READ[kind]())
    pair = Pair(model, model)
    assert switch(model) == expected
    assert {size: room(pair, size) for size in rooms} == rooms
    assert (side(pair, 16) == side(pair, 17)) is (expected is None)


@pytest.mark.parametrize("value", ["many", None, 0, True])
def test_a_switch_that_is_no_number_is_one_clear_line(value):
    model = built(READ["phi3, two ropes"]())
    model.config.rope_parameters["original_max_position_embeddings"] = value
    with pytest.raises(ValueError, match="longrope positions, but original_max_position_embeddings is .*; it must be"):
        switch(model)


def test_where_the_two_sides_of_a_switch_share_a_pass_short_texts_change(tmp_path, monkeypatch):
    """So the grouping is what keeps them right."""
    target = built(READ["phi3, two ropes"]())
    pair = Pair(target, noisy(target))
    monkeypatch.setattr("oracle.record.side", lambda pair, size: ())
    collect(pair, PROMPTS, tmp_path, max_new_tokens=12, max_overrun=4)
    with pytest.raises(AssertionError):
        expect_equals_recomputation(pair, Trace.load(tmp_path), PROMPTS, 4)
