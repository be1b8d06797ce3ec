"""Heads fitted to a trace: what they are fitted to, that they find what is there, and where they are refused."""

import dataclasses
import json

import numpy as np
import pytest
from builders.reference import random_trace, reference
from builders.synthetic import synthetic
from builders.traces import pattern, trace

from analysis.replay.drafts import NotRecorded
from analysis.replay.simulate import simulate
from analysis.train.fitting import fit_lines, fit_network, train
from analysis.train.samples import Samples, samples
from oracle.policies import Signals, parse
from oracle.policies.facts import reads
from oracle.policies.heads import KIND, Acceptance, Head, Lines, load_head
from oracle.policies.names import recorded
from oracle.records.flat import Flat
from oracle.records.prompts import digests
from oracle.records.trace import Trace, iter_records


def made(count, chance, seed=0):
    """Samples whose chance of acceptance is a function of (confidence, margin, position)."""
    random = np.random.default_rng(seed)
    confidence, margin = random.random((2, count)).astype(np.float32)
    position = random.integers(0, 3, count)
    accepted = random.random(count) < chance(confidence.astype(float), margin.astype(float), position)
    return Samples(position, confidence, 1 - confidence, margin, accepted, random.integers(0, 10, count))


def test_samples_are_the_tokens_that_the_target_judges():
    t = trace(pattern("+-++", confidence=[0.9, 0.2, 0.8, 0.7]))
    found = samples(t, 2, "a test")
    # From 0: + and the - that ends it; from 1: -; from 2: +, and the last token is left to the target; from 3: none.
    assert found.position.tolist() == [0, 1, 0, 0]
    assert found.accepted.tolist() == [True, False, False, True]
    assert found.confidence.tolist() == np.float32([0.9, 0.2, 0.2, 0.8]).tolist()
    assert samples(t, 1, "a test").position.tolist() == [0, 0, 0]


def test_the_network_finds_what_decides():
    found = made(20_000, lambda confidence, margin, position: np.where(confidence > 0.5, 0.9, 0.3))
    head, chance = fit_network(found, 20)
    said = chance(found)
    assert said[found.confidence > 0.6].mean() == pytest.approx(0.9, abs=0.02)
    assert said[found.confidence < 0.4].mean() == pytest.approx(0.3, abs=0.02)
    flat = fit_network(found, 20, units=0)[0]
    assert flat.hidden.shape == (0, 5) and len(flat.out) == 5
    assert head.hidden.shape[1] == 5 and len(head.out) == len(head.hidden) + 1


def test_the_gradient_of_the_network_leads_to_the_least_loss():
    """By logistic regression alone the most likely weights are those that were drawn from."""

    def chance(confidence, margin, position):
        return 1 / (1 + np.exp(-(np.log(confidence / (1 - confidence)) - 1 + 2 * margin)))

    found = made(40_000, chance)
    asked = fit_network(found, 20, units=0)[1](found)
    true = chance(found.confidence.astype(float), found.margin.astype(float), None)
    assert np.abs(asked - true).mean() < 0.01
    assert np.abs(fit_network(found, 20)[1](found) - true).mean() < 0.02


def test_lines_are_found_for_each_place():
    slopes, bases = np.array([4.0, 2.0, 0.0]), np.array([-1.0, 0.0, 1.0])

    def chance(confidence, margin, position):
        return 1 / (1 + np.exp(-(slopes[position] * margin + bases[position])))

    head, _ = fit_lines(made(90_000, chance), 4)
    assert head.slope[:3] == pytest.approx(slopes, abs=0.15) and head.base[:3] == pytest.approx(bases, abs=0.1)
    rate = made(90_000, chance).accepted.mean()
    assert head.slope[3] == 0 and head.base[3] == pytest.approx(np.log(rate / (1 - rate)))  # no data: the mean


def test_a_head_says_the_same_of_one_draft_and_of_many():
    random = np.random.default_rng(0)
    head = Acceptance(random.random(4), 1 + random.random(4), random.normal(size=(6, 5)), random.normal(size=7))
    values = random.random((3, 50, 7), dtype=np.float32)
    together = head.chance(Signals.of(*values))
    for lane in range(50):
        alone = head.chance(Signals.of(*(np.ascontiguousarray(each[lane : lane + 1, :3]) for each in values)))
        assert np.array_equal(alone[0], together[lane, :3])


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    folder, source = tmp_path_factory.mktemp("heads"), random_trace(11, prompts=30, longest=40)
    for policy in ("specdec++", "margin"):
        train(source, policy, 9).head.save(folder / f"{policy}.json")
    return folder, source


