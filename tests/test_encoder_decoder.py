"""Encoder-decoder pairs: the record is a recomputation, and its replay is the library's own run, in float32."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import torch
from builders.encoders import bart, t5, tiny_encoder_pair
from builders.pairs import noisy, set_eos, tiny
from builders.recomputed import expect_equals_recomputation
from test_exact import POLICIES, WITH_EOS, check, check_loop, prompt_of, recorded, replayed, texts_of

from oracle.collect import collect
from oracle.generate import assisted, plain
from oracle.loop import draft_and_verify
from oracle.measure import measure
from oracle.models import checks
from oracle.models.checks import check_pair, needs_decoder_mask
from oracle.models.decoding import neutral
from oracle.models.pair import Pair
from oracle.models.pairs import load_pair
from oracle.models.view import Reader, views
from oracle.policies import parse, semantics
from oracle.policies.library import settings_of
from oracle.prompts.encode import encode
from oracle.prompts.sets import load_prompts
from oracle.records.meta import has_encoders
from oracle.records.trace import Trace
from oracle.settings import nearest, settings
from oracle.timing import Clock

KINDS = ("t5", "bart")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def inner_token(trace):
    """A token that appears first inside a text and late: as an EOS it ends that text there."""
    texts = texts_of(trace)
    at, token = max((text.index(token), token) for text in texts for token in text[:-6])
    assert at >= 2
    return token


@pytest.fixture(scope="module", params=KINDS)
def pairs(request, tmp_path_factory):
    """A pair of each kind, and its trace on prompts of unequal length."""
    pair = tiny_encoder_pair(request.param)
    return pair, recorded(pair, tmp_path_factory.mktemp(request.param), 32)


@pytest.fixture(scope="module", params=KINDS)
def ending(request, tmp_path_factory):
    """The same with an end of text in the middle."""
    pair = tiny_encoder_pair(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    set_eos(pair, inner_token(recorded(pair, folder / "open", 24)))
    return pair, recorded(pair, folder / "ends", 24)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_iteration_is_replayed(pairs, policy):
    check(*pairs, policy)


@pytest.mark.parametrize("policy", WITH_EOS)
def test_end_of_text_in_the_middle(ending, policy):
    assert "eos" in ending[1].finish
    check(*ending, policy)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("policy", ["constant:tokens=5", "dynamic", "heuristic:tokens=20"])
def test_short_limits_clip_the_draft(limit, policy, tmp_path):
    pair = tiny_encoder_pair()
    check(pair, recorded(pair, tmp_path, limit), policy)


@pytest.mark.parametrize("policy", ["constant:tokens=5", "dynamic"])
def test_without_scikit_learn_the_threshold_is_fixed(pairs, policy, monkeypatch):
    monkeypatch.setattr("transformers.generation.candidate_generator.is_sklearn_available", lambda: False)
    check(*pairs, policy)


@pytest.mark.parametrize(
    "policy", ["constant:tokens=5", "dynamic", "heuristic", "p-min:n_max=5,p_min=0.3", "ucb:arms=1/8"]
)
def test_our_own_loop_equals_the_replay(pairs, policy):
    check_loop(*pairs, parse(policy))


def test_our_own_loop_ends_at_the_end_of_the_text(ending):
    check_loop(*ending, parse("constant:tokens=5"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_record_is_a_recomputation(kind, batch_size, tmp_path):
    """Prompts of unequal length together and alone, overruns from prefixes of unequal length, one text ended early."""
    pair = tiny_encoder_pair(kind)
    prompts = [[3, 4, 5, 6], [9, 80, 33, 4, 21, 7, 8], [50]]
    set_eos(pair, inner_token(recorded(pair, tmp_path / "open", 24, prompts)))
    collect(pair, prompts, tmp_path / "t", max_new_tokens=24, max_overrun=6, batch_size=batch_size)
    trace = Trace.load(tmp_path / "t")
    assert (trace.target_tokens != trace.draft_tokens).sum() > 3
    expect_equals_recomputation(pair, trace, prompts, 6)


def test_a_draft_of_other_width_and_depth(tmp_path):
    """A narrower target than draft, too; what is counted begins after the start token."""
    pair = Pair(t5(width=16, encoder=3, decoder=1), t5(width=24, encoder=2, decoder=2), None)
    trace = recorded(pair, tmp_path, 20)
    assert texts_of(trace)[0] == plain(pair, prompt_of(trace, 0), max_new_tokens=20, clock=Clock()).tokens.tolist()
    assert len(texts_of(trace)[0]) == 20
    for policy in ("constant:tokens=4", "dynamic:threshold=0.2", "heuristic"):
        check(pair, trace, policy)


def test_a_target_that_drafts_for_itself(tmp_path):
    target = t5()
    pair = Pair(target, target, None)
    trace = recorded(pair, tmp_path, 30)
    check(pair, trace, "constant:tokens=4")
    rows = replayed(trace, parse("constant:tokens=4"))
    assert all(row[2] == row[3] == 4 for row in rows if row[1] < 25)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """The shipped pair, on one prompt that asks for code and one in words, with texts of 128 tokens."""
    pair = load_pair("demo-t5", device="cpu")
    prompts = [next(iter(load_prompts(name, limit=1))) for name in ("demo-code", "demo-text")]
    path = tmp_path_factory.mktemp("embedded")
    collect(pair, prompts, path, max_new_tokens=128)
    return pair, Trace.load(path)


@pytest.mark.parametrize("policy", ["constant:tokens=3", "dynamic:threshold=0.4", "heuristic:tokens=5", "roc"])
def test_the_embedded_pair_is_replayed(embedded, policy):
    check(*embedded, policy)


def test_the_embedded_draft_is_narrower_and_agrees_now_and_then(embedded):
    pair, trace = embedded
    assert pair.target.config.d_model == 2 * pair.draft.config.d_model
    assert 0.2 < (trace.target_tokens == trace.draft_tokens).mean() < 0.9
    assert trace.tokens == 256 or "eos" in trace.finish


# --- the library's defect ---------------------------------------------------------------------------------------------


def tokens_read_by(draft):
    """Counts of decoder tokens of each pass of the draft, filled by its passes, and the hook to remove."""
    seen = []

    def note(module, args, kwargs):
        if "decoder_input_ids" in kwargs:
            seen.append(kwargs["decoder_input_ids"].shape[1])

    return seen, draft.register_forward_pre_hook(note, with_kwargs=True)


def drafting(pair, trace):
    seen, hook = tokens_read_by(pair.draft)
    options = {"max_new_tokens": 32, "clock": Clock()}
    found = assisted(pair, prompt_of(trace, 0), settings_of(parse("constant:tokens=3")), **options)
    hook.remove()
    drafted = found.iterations["drafted"].tolist()
    first = [seen[at] for at in itertools.accumulate([0, *[k for k in drafted if k][:-1]])]
    return first, list(zip(found.iterations["position"].tolist(), drafted, strict=True))


def test_a_draft_reads_two_tokens_a_round_and_without_the_mask_its_whole_text(pairs, monkeypatch):
    """Fails where a release of transformers no longer needs the mask: then say so in `semantics.RELEASES`."""
    pair, trace = pairs
    assert needs_decoder_mask(pair)
    expected = [(row[1], row[2]) for row in replayed(trace, parse("constant:tokens=3")) if row[0] == 0]
    first, rounds = drafting(pair, trace)
    assert set(first[1:]) == {2} and rounds == expected
    monkeypatch.setattr("oracle.generate.needs_decoder_mask", lambda pair: False)
    first, _ = drafting(pair, trace)
    assert max(first[1:]) > 2 and first[1:] == sorted(first[1:])


def test_the_mask_is_bound_to_releases(monkeypatch):
    pair = tiny_encoder_pair()
    monkeypatch.setattr(semantics, "installed", lambda: "4.57.1")
    assert not needs_decoder_mask(pair) and checks.REREADS not in checks.remarks(pair)
    monkeypatch.setattr(semantics, "installed", lambda: "5.24.0.dev0")
    assert needs_decoder_mask(pair) and checks.REREADS in checks.remarks(pair)
    assert not needs_decoder_mask(Pair(tiny(), tiny(), None))


def test_what_is_pasted_holds_the_mask():
    (own,) = settings("dynamic", {"encoder_decoder": True})
    assert own.engine == "transformers" and "decoder_attention_mask=mask" in (own.text or "")
    assert "decoder_attention_mask" not in (settings("dynamic")[0].text or "")
    ((found, told),) = nearest("survival", "constant:tokens=6", draft={"encoder_decoder": True})
    assert "decoder_attention_mask=mask" in (found.text or "") and "constant:tokens=6" in told


def test_the_pasted_call_runs_as_the_replay(pairs):
    """The very lines, on the pair; `assisted` watches the same call."""
    pair, trace = pairs
    call = (settings("constant:tokens=3", {"encoder_decoder": True})[0].text or "").split("# the call\n")[1]
    ids = torch.tensor(prompt_of(trace, 0)[None].astype(np.int64))
    names = {"torch": torch, "target": pair.target, "draft": pair.draft}
    names["inputs"] = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "max_new_tokens": 32}
    seen, hook = tokens_read_by(pair.draft)
    with neutral(pair):
        exec(call, names)  # noqa: S102
    hook.remove()
    assert names["output"][0, 1:].tolist() == texts_of(trace)[0]
    assert max(seen) <= 2


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rolling_back_forgets_text_and_keeps_the_prompt(kind):
    """Source of 4 tokens, many rejections: the logits of each round are those of a plain pass without a cache."""
    pair = tiny_encoder_pair(kind)
    prompt, draw = np.array([3, 4, 5, 6]), np.random.default_rng(0)
    with neutral(pair), torch.inference_mode():
        view = views(pair)[0]
        reader, text = Reader(view, prompt), [0]
        while len(text) < 20:
            guess = draw.integers(2, 97, 4).tolist()
            ours = reader.read(torch.tensor((text + guess)[reader.length :]), keep=5)
            whole = view.model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([text + guess])).logits
            torch.testing.assert_close(ours, whole[0, -5:], atol=1e-4, rtol=0)
            text.append(int(ours[0].argmax()))
            reader.forget(len(text) - 1)
            assert reader.length == len(text) - 1
            cross = reader._cache.cross_attention_cache
            assert cross.get_seq_length() == 4
    assert text[1:] == plain(pair, prompt, max_new_tokens=19, clock=Clock()).tokens.tolist()


def test_a_prompt_is_encoded_once_however_many_branches_it_has(tmp_path):
    pair = tiny_encoder_pair()
    read = []
    hook = pair.draft.get_encoder().register_forward_hook(lambda *args: read.append(args[-1].last_hidden_state.shape))
    collect(pair, [[3, 4, 5, 6], [7, 8]], tmp_path / "t", max_new_tokens=20, max_overrun=4)
    hook.remove()
    assert all(shape[0] <= 2 for shape in read[-1:]) and read[-1][1] == 4


def test_an_encoder_wants_a_prompt():
    with pytest.raises(ValueError, match="the target has an encoder: give it the prompt"):
        views(tiny_encoder_pair())[0].after(torch.tensor([0]))


# --- what fits --------------------------------------------------------------------------------------------------------


def test_a_pair_of_both_kinds_is_refused():
    with pytest.raises(
        ValueError, match=r"the target .* is an encoder-decoder and the draft .* is decoder-only: .*must"
    ):
        check_pair(Pair(t5(), tiny(), None))
    with pytest.raises(ValueError, match=r"the target .* is decoder-only and the draft .* is an encoder-decoder"):
        check_pair(Pair(tiny(), t5(), None))


@pytest.mark.parametrize("larger", ["target", "draft"])
def test_padding_of_one_vocabulary_changes_nothing_that_is_recorded(larger, tmp_path):
    """100 rows against 97: those beyond the other's are never said, however loud they are."""
    pair = tiny_encoder_pair("t5")
    before = recorded(pair, tmp_path / "even", 16, [[5, 9, 12]])
    model = getattr(pair, larger)
    model.resize_token_embeddings(100, mean_resizing=False)
    with torch.no_grad():
        model.lm_head.weight[97:] = 9 * model.lm_head.weight[before.target_tokens[:3].tolist()]
    after = recorded(pair, tmp_path / "padded", 16, [[5, 9, 12]])
    for name in ("target_tokens", "draft_tokens"):
        assert getattr(after, name).tolist() == getattr(before, name).tolist()
    with pytest.raises(ValueError, match="embedding rows and the draft .* shrink the larger model once with"):
        measure(pair, [[5, 9, 12]], ["constant"], tmp_path / "runs", max_new_tokens=4, repeats=1)


