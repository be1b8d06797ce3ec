"""Collecting: every number equals a recomputation without a cache, however prompts are batched and interrupted."""

import contextlib
import io
import json
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from builders.pairs import CONFIGS, VOCABULARY, set_eos, tiny, tiny_pair
from builders.recomputed import continuation, expect_equals_recomputation
from transformers import GenerationConfig

from oracle import overruns, record
from oracle.collect import collect, summarize
from oracle.generate import Settings, assisted
from oracle.models import passes
from oracle.models.abilities import Abilities
from oracle.models.batches import Collected
from oracle.models.configs import eos_token_ids
from oracle.models.decoding import greedy_config, neutral
from oracle.models.pair import Pair
from oracle.models.view import views
from oracle.records.trace import Trace, iter_records, read_meta
from oracle.timing import Clock

SIZES = (5, 1, 9, 3, 17, 2, 6, 11)
PROMPTS = tuple(np.random.default_rng(size).integers(2, VOCABULARY, size).tolist() for size in SIZES)
CANNOT_SHARE = ("mistral", "bloom")  # a sliding window; positions that come from the mask


def end_in_the_middle(pair, prompts, limit):
    """Make a token that stands inside the target's texts and one that the draft says elsewhere end a text."""
    inside, other = continuation(pair.target, prompts[0], limit, ()), continuation(pair.draft, prompts[2], limit, ())
    set_eos(pair, inside[len(inside) // 2], other[len(other) // 3])


@pytest.mark.filterwarnings("ignore:.*cannot continue several texts")
@pytest.mark.parametrize("kind", CONFIGS)
def test_every_architecture_equals_recomputation(kind, tmp_path):
    pair = tiny_pair(kind)
    prompts = PROMPTS[:4]
    end_in_the_middle(pair, prompts, 20)
    collect(pair, prompts, tmp_path, max_new_tokens=20, max_overrun=6, batch_size=3)
    trace = Trace.load(tmp_path)
    assert 0.2 < trace.agrees.mean() < 1
    assert "eos" in set(trace.finish)
    expect_equals_recomputation(pair, trace, prompts, 6)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_short_limits_equal_recomputation(limit, batch_size, tmp_path):
    pair = tiny_pair("llama")
    collect(pair, PROMPTS, tmp_path, max_new_tokens=limit, max_overrun=32, batch_size=batch_size)
    trace = Trace.load(tmp_path)
    expect_equals_recomputation(pair, trace, PROMPTS, 32)
    assert trace.target_tokens[-limit:].tolist() == continuation(pair.target, PROMPTS[-1], limit, ())


def test_rows_do_not_depend_on_their_neighbours(tmp_path):
    pair = tiny_pair("gpt_neox")
    end_in_the_middle(pair, PROMPTS, 24)
    traces = []
    for size in (1, 3, 8):
        collect(pair, PROMPTS, tmp_path / str(size), max_new_tokens=24, max_overrun=5, batch_size=size)
        traces.append(Trace.load(tmp_path / str(size)))
    for other in traces[1:]:
        for name in ("target_tokens", "draft_tokens", "offsets", "finish"):
            np.testing.assert_array_equal(getattr(traces[0], name), getattr(other, name))
        np.testing.assert_array_equal(traces[0].overruns.tokens, other.overruns.tokens)
        np.testing.assert_allclose(traces[0].overruns.entropy, other.overruns.entropy, atol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_pieces_of_any_size_give_the_same(kind, tmp_path, monkeypatch):
    """A vocabulary too large for one pass is walked in pieces; so are many branches."""
    pair = tiny_pair(kind)
    monkeypatch.setattr(passes, "MOST_LOGITS", 4 * 3 * VOCABULARY)  # three columns of a batch of four
    monkeypatch.setattr(overruns, "MOST_LOGITS", 5 * VOCABULARY)
    monkeypatch.setattr(overruns, "_MOST_QUERIES", 5)
    with pytest.warns(UserWarning, match="on one cache") if kind in CANNOT_SHARE else contextlib.nullcontext():
        collect(pair, PROMPTS[:4], tmp_path, max_new_tokens=20, max_overrun=6, batch_size=4)
    expect_equals_recomputation(pair, Trace.load(tmp_path), PROMPTS[:4], 6)


def shares(model, longest):
    return Abilities(views(Pair(model, model))[1], longest).shares_a_cache


@pytest.mark.parametrize("kind", CONFIGS)
def test_sharing_one_cache_is_tried_not_assumed(kind):
    assert shares(tiny(kind), 60) is (kind not in CANNOT_SHARE)


@pytest.mark.parametrize(("window", "shared"), [(37, False), (38, True)])
def test_a_window_that_is_never_left_is_none(window, shared, tmp_path):
    """The longest prompt has 17 tokens, and 20 follow."""
    pair = tiny_pair("mistral")
    pair.target.config.sliding_window = pair.draft.config.sliding_window = window
    assert shares(pair.draft, 37) is shared
    with contextlib.nullcontext() if shared else pytest.warns(UserWarning, match="on one cache"):
        collect(pair, PROMPTS[2:5], tmp_path, max_new_tokens=20, max_overrun=20)
    expect_equals_recomputation(pair, Trace.load(tmp_path), PROMPTS[2:5], 20)


@pytest.mark.parametrize("fault", ["ignores it", "fails"])
def test_a_model_that_cannot_read_the_mask_is_found_out(fault):
    model = tiny("llama")
    plain = model.model.forward

    def forward(attention_mask=None, **rest):
        if fault == "fails" and attention_mask.dim() == 4:
            raise ValueError("too many values to unpack")
        return plain(attention_mask=None, **rest)

    model.model.forward = forward
    assert not shares(model, 60)


def test_a_draft_equal_to_the_target_never_disagrees(tmp_path):
    target = tiny("llama")
    summary = collect(Pair(target, target), PROMPTS[:3], tmp_path, max_new_tokens=7)
    trace = Trace.load(tmp_path)
    assert summary.agreement == 1 and len(trace.overruns.position) == 0
    assert trace.iterations()["accepted"].tolist() == [6, 6, 6]  # the last token is always the target's own
    assert summary.censored == 1 and summary.accepted_mean == 6 and summary.detect_mean == 7


# --- pure greedy decoding ---------------------------------------------------------------------------------------------


def biased(stop):
    """What a checkpoint may ship with; every one of these changes some token."""
    return GenerationConfig(
        do_sample=True,
        temperature=0.6,
        top_p=0.9,
        repetition_penalty=1.3,
        num_beams=4,
        no_repeat_ngram_size=2,
        min_new_tokens=30,
        forced_eos_token_id=7,
        suppress_tokens=[3, 4, 5, 6],
        eos_token_id=stop,
        pad_token_id=0,
        use_cache=False,
    )


def test_generation_defaults_of_a_checkpoint_change_nothing(tmp_path):
    pair = tiny_pair("llama")
    end_in_the_middle(pair, PROMPTS, 20)
    stop = list(eos_token_ids(pair))
    pair.target.generation_config, pair.draft.generation_config = biased(stop), biased(3)
    pair.target.config.use_cache = pair.draft.config.use_cache = False
    kept = [model.generation_config for model in (pair.target, pair.draft)]
    texts = [config.to_json_string() for config in kept]
    pair.target.train()
    pair.target.model.layers[0].eval()
    collect(pair, PROMPTS[:4], tmp_path, max_new_tokens=20, max_overrun=6)
    modes = [layer.training for layer in pair.target.model.layers]
    assert pair.target.training and modes == [False, True] and not pair.draft.training
    pair.target.eval()
    expect_equals_recomputation(pair, Trace.load(tmp_path), PROMPTS[:4], 6)
    assert [model.generation_config for model in (pair.target, pair.draft)] == kept  # the very same objects
    assert [config.to_json_string() for config in kept] == texts


def test_the_librarys_own_generation_is_pure_under_neutral(recwarn):
    pair = tiny_pair("llama")
    end_in_the_middle(pair, PROMPTS, 20)
    stop = eos_token_ids(pair)
    pair.target.generation_config, pair.draft.generation_config = biased(list(stop)), biased(3)
    for prompt in PROMPTS[:3]:
        wanted = continuation(pair.target, prompt, 20, stop)
        for assistant in (None, pair.draft):
            with neutral(pair):
                settings = greedy_config(pair, 20)
                out = pair.target.generate(
                    torch.tensor([prompt]), generation_config=settings, assistant_model=assistant
                )
            assert out[0, len(prompt) :].tolist() == wanted
    assert not [warning for warning in recwarn if "temperature" in str(warning.message)]


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [([9, 4, 9], 2, (4, 9)), (5, None, (5,)), (None, 3, (3,)), (None, [8, 6], (6, 8)), (None, None, ())],
)
def test_what_ends_a_text(generation, config, expected):
    pair = tiny_pair("llama")
    pair.target.generation_config.eos_token_id, pair.target.config.eos_token_id = generation, config
    assert eos_token_ids(pair) == expected
    with neutral(pair):
        assert eos_token_ids(pair) == expected


def test_padded_vocabularies_are_cut_to_the_shared_range(tmp_path):
    """Row 120 of the target would always win, but the draft has no such token."""
    pair = Pair(tiny("llama", vocab=128), tiny("llama", vocab=97, seed=3))
    with torch.no_grad():
        pair.target.lm_head.weight[120] = 50 * pair.target.lm_head.weight.abs().max()
        pair.target.model.norm.weight.abs_()
    collect(pair, PROMPTS[:3], tmp_path, max_new_tokens=10, max_overrun=4)
    trace = Trace.load(tmp_path)
    assert max(trace.target_tokens.max(), trace.draft_tokens.max(), trace.overruns.tokens.max()) < 97
    with torch.inference_mode():
        logits = pair.target(input_ids=torch.tensor([PROMPTS[0]])).logits[0, -1]
    assert trace.target_tokens[0] == logits[:97].argmax()
    # the softmax comes after the cut: the draft's confidence would not change if the draft had the target's padding
    collect(Pair(pair.draft, pair.target), PROMPTS[:1], tmp_path / "swapped", max_new_tokens=1)
    wanted = float(logits[:97].softmax(-1).max())
    assert Trace.load(tmp_path / "swapped").confidence[0] == pytest.approx(wanted, abs=1e-5)


def test_logits_that_are_no_numbers_are_an_error(tmp_path):
    pair = tiny_pair("llama")
    with torch.no_grad():
        pair.draft.lm_head.weight[5] = float("nan")
    with pytest.raises(RuntimeError, match="draft model's logits are not numbers"):
        collect(pair, PROMPTS[:2], tmp_path, max_new_tokens=4)


# --- directories, resuming, interruptions -----------------------------------------------------------------------------


def contents(path):
    return [pq.read_table(part).to_pylist() for part in sorted(path.glob("part-*.parquet"))]


@pytest.mark.parametrize("which", ["last", "first"])  # of the three parts are lost: the two last, or the two first
def test_resuming_gives_what_an_uninterrupted_run_gives(tmp_path, which):
    pair = tiny_pair("llama")
    options = dict(max_new_tokens=9, max_overrun=4, batch_size=3)
    whole = collect(pair, PROMPTS, tmp_path / "whole", **options)
    collect(pair, PROMPTS, tmp_path / "cut", **options)
    kept, *lost = sorted((tmp_path / "cut").glob("part-*.parquet"))
    for part in lost[: 2 if which == "last" else 1]:
        part.unlink()
    if which == "first":
        kept.unlink()
        (kept,) = (tmp_path / "cut").glob("part-*.parquet")
    first = kept.stat().st_mtime_ns
    assert Trace.load(tmp_path / "cut").prompts == (3 if which == "last" else 2)
    again = collect(pair, PROMPTS, tmp_path / "cut", **options, resume=True)
    assert kept.stat().st_mtime_ns == first
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert (again.tokens, again.agreement) == (whole.tokens, whole.agreement)
    assert read_meta(tmp_path / "cut")["prompts_planned"] == 8
    finished = collect(pair, PROMPTS, tmp_path / "cut", **options, resume=True)  # nothing is left to do
    assert finished.tokens == whole.tokens and finished.tokens_per_second == 0


def test_resuming_where_nothing_is_begins(tmp_path):
    collect(tiny_pair("llama"), PROMPTS[:1], tmp_path / "new", max_new_tokens=3, resume=True)
    assert Trace.load(tmp_path / "new").prompts == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(max_new_tokens=8), r"max_new_tokens 9, this run has 8"),
        (dict(max_overrun=5), r"max_overrun 4, this run has 5"),
        (dict(batch_size=2), r"batch_size 3, this run has 2"),
        (dict(prompts=PROMPTS[:5]), r"prompts_planned 4, this run has 5"),
        (dict(prompts=PROMPTS[1:5]), r"prompts_sha256"),
        (dict(pair=Pair(tiny("llama"), tiny("llama", seed=9))), r"draft.weights_sample_sha256"),
    ],
)
def test_resuming_with_other_settings_is_refused(change, message, tmp_path):
    options = dict(pair=tiny_pair("llama"), prompts=PROMPTS[:4], max_new_tokens=9, max_overrun=4, batch_size=3)
    collect(**options, out=tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=message):
        collect(**options | change, out=tmp_path, resume=True)
    assert contents(tmp_path) == before