@pytest.mark.parametrize("text", ["specdec++:tokens=9,file={}", "margin:tokens=9,file={}", "margin:tokens=3,file={}"])
def test_a_trained_policy_replays_token_by_token(heads, text):
    policy = parse(text.format(heads[0] / f"{text.partition(':')[0]}.json"))
    assert parse(str(policy)) == policy and policy != parse(text.partition(":")[0])
    policy = dataclasses.replace(policy, in_sample=True)  # these prompts are all alike
    for seed in range(3):
        t = random_trace(seed, prompts=20)
        found = simulate(t, policy)
        rows = [found.prompt, found.position, found.drafted, found.accepted, found.passes]
        assert list(zip(*(row.tolist() for row in rows), strict=True)) == reference(t, policy)


def test_margin_begins_with_what_was_fitted_and_does_not_warm_up(heads):
    policy = parse(f"margin:tokens=3,file={heads[0] / 'margin.json'}")
    head, state = load_head(policy.file, "margin").learned, policy.start(2)
    assert state.slope.tolist() == [head.slope[:3].tolist()] * 2 and state.count.tolist() == [policy.warmup] * 2
    with pytest.raises(ValueError, match="was fitted for 9"):
        parse(f"margin:tokens=10,file={policy.file}")


def apart(first, prompts):
    """Prompts of tokens from ``first`` on."""
    texts = [
        pattern("++-+++-+", index=n, prompt=(first + n, 5), overruns={2: [(1, 0.1)] * 4, 6: [(1, 0.1)] * 0})
        for n in range(prompts)
    ]
    return trace(*texts, max_overrun=5)


@pytest.mark.parametrize("policy", ["specdec++", "margin"])
def test_a_trained_policy_is_refused_on_the_prompts_of_its_training(policy, tmp_path):
    file = tmp_path / "head.json"
    train(apart(10, 6), policy, 4).head.save(file)
    text = f"{policy}:tokens=4,file={file}"
    with pytest.raises(ValueError, match=r"trained on 6 of the 6 prompts.*in_sample=True"):
        simulate(apart(10, 6), text)
    with pytest.raises(ValueError, match="trained on 2 of the 6 prompts"):
        simulate(apart(14, 6), text)
    assert simulate(apart(16, 6), text).tokens == 48
    allowed = simulate(apart(10, 6), f"{text},in_sample=True")
    assert allowed.tokens == 48 and allowed.policy.endswith("in_sample=True")


def test_a_prompt_is_known_by_its_tokens():
    assert digests(apart(10, 3))[1:] == digests(apart(11, 2)) and len(set(digests(apart(10, 3)))) == 3


def test_what_cannot_teach_anything_is_refused():
    with pytest.raises(ValueError, match="is not trained; legal: specdec\\+\\+, margin, disco"):
        train(apart(1, 3), "svip")
    with pytest.raises(ValueError, match="accepted and refused"):
        train(trace(pattern("++++")), "margin")
    with pytest.raises(ValueError, match="no margin"):
        train(dataclasses.replace(apart(1, 3), margin=None), "margin")


def test_the_loss_is_that_of_prompts_that_were_not_fitted_to():
    nothing = train(synthetic(40, length=64), "margin")  # signals that say nothing of acceptance
    assert nothing.loss > nothing.plain_loss - 0.01 and nothing.head.trained["loss"] == nothing.loss
    assert train(apart(10, 3), "margin").loss is None  # no fifth prompt


GOOD = {"kind": KIND, "schema": 1, "policy": "margin", "prompts": ["0" * 16], "slope": [1.0], "base": [0.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "specdec++"}, "trained for 'specdec\\+\\+', not for margin"),
        ({"schema": 2}, "no head of this version"),
        ({"kind": "x"}, "no head of this version"),
        ({"slope": [1.0, 2.0]}, "slope holds 2 numbers and base 1"),
        ({"slope": ["x"]}, "slope.0 is 'x'"),
        ({"slope": []}, "slope"),
        ({"slope": [1e99]}, "at most 1e9"),
        ({"prompts": ["x"]}, "16 digits"),
        ({"more": 1}, "unknown field"),
        ({"base": None}, "base"),
    ],
)
def test_a_damaged_head_is_refused_with_its_field(change, message, tmp_path):
    file = tmp_path / "head.json"
    file.write_text(json.dumps(GOOD | change))
    with pytest.raises(ValueError, match=message) as refused:
        parse(f"margin:tokens=1,file={file}")
    assert str(file) in str(refused.value)


def test_a_head_that_is_not_there_or_no_json_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not a readable head.*oracle train specdec"):
        parse(f"specdec++:file={tmp_path / 'none.json'}")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ValueError, match="not a readable head"):
        parse(f"specdec++:file={tmp_path / 'bad.json'}")
    with pytest.raises(ValueError, match="comma"):
        load_head("a,b.json", "margin")