def test_more_decoder_than_encoder_layers_are_refused():
    """The library's cache is too small for them: a plain `generate` fails."""
    target = t5()
    deep = t5(encoder=1, decoder=2)
    with pytest.raises(IndexError):
        deep.generate(torch.tensor([[3, 4]]), max_new_tokens=3)
    with pytest.raises(ValueError, match="the draft .* has 2 decoder layers and 1 encoder layers"):
        check_pair(Pair(target, deep, None))
    check_pair(Pair(target, t5(encoder=2, decoder=1), None))


def test_a_pair_without_a_start_token_is_refused():
    pair = tiny_encoder_pair()
    pair.target.generation_config.decoder_start_token_id = pair.target.config.decoder_start_token_id = None
    with pytest.raises(ValueError, match="decoder_start_token_id of the target is None"):
        views(pair)
    pair.target.generation_config.decoder_start_token_id = 97
    with pytest.raises(ValueError, match="decoder_start_token_id of the target is 97; .* 0 to 96"):
        views(pair)


def test_lengths_that_a_model_was_trained_on_are_no_limit_for_t5_and_positions_are_for_bart():
    pair = tiny_encoder_pair("t5")
    pair.target.config.n_positions = 8
    (one,), _ = encode(pair, [list(range(2, 60))], 100)
    assert one.max_new_tokens == 100
    found, skipped = encode(tiny_encoder_pair("bart"), [[5] * 128, [5] * 129], 200)
    assert [one.max_new_tokens for one in found] == [127]
    assert skipped[0]["reason"] == "129 tokens, but the models read at most 128 positions"


