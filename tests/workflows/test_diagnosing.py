"""From two models to advice in one call, and what becomes of it when it is stopped on the way."""

import copy
import datetime
import importlib
import itertools
import warnings
from types import SimpleNamespace

import pytest
from builders.pairs import noisy, set_eos, tiny_pair
from builders.tokenizers import word_tokenizer
from builders.virtual import Virtual

import oracle
from oracle.models.pair import Pair
from oracle.prompts import chat as chat_module
from oracle.timing import Clock
from oracle.workflows.diagnose import answer, diagnose, probe, stages
from oracle.workflows.diagnose import plan as planning

PROMPTS = [[5, 6, 7, 8], [9, 10, 11], [12, 13, 14, 15, 16], [17, 18]]
QUICK = {"budget": 600, "max_new_tokens": 12}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Every reading of the clock is a millisecond after the last one; nothing warms up, and no page is drawn."""
    ticks = itertools.count()
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: Clock(lambda: next(ticks) / 1000))
    monkeypatch.setattr(planning, "REPEATS", (1, 1))
    monkeypatch.setattr(probe, "_MOST", 1)
    monkeypatch.setattr(importlib.import_module("oracle.measure"), "_warm_up", lambda plan: None)
    monkeypatch.setattr(answer, "report", lambda source, out: out)


@pytest.fixture(scope="module")
def pair():
    return tiny_pair()


def test_a_pair_and_prompts_become_advice_on_disk_and_in_memory(pair, tmp_path):
    told = []
    found = diagnose(pair, PROMPTS, tmp_path / "out", tell=told.append, **QUICK)
    assert found.policy == found.found.tuning.policy or found.policy in ("none", found.found.default)
    assert [each.engine for each in found.settings][0] == "transformers"
    assert found.plan.recorded == 2 and found.found.check.prompts == 2 and found.found.exhausted
    assert [each.policy for each in found.found.check.arms][:2] == ["none", stages.library_default()]
    tuned, checked = (oracle.Trace.load(tmp_path / "out" / name / "trace") for name in ("draft-1", "check"))
    texts = {tuple(prompt) for prompt in PROMPTS}
    parts = [{tuple(each) for each in _prompts(trace)} for trace in (tuned, checked)]
    assert not parts[0] & parts[1] and parts[0] | parts[1] == texts
    assert any(line.startswith("Checking") for line in told) and found.sentences[0].partition(".")[0] in (
        "FASTER", "SLOWER", "UNDECIDED",
    )  # fmt: skip
    again = diagnose(pair, PROMPTS, tmp_path / "out", resume=True, **QUICK)
    assert again.sentences == found.sentences and again.plan == found.plan
    assert again.found.check == found.found.check


def _prompts(trace):
    return [trace.prompt_tokens[a:b].tolist() for a, b in itertools.pairwise(trace.prompt_offsets.tolist())]


STEPS = {  # what is called how often in a step before it is stopped
    "the probe": (probe, "_calls", 2),
    "clocking": ("oracle.measure", "_observe", 4),
    "recording": (stages, "collect", 1),
    "tuning": (stages, "tune", 1),
    "the check": ("oracle.measure", "_observe", 3),
    "the page": (answer, "report", 1),
}


def test_ctrl_c_in_every_step_and_on_with_resume_each_time(pair, tmp_path, monkeypatch):
    out, measured = tmp_path / "out", []
    real = stages.measure
    monkeypatch.setattr(stages, "measure", lambda *given, **more: measured.append(given[3]) or real(*given, **more))
    for where, name, count in STEPS.values():
        with monkeypatch.context() as patch:
            _stop_at(patch, where, name, count)
            with pytest.raises(KeyboardInterrupt):
                diagnose(pair, PROMPTS, out, resume=True, **QUICK)
    found = diagnose(pair, PROMPTS, out, resume=True, **QUICK)
    assert found.found.check.prompts == 2
    # Stopped in the probe it measured nothing; the check began in the fifth run and was there in the last two.
    assert [each.parent.name for each in measured] == ["draft-1"] * 4 + [
        "check",
        "draft-1",
        "check",
        "draft-1",
        "check",
    ]
    runs = [oracle.Runs.load(out / name / "runs") for name in ("draft-1", "check")]
    assert [one.unfinished for one in runs] == [None, None]
    assert [len(one.calls) for one in runs] == [5 * 2, 2 * len(found.found.check.arms)]


def _stop_at(patch, where, name, count):
    module = importlib.import_module(where) if isinstance(where, str) else where
    real, calls = getattr(module, name), itertools.count(1)

    def stopped(*given, **options):
        if next(calls) == count:
            raise KeyboardInterrupt
        return real(*given, **options)

    patch.setattr(module, name, stopped)


def test_other_settings_do_not_go_on_with_it(pair, tmp_path):
    out = tmp_path / "out"
    diagnose(pair, PROMPTS, out, **QUICK)
    with pytest.raises(ValueError, match="holds a diagnosis already; --resume"):
        diagnose(pair, PROMPTS, out, **QUICK)
    with pytest.raises(ValueError, match="was begun with seed 0, this run has 1"):
        diagnose(pair, PROMPTS, out, resume=True, seed=1, **QUICK)
    with pytest.raises(ValueError, match="was begun with prompts_sha256"):
        diagnose(pair, [*PROMPTS, [3, 4]], out, resume=True, **QUICK)
    (out / "mine.txt").write_text("kept")
    before = oracle.Trace.load(out / "draft-1" / "trace").meta["run_id"]
    diagnose(pair, PROMPTS, out, force=True, seed=1, **QUICK)
    assert oracle.Trace.load(out / "draft-1" / "trace").meta["run_id"] != before
    assert (out / "mine.txt").read_text() == "kept"


def test_a_diagnosis_that_goes_on_another_day_reads_the_same_prompts(tmp_path, monkeypatch):
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %} {{ strftime_now('w%d') }}"
    models, out = tiny_pair(), tmp_path / "out"
    pair = Pair(models.target, models.draft, word_tokenizer(chat_template=template))
    texts = ["w5 w6 w7", "w9 w10", "w12 w13 w14 w15", "w17 w18"]

    def at(day):
        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return cls(2026, 12, day, tzinfo=tz)

        monkeypatch.setattr(chat_module, "datetime", SimpleNamespace(datetime=Clock))

    at(11)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        _stop_at(patch, *STEPS["recording"])
        diagnose(pair, texts, out, chat=True, **QUICK)
    at(12)
    diagnose(pair, texts, out, chat=True, resume=True, **QUICK)
    for name in ("draft-1", "check"):
        trace = oracle.Trace.load(out / name / "trace")
        assert trace.meta["template_date"] == "2026-12-11T00:00:00"
        assert [prompt[-1] for prompt in _prompts(trace)] == [11, 11]


def test_what_is_odd_about_the_prompts_is_said_once_and_those_left_out_are_counted(tmp_path):
    models, told = tiny_pair(), []
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    pair = Pair(models.target, models.draft, word_tokenizer(chat_template=template))
    texts = ["w5 w6 w7", "w9 w10", "", "w12 w13 w14 w15", "w17 w18"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        diagnose(pair, texts, tmp_path / "out", chat=True, tell=told.append, **QUICK)
    said = [str(each.message) for each in caught if str(each.message).startswith("prompts, ")]
    assert said == ["prompts, first token: the chat template writes no <s>, as begins other texts"]
    assert told[0].startswith("Note: 1 of 5 prompts left out: 1 ")
    with pytest.raises(ValueError, match="1 usable prompt .3 of 4 prompts left out: 3 .*at least 4"):
        diagnose(pair, ["w5 w6", "", "", ""], tmp_path / "few", chat=True, **QUICK)


def test_a_folder_of_somebody_else_is_left_alone(pair, tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(ValueError, match="holds 'letters.txt' and no diagnose.json"):
        diagnose(pair, PROMPTS, tmp_path, force=True, **QUICK)
    assert [each.name for each in tmp_path.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_prompts_are_refused_before_anything_runs(pair, tmp_path, count):
    with pytest.raises(ValueError, match="at least 4 are needed"):
        diagnose(pair, PROMPTS[:count], tmp_path / "out", **QUICK)
    assert not (tmp_path / "out").exists() or not (tmp_path / "out" / "diagnose.json").exists()


def test_a_budget_that_is_too_small_says_the_least(pair, tmp_path):
    with pytest.raises(ValueError, match="too small: one draft .* take at least about"):
        diagnose(pair, PROMPTS, tmp_path / "out", budget=1)


def test_texts_that_end_at_once_are_said_to(tmp_path):
    ending = tiny_pair()
    set_eos(ending, *range(97))
    with pytest.raises(ValueError, match="ends its text after one token on 1 of 1 prompts"):
        diagnose(ending, PROMPTS, tmp_path / "out", **QUICK)


def test_a_second_draft_that_fails_is_left_out_and_the_first_is_kept(pair, tmp_path, monkeypatch):
    other = Pair(pair.target, noisy(pair.target, seed=2), None, name="other")
    real = stages.collect

    def failing(given, *rest, **options):
        if given is other:
            raise RuntimeError("2 prompts at once do not fit into the device's memory")
        return real(given, *rest, **options)

    monkeypatch.setattr(stages, "collect", failing)
    found = diagnose([pair, other], PROMPTS, tmp_path / "out", **QUICK)
    assert found.draft == "LlamaForCausalLM (1)"
    assert found.found.failed == {"LlamaForCausalLM (2)": "2 prompts at once do not fit into the device's memory"}
    assert "LlamaForCausalLM (2) was left out: 2 prompts at once" in " ".join(found.sentences)
    with pytest.raises(RuntimeError, match="2 prompts at once"):
        diagnose(other, PROMPTS, tmp_path / "alone", **QUICK)


def test_of_two_drafts_the_better_one_is_checked(tmp_path):
    pair = tiny_pair()
    worse = Pair(pair.target, noisy(pair.target, amount=1.0, seed=3), None, name="worse")
    found = diagnose([worse, pair], PROMPTS, tmp_path / "out", **QUICK)
    assert found.draft == "LlamaForCausalLM (2)" and [each.name for each in found.found.rivals] == [
        "LlamaForCausalLM (1)"
    ]
    with pytest.raises(ValueError, match="pairs that hold the same target"):
        diagnose([pair, tiny_pair()], PROMPTS, tmp_path / "two", **QUICK)


def on_a_clock_of_its_own(monkeypatch, pair, draft_ms):
    """A target step of 20 ms, half a millisecond for each further token, and nothing else takes any time."""
    own = Pair(pair.target, copy.deepcopy(pair.draft), pair.tokenizer, pair.name)
    clock = Virtual(own, lambda m, n: draft_ms / 1000, lambda m, n: 0.02 + 0.0005 * (m - 1)).clock
    monkeypatch.setattr("oracle.timing.clock_for", lambda pair: clock)
    return own


def test_on_the_embedded_pair_the_measurement_confirms_the_prediction(tmp_path, monkeypatch):
    """Real models and the real library on a clock that only passes advance: what is wrong is wrong every time."""
    pair = on_a_clock_of_its_own(monkeypatch, oracle.load_pair("demo"), draft_ms=2)
    prompts = oracle.load_prompts("demo-code", limit=4)
    found = diagnose(pair, prompts, tmp_path / "out", budget=900, max_new_tokens=24)
    check = found.found.check
    assert check.verdict == "pass" and abs(check.error.value) < 0.04
    assert check.predicted.value == pytest.approx(check.decoding.value, rel=0.08)
    assert found.policy != "none" and found.answer != "slower"
    assert found.found.causes.iteration.overhead < 0.01


def test_a_draft_as_dear_as_the_target_is_advised_against(tmp_path, monkeypatch, pair):
    dear = on_a_clock_of_its_own(monkeypatch, tiny_pair(), draft_ms=60)
    found = diagnose(dear, PROMPTS, tmp_path / "out", **QUICK)
    assert found.policy == "none" and found.answer == "slower" and found.speedup.value < 1
    assert found.sentences[0].startswith("SLOWER") and found.sentences[1].startswith("ADVICE: no draft.")
    assert "assistant_model" not in found.settings[0].text