def test_a_trace_is_not_overwritten_by_accident(tmp_path):
    pair = tiny_pair("llama")
    collect(pair, PROMPTS[:4], tmp_path, max_new_tokens=4, batch_size=1)
    with pytest.raises(ValueError, match="holds a trace already; force replaces it, resume goes on"):
        collect(pair, PROMPTS[:2], tmp_path, max_new_tokens=4)
    with pytest.raises(ValueError, match="give one of them"):
        collect(pair, PROMPTS[:2], tmp_path, max_new_tokens=4, force=True, resume=True)
    collect(pair, PROMPTS[:2], tmp_path, max_new_tokens=4, force=True)
    assert Trace.load(tmp_path).prompts == 2 and len(contents(tmp_path)) == 1


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; a trace is a directory"):
        collect(tiny_pair("llama"), PROMPTS[:1], tmp_path / "file", max_new_tokens=2)
    with pytest.raises(RuntimeError, match="cannot be written.*resume goes on"):
        collect(tiny_pair("llama"), PROMPTS[:1], tmp_path / "file" / "trace", max_new_tokens=2)


def test_a_full_disk_keeps_the_finished_parts(tmp_path, monkeypatch):
    written = []

    def limited(table, where, **options):
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(where)
        write(table, where, **options)

    write = pq.write_table
    monkeypatch.setattr(pq, "write_table", limited)
    pair = tiny_pair("llama")
    with pytest.raises(RuntimeError, match="No space left on device.*finished parts are kept"):
        collect(pair, PROMPTS[:4], tmp_path, max_new_tokens=3, batch_size=1)
    assert Trace.load(tmp_path).prompts == 2
    assert not list(tmp_path.glob(".*"))
    monkeypatch.undo()
    collect(pair, PROMPTS[:4], tmp_path, max_new_tokens=3, batch_size=1, resume=True)
    assert Trace.load(tmp_path).prompts == 4


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_runs_that_are_killed_at_random_moments_lose_nothing(tmp_path):
    """Killed three times, gone on with: a readable trace after each kill, and in the end that of an undisturbed run."""
    prompts = [[5, 9, 2 + n % 90] for n in range(48)]
    options = dict(max_new_tokens=6, max_overrun=3, batch_size=2)
    script = f"""
        import os, signal, sys; sys.path[:0] = {sys.path!r}
        import torch; torch.set_num_threads(1)
        from builders.pairs import tiny_pair
        from oracle import overruns, record
        from oracle.collect import collect
        for line in sys.stdin:
            child = os.fork()  # before torch has computed anything, and without loading it anew
            if not child:
                collect(tiny_pair("llama"), {prompts!r}, {str(tmp_path / "cut")!r}, resume=True, **{options!r})
                os._exit(0)
            sys.stdin.readline()
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            print("killed", flush=True)
    """
    moments = random.Random()
    command, pipes = (
        [sys.executable, "-c", textwrap.dedent(script)],
        dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE),
    )
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as process:
        for _ in range(3):
            before = parts_of(tmp_path / "cut")
            process.stdin.write("start\n")
            wanted = before + moments.randint(1, 6)
            while parts_of(tmp_path / "cut") < wanted:
                assert process.poll() is None
                time.sleep(0.001)
            time.sleep(moments.random() * 0.02)
            process.stdin.write("kill\n")
            assert process.stdout.readline() == "killed\n"
            trace = Trace.load(tmp_path / "cut")
            assert trace.prompts == 2 * parts_of(tmp_path / "cut") > 2 * before
            assert (trace.unfinished or "").startswith(f"{trace.prompts} of 48 prompts: unfinished")
        process.stdin.close()
    pair = tiny_pair("llama")
    collect(pair, prompts, tmp_path / "cut", resume=True, **options)
    collect(pair, prompts, tmp_path / "whole", **options)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert Trace.load(tmp_path / "cut").unfinished is None
    assert not [file.name for file in (tmp_path / "cut").iterdir() if file.name.startswith(".")]