def test_the_limit_of_a_bart_is_reached(tmp_path):
    pair = tiny_encoder_pair("bart")
    trace = recorded(pair, tmp_path, 200, [[5, 6, 7]])
    assert len(texts_of(trace)[0]) == 127
    check(pair, trace, "constant:tokens=20")


def test_a_trace_says_what_it_is_and_one_of_a_decoder_only_pair_does_not(pairs, tmp_path):
    pair, trace = pairs
    assert has_encoders(trace.meta) and trace.meta["decoder_start_token_id"] == 0
    other = Pair(tiny(), noisy(tiny()), None)
    meta = recorded(other, tmp_path, 4).meta
    assert not has_encoders(meta) and "decoder_start_token_id" not in meta and not has_encoders({"target": None})


def test_a_run_is_resumed_with_the_same_start_token_only(tmp_path):
    pair, options = tiny_encoder_pair(), {"max_new_tokens": 4, "batch_size": 1}
    collect(pair, [[3], [4]], tmp_path / "t", **options)
    meta = json.loads((tmp_path / "t" / "meta.json").read_text())
    assert meta["decoder_start_token_id"] == 0
    pair.target.generation_config.decoder_start_token_id = 5
    with pytest.raises(ValueError, match="decoder_start_token_id"):
        collect(pair, [[3], [4]], tmp_path / "t", resume=True, **options)