def test_the_text_in_a_record_opens_no_file(heads, monkeypatch):
    text = f"margin:tokens=3,file={heads[0] / 'margin.json'}"
    assert recorded("margin:tokens=3") == parse("margin:tokens=3") and parse(text).file
    monkeypatch.setattr("oracle.policies.trained.load_head", lambda *given: pytest.fail("a file was opened"))
    for each in (text, f"specdec++: file = {heads[0] / 'x.json'}", "disco:threshold=0.4,file=x"):
        assert recorded(each) is None


def test_a_head_is_read_back_as_it_was(tmp_path):
    random = np.random.default_rng(0)
    for policy, learned in (
        ("specdec++", Acceptance(random.random(4), 1 + random.random(4), random.random((2, 5)), random.random(3))),
        ("specdec++", Acceptance(random.random(4), 1 + random.random(4), np.zeros((0, 5)), random.random(5))),
        ("margin", Lines(random.random(3), random.random(3))),
    ):
        Head(policy, frozenset({"0" * 16}), learned, {"run_id": None}).save(tmp_path / "h.json")
        found = load_head(str(tmp_path / "h.json"), policy)
        assert found.prompts == {"0" * 16}
        assert all(np.array_equal(value, getattr(found.learned, name)) for name, value in vars(learned).items())


def with_top(source, size=3, seed=0):
    """The same trace with the draft's largest probabilities: the confidence, and what falls off from it."""
    fall = np.array([1.0, 0.5, 0.25], np.float32)[:size]
    after = source.overruns
    inner = np.arange(0, len(after.confidence) * size + 1, size)
    outer = np.searchsorted(after.position, source.offsets)
    every = np.arange(0, source.tokens * size + 1, size)
    extra = {
        "draft_top": Flat((source.confidence[:, None] * fall).ravel(), (source.offsets, every)),
        "draft_top_after": Flat((after.confidence[:, None] * fall).ravel(), (outer, inner[after.offsets])),
    }
    return dataclasses.replace(source, extra=extra, meta=source.meta | {"top_k": size})


def test_disco_without_a_file_judges_by_the_confidence():
    t = trace(pattern("++++", confidence=[0.9, 0.5, 0.49, 0.9]))
    assert simulate(t, "disco").drafted.tolist() == [3]
    assert simulate(t, "disco:threshold=0.6").drafted.tolist() == [2, 0]


def test_disco_reads_the_largest_probabilities_of_text_and_overruns(tmp_path):
    """A network of one input that matters says what a threshold on it says, so the replay must be the same."""
    place = np.zeros(5)
    # sigma(40 (second largest - 0.2)): below 0.5 where that is below 0.2, that is, the confidence below 0.4.
    learned = Acceptance(place, np.ones(5), np.zeros((0, 5)), np.array([0, 40.0, 0, 0, 0, -8.0]))
    Head("disco", frozenset(), learned, {}).save(tmp_path / "d.json")
    for seed in range(3):
        t = with_top(random_trace(seed, prompts=20))
        by_top = simulate(t, f"disco:tokens=9,file={tmp_path / 'd.json'}")
        expected = simulate(t, "max-confidence:tokens=9,threshold=0.4")
        assert by_top.drafted.tolist() == expected.drafted.tolist()
    assert reads(parse(by_top.policy)) == ("entropy", "largest probabilities")
    chosen = t.select(t.ids[3:5])
    again = Trace.from_records(list(iter_records(chosen)), chosen.meta)
    for part in (chosen, again):
        assert simulate(part, by_top.policy).drafted.tolist() == simulate(chosen, expected.policy).drafted.tolist()
    with pytest.raises(NotRecorded, match="no probabilities.*--top-k 3"):
        simulate(random_trace(0), by_top.policy)
    with pytest.raises(NotRecorded, match="only the 2 largest.*--top-k 3"):
        simulate(with_top(random_trace(0), 2), by_top.policy)


def test_disco_is_trained_on_a_trace_that_holds_them(tmp_path):
    source = with_top(random_trace(11, prompts=30, longest=40))
    found = train(source, "disco", 9)
    assert len(found.head.learned.center) == 5 and found.head.prompts == set(digests(source))
    found.head.save(tmp_path / "d.json")
    assert simulate(source, f"disco:tokens=9,file={tmp_path / 'd.json'},in_sample=True").tokens == source.tokens
    with pytest.raises(ValueError, match="no draft_top.*training disco"):
        train(random_trace(11, prompts=30), "disco")


def test_a_trace_whose_largest_probabilities_do_not_match_is_refused():
    source = with_top(random_trace(1))
    rows = list(iter_records(source))
    with pytest.raises(ValueError, match="3 probabilities in draft_top where top_k is 2"):
        Trace.from_records(rows, source.meta | {"top_k": 2})
    with pytest.raises(ValueError, match="top_k above 0"):
        Trace.from_records(rows, {key: value for key, value in source.meta.items() if key != "top_k"})
    assert "draft_top" not in source.lacks == random_trace(1).lacks