def parts_of(path):
    return len(list(path.glob("part-*.parquet")))


def test_two_prompts_of_one_id_are_refused(tmp_path):
    same = [SimpleNamespace(id="a", text=[5, 6]), SimpleNamespace(id="a", text=[7, 8])]
    with pytest.raises(ValueError, match="have the same id 'a'"):
        collect(tiny_pair("llama"), same, tmp_path / "t", max_new_tokens=2)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("empty", ["", "."])
def test_an_empty_path_is_no_place(tmp_path, monkeypatch, empty):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="the working directory itself; name a folder"):
        collect(tiny_pair("llama"), PROMPTS[:1], empty, max_new_tokens=2)
    assert not list(tmp_path.iterdir())


# --- arguments, meta, summary -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(max_new_tokens=0), "max_new_tokens is 0; it must be a whole number from 1 on"),
        (dict(max_new_tokens=2.5), "max_new_tokens is 2.5"),
        (dict(max_overrun=-1), "max_overrun is -1; it must be a whole number from 0 on"),
        (dict(max_overrun=2**70), "max_overrun is 1180591620717411303424; it must be at most 2147483647"),
        (dict(max_new_tokens=True), "max_new_tokens is True; it must be a whole number from 1 on"),
        (dict(batch_size=True), "batch_size is True; it must be a whole number from 1 on"),
        (dict(batch_size=2**31), "batch_size is 2147483648; it must be at most 2147483647"),
        (dict(batch_size=0), "batch_size is 0"),
        (dict(reference="greedy"), "reference is 'greedy'; legal: plain, assisted"),
        (dict(prompts=[]), "there is no prompt to collect"),
        (dict(prompts=[[200]]), "no prompt to collect.*token id 200.*0 to 96"),
    ],
)
def test_arguments_that_make_no_sense(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        collect(**dict(pair=tiny_pair("llama"), prompts=PROMPTS[:1], out=tmp_path / "trace") | options)
    assert not (tmp_path / "trace").exists()


def test_the_text_of_an_assisted_run_is_recorded_like_any_other(tmp_path):
    pair = tiny_pair("llama")
    end_in_the_middle(pair, PROMPTS, 24)
    collect(pair, PROMPTS[:4], tmp_path, max_new_tokens=24, max_overrun=5, reference="assisted")
    trace = Trace.load(tmp_path)
    assert trace.meta["reference"] == "assisted"
    expect_equals_recomputation(pair, trace, PROMPTS[:4], 5)


def test_in_half_precision_it_is_the_assisted_runs_own_text(tmp_path):
    pair = tiny_pair("llama")
    pair = Pair(pair.target.bfloat16(), pair.draft.bfloat16(), None)
    collect(pair, PROMPTS[:2], tmp_path, max_new_tokens=24, max_overrun=5, reference="assisted")
    for row, prompt in zip(iter_records(Trace.load(tmp_path)), PROMPTS[:2], strict=True):
        real = assisted(pair, np.array(prompt), Settings(5), max_new_tokens=24, clock=Clock())
        assert row.target_tokens.tolist() == real.tokens.tolist()


def test_no_overrun_is_recorded_where_none_is_wanted(tmp_path):
    collect(tiny_pair("llama"), PROMPTS[:2], tmp_path, max_new_tokens=9, max_overrun=0)
    trace = Trace.load(tmp_path)
    assert len(trace.overruns.position) > 0 and len(trace.overruns.tokens) == 0


def test_meta_says_what_was_run(tmp_path):
    pair = tiny_pair("llama")
    set_eos(pair, 7, 3)
    collect(pair, [*PROMPTS[:2], []], tmp_path, max_new_tokens=4, max_overrun=2)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["pair"] == "tiny-llama" and meta["target"]["model"] == "LlamaForCausalLM"
    assert meta["target"]["weights_sample_sha256"] != meta["draft"]["weights_sample_sha256"]
    assert (meta["dtype"], meta["device"], meta["decoding"], meta["reference"]) == ("float32", "cpu", "greedy", "plain")
    assert (meta["eos_token_ids"], meta["max_new_tokens"], meta["max_overrun"], meta["chat"]) == ([3, 7], 4, 2, False)
    assert meta["prompts"] == {"dataset": "given in memory"} and meta["prompts_planned"] == 2
    assert set(meta["versions"]) == {"torch", "transformers", "numpy", "pyarrow"}
    assert meta["skipped"] == [{"id": "2", "index": 2, "reason": "empty prompt", "kind": "empty"}]


def test_a_bar_is_shown_on_terminals_only(tmp_path, monkeypatch):
    shown = {}
    for terminal in (True, False):
        stderr = io.StringIO()
        stderr.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        out = tmp_path / str(terminal)
        collect(tiny_pair("llama"), PROMPTS[:4], out, max_new_tokens=3, batch_size=2, progress=True)
        shown[terminal] = stderr.getvalue()
    assert "4/4" in shown[True] and "tokens/s" in shown[True] and not shown[False]


def test_too_large_a_batch_says_so(tmp_path, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(record, "speak", full)
    with pytest.raises(RuntimeError, match="2 prompts at once do not fit .* smaller batch_size"):
        collect(tiny_pair("llama"), PROMPTS[:2], tmp_path, max_new_tokens=3, batch_size=2)


def test_two_prompts_of_one_id_are_refused_before_the_run(tmp_path):
    class Named(list):
        id = "a"

    with pytest.raises(ValueError, match="prompts 0 and 2 have the same id 'a'; give each its own"):
        collect(tiny_pair("llama"), [Named([5, 6]), [7, 8], Named([9])], tmp_path)
    assert not list(tmp_path.iterdir())


def test_summary_by_hand():
    from builders.traces import record as row

    rows = [row([5, 6, 7, 8], [5, 6, 9, 8]), row([5, 6], [4, 6], index=1)]
    summary = summarize(Trace.from_records(rows, {"eos_token_ids": [], "max_overrun": 4, "skipped": [{"id": "x"}]}))
    # iterations: from 0 two accepted, from 3 none and the text ends; second text: none, then the text ends
    assert (summary.prompts, summary.tokens, summary.skipped) == (2, 6, 1)
    assert summary.agreement == pytest.approx(4 / 6)
    assert summary.accepted_mean == pytest.approx(2 / 4) and summary.detect_mean == pytest.approx(6 / 4)
    assert summary.accepted_sd == summary.detect_sd == pytest.approx(np.std([2, 0, 0, 0], ddof=1))
    assert summary.censored == pytest.approx(2 / 4)


def test_one_iteration_has_no_standard_deviation():
    from builders.traces import record as row

    from oracle.commands.collect import show_summary

    summary = summarize(Trace.from_records([row([5, 6], [5, 6])], {"eos_token_ids": [], "max_overrun": 4}))
    assert np.isnan(summary.accepted_sd) and summary.accepted_mean == 1
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        show_summary(summary, Path("trace"))
    assert "1.00" in shown.getvalue() and "nan" not in shown.getvalue()


def test_pass_helpers_put_rows_together_in_order():
    said = Collected()
    said.add(torch.tensor([0, 2]), {"tokens": torch.tensor([5, 6])})
    said.add(torch.tensor([2]), {"tokens": torch.tensor([7])})
    assert [columns["tokens"].tolist() for columns in said.split(4)] == [[5], [], [6, 7], []]