@dataclasses.dataclass
class Ticks:
    """A clock that each reading moves on by one."""

    now: float = 0.0

    def __call__(self):
        self.now += 1
        return self.now


def test_both_encoders_are_paid_in_the_prefill(pairs):
    """Nothing of theirs falls into an iteration's own times; all seconds of a call are somewhere."""
    pair, trace = pairs
    runs = measure(pair, [prompt_of(trace, 0).tolist()], ["constant:tokens=3", "p-min"], max_new_tokens=12, repeats=1,
                   clock=Clock(Ticks()))  # fmt: skip
    for call in runs.calls:
        assert call.equal
        parts = (call.draft_seconds, call.verify_seconds, call.rest_seconds)
        assert sum(map(np.sum, parts)) == pytest.approx(call.total_seconds)
    encoders = {id(model.get_encoder()): 0 for model in (pair.target, pair.draft)}

    def note(module, *_):
        encoders[id(module)] += 1

    hooks = [model.get_encoder().register_forward_hook(note) for model in (pair.target, pair.draft)]
    for policy in ("constant:tokens=3", "p-min"):
        encoders.update(dict.fromkeys(encoders, 0))
        rule, options = parse(policy), {"max_new_tokens": 12, "clock": Clock()}
        if (known := settings_of(rule)) is not None:
            assisted(pair, prompt_of(trace, 0), known, **options)
        else:
            draft_and_verify(pair, prompt_of(trace, 0), rule, **options)
        assert set(encoders.values()) == {1}
    for hook in hooks:
        hook.remove()


def test_bart_models_are_read_by_their_own_class_and_not_as_their_decoder_alone(tmp_path):
    for name, model in (("target", bart()), ("draft", noisy(bart()))):
        model.save_pretrained(tmp_path / name)
    found = load_pair(target=tmp_path / "target", draft=tmp_path / "draft", dtype="float32")
    assert type(found.target).__name__ == type(found.draft).__name__ == "BartForConditionalGeneration"
