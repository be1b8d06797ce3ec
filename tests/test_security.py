"""Checkpoints, tokenizers and traces are data: each way in which one could run code, ask for it, or reach out."""

import builtins
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from builders.pairs import tiny_pair
from builders.tokenizers import save, word_tokenizer
from builders.traces import EOS, pattern
from typer.testing import CliRunner

from oracle.cli import app
from oracle.generate import plain
from oracle.models import loading
from oracle.models.pairs import load_pair
from oracle.models.untrusted import Refused, no_questions
from oracle.prompts.chat import render_chat
from oracle.prompts.fields import Turn
from oracle.records.trace import write_meta, write_part
from oracle.timing import Clock

ROOT = Path(__file__).parent.parent
REFUSED = "checkpoints that bring their own code are not supported; choose a model that transformers implements"
AUTO = {name: f"own.{name}" for name in ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoProcessor")}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    root, pair = tmp_path_factory.mktemp("honest"), tiny_pair("llama")
    return save(root / "target", pair.target, word_tokenizer()), save(root / "draft", pair.draft, word_tokenizer())


@pytest.fixture
def marker(tmp_path):
    """The file that code of a checkpoint writes when it is run."""
    return tmp_path / "marker"


@pytest.fixture
def draft(honest, tmp_path, marker):
    """A draft with code beside its weights, under every name by which a configuration below calls it."""
    folder = shutil.copytree(honest[1], tmp_path / "draft")
    for name in ("own.py", "custom_generate/generate.py", "evil_quantizer.py", "__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code(marker))
    return folder


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """Questions on the terminal, all answered with yes."""
    questions = []
    monkeypatch.setattr(builtins, "input", lambda text="": questions.append(text) or "y")
    return questions


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    monkeypatch.setattr(loading, "_hub_problem", lambda source: "ConnectError: no route")


def code(marker):
    """What writes the marker when it is imported, and when any of its classes or functions is used."""
    return f"""
open({str(marker)!r}, "w").close()
class Anything:
    def __new__(cls, *args, **kwargs): open({str(marker)!r}, "w").close()
    from_pretrained = __new__
{"".join(f"class {name}(Anything): pass{chr(10)}" for name in [*AUTO, "Tokenizer"])}
def generate(*args, **kwargs): open({str(marker)!r}, "w").close()
"""


class Unpickled:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


def edit(file, **values):
    file.write_text(json.dumps((json.loads(file.read_text()) if file.exists() else {}) | values))


def refused(folder, honest, message, marker, asked):
    with pytest.raises(ValueError, match=message) as caught:
        load_pair(target=honest[0], draft=folder, device="cpu")
    assert str(folder) in str(caught.value)
    assert not marker.exists() and not asked


def ignored(folder, honest, marker, asked):
    """Load the pair and write a text with it; what the folder asks for beside its weights is passed over."""
    pair = load_pair(target=folder, draft=folder, device="cpu")
    clean = load_pair(target=honest[1], draft=honest[1], device="cpu")
    texts = [plain(each, np.array([1, 5, 9]), max_new_tokens=4, clock=Clock()).tokens for each in (pair, clean)]
    np.testing.assert_array_equal(*texts)
    assert not marker.exists() and not asked


# --- code of the folder -----------------------------------------------------------------------------------------------


def test_the_library_would_ask_and_run_it(draft, marker, asked):
    """What all this is about: the library left alone asks, and runs the code after a yes."""
    from transformers import AutoConfig

    edit(draft / "config.json", model_type="own", auto_map=AUTO)
    with pytest.raises(Exception):  # noqa: B017 - whatever the class of the folder makes of it
        AutoConfig.from_pretrained(draft)
    assert asked and marker.exists()


def test_where_the_library_would_ask_it_refuses(asked):
    from transformers import dynamic_module_utils

    before = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    with pytest.raises(ValueError, match="trust_remote_code"), no_questions():
        dynamic_module_utils.resolve_trust_remote_code(None, "org/model", False, True)
    assert not asked and dynamic_module_utils.TIME_OUT_REMOTE_CODE == before > 0


def test_a_kind_of_model_that_only_the_folder_knows(draft, honest, marker, asked):
    edit(draft / "config.json", model_type="own", auto_map=AUTO)
    refused(draft, honest, REFUSED, marker, asked)


def test_a_kind_that_the_library_has_no_such_model_of(draft, honest, marker, asked):
    edit(draft / "config.json", model_type="depth_anything", auto_map={"AutoModelForCausalLM": AUTO["AutoModel"]})
    refused(draft, honest, f"{REFUSED}|is a depth_anything model, and none that goes on", marker, asked)


def test_code_of_another_folder(draft, honest, tmp_path, marker, asked):
    edit(draft / "config.json", model_type="own", auto_map={"AutoConfig": f"{draft}--own.AutoConfig"})
    refused(draft, honest, REFUSED, marker, asked)


def test_code_of_a_part_of_a_known_kind(draft, honest, marker, asked):
    """The library builds a model's parts without handing on that no code is trusted."""
    part = {"model_type": "colpali", "auto_map": {"AutoModel": f"{draft}--own.AutoModel"}}
    (draft / "config.json").write_text(json.dumps({"model_type": "gemma3", "vision_config": part}))
    refused(draft, honest, REFUSED, marker, asked)


def test_a_kind_that_the_library_knows_is_loaded_by_the_library(draft, honest, marker, asked):
    edit(draft / "config.json", auto_map=AUTO)
    ignored(draft, honest, marker, asked)


@pytest.mark.parametrize("auto_map", [{"AutoTokenizer": ["own.Tokenizer", None]}, ["own.Tokenizer", "own.Tokenizer"]])
def test_a_tokenizer_that_only_the_folder_knows(auto_map, draft, honest, marker, asked):
    edit(draft / "tokenizer_config.json", tokenizer_class="OwnWords", auto_map=auto_map)
    refused(draft, honest, REFUSED, marker, asked)


@pytest.mark.parametrize(
    "name",
    ["AutoTokenizer", "AutoTokenizerFast", "AutoConfig", "AutoModelForCausalLM", "AutoProcessor", "RagTokenizer",
     "pipeline"],
)  # fmt: skip
@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_another_loader_of_the_library_is_no_tokenizer(name, file, draft, honest, marker, asked):
    """Loaded as a tokenizer it would load the folder again, with the question that this call has ruled out."""
    config = json.loads((draft / "tokenizer_config.json").read_text())
    config.pop("tokenizer_class")
    (draft / "tokenizer_config.json").write_text(json.dumps(config))
    edit(draft / file, tokenizer_class=name, auto_map=AUTO)
    refused(draft, honest, f"names '{name}' as the class of its tokenizer, which is no tokenizer", marker, asked)


def test_a_tokenizer_that_the_library_has_under_an_old_name_loads(draft, honest, marker, asked):
    edit(draft / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    ignored(draft, honest, marker, asked)


@pytest.mark.parametrize(
    "file", ["processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json"]
)
def test_processors_are_not_loaded(file, draft, honest, marker, asked):
    edit(draft / file, auto_map=AUTO, processor_class="Own")
    ignored(draft, honest, marker, asked)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"custom_generate": "./custom_generate", "auto_map": AUTO},
        {"cache_implementation": "static"},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"dola_layers": "low"},
        {"constraints": [1], "force_words_ids": [[5]]},
    ],
)
def test_a_generation_of_the_folder_is_not_used(values, draft, honest, marker, asked):
    edit(draft / "generation_config.json", **values)
    ignored(draft, honest, marker, asked)


def test_a_compiler_of_the_folder_is_refused(draft, honest, marker, asked):
    edit(draft / "generation_config.json", compile_config={"backend": "own"})
    refused(draft, honest, "generation_config.json, which cannot be read .*compile_config", marker, asked)


@pytest.mark.parametrize(
    "values",
    [
        {"use_kernels": True, "kernel_config": {"kernel_mapping": {"RMSNorm": "org/repo:Norm"}}},
        {"trust_remote_code": True},
        {"custom_generate": "custom_generate/generate.py"},
        {"quantization_config": {"quant_method": "evil_quantizer", "modules": ["own"]}},
    ],
)
def test_a_configuration_cannot_switch_code_on(values, draft, honest, marker, asked):
    edit(draft / "config.json", **values)
    ignored(draft, honest, marker, asked)


@pytest.mark.parametrize("method", ["quark", "auto-round", "hqq", "compressed-tensors", "torchao", "gptq", "awq"])
def test_a_quantisation_needs_its_own_package_installed(method, draft, honest, marker, asked):
    (draft / f"{method.replace('-', '_')}.py").write_text(code(marker))
    edit(draft / "config.json", quantization_config={"quant_method": method, "bits": 4})
    refused(draft, honest, "cannot be loaded", marker, asked)


# --- code from elsewhere ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attn_implementation": "org/kernel:fn"}, "attn_implementation 'org/kernel:fn', which would be code from"),
        ({"_attn_implementation": "org/kernel@main"}, "attn_implementation 'org/kernel@main'"),
        ({"attn_implementation": "paged|org/kernel"}, "attn_implementation"),
        ({"attn_implementation": {"": "kernels-community/flash-attn2"}}, "attn_implementation 'kernels-community"),
        ({"attn_implementation": "flash_attention_2"}, "attn_implementation 'flash_attention_2'.*its package"),
        ({"experts_implementation": "sonicmoe"}, "experts_implementation 'sonicmoe'.*legal: eager, batched_mm"),
    ],
)
def test_kernels_of_the_hub_are_refused(values, message, draft, honest, marker, asked, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    edit(draft / "config.json", **values)
    refused(draft, honest, message, marker, asked)


def test_kernels_of_a_part_are_refused():
    from transformers import Gemma3Config

    from oracle.models.untrusted import check_config

    config = Gemma3Config()
    check_config("it", config)
    config.text_config._attn_implementation = "org/kernel"
    with pytest.raises(Refused, match="it: its configuration asks for attn_implementation 'org/kernel'"):
        check_config("it", config)


@pytest.mark.parametrize("name", ["eager", "sdpa"])
def test_attention_of_the_library_may_be_named(name, draft, honest, marker, asked):
    edit(draft / "config.json", attn_implementation=name)
    assert load_pair(target=draft, draft=draft, device="cpu").draft.config._attn_implementation == name


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "pytorch_model-00001-of-00001.bin", "rng_state.pth"])
def test_pickles_beside_the_weights_are_not_opened(name, draft, honest, marker, asked):
    (draft / name).write_bytes(pickle.dumps(Unpickled(marker)))
    edit(draft / "pytorch_model.bin.index.json", metadata={}, weight_map={"lm_head.weight": name})
    ignored(draft, honest, marker, asked)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "pytorch_model.bin",
            r"pytorch_model.bin asks for io.open, which is no part of weights.*nothing of it was run",
        ),
        ("model.pt", "no .*safetensors in there, and no pytorch_model.bin"),
        ("model.bin", "no .*safetensors in there, and no pytorch_model.bin"),
        ("model.safetensors", "cannot be loaded"),
    ],
)
def test_pickles_instead_of_the_weights_run_nothing(name, message, draft, honest, marker, asked):
    (draft / "model.safetensors").unlink()
    (draft / name).write_bytes(pickle.dumps(Unpickled(marker), protocol=2))
    refused(draft, honest, message, marker, asked)


def test_an_unrelated_safetensors_opens_no_door(draft, honest, marker, asked):
    (draft / "model.safetensors").rename(draft / "other.safetensors")
    (draft / "pytorch_model.bin").write_bytes(pickle.dumps(Unpickled(marker)))
    refused(draft, honest, "pytorch_model.bin is no file of weights that torch can read", marker, asked)


@pytest.mark.parametrize(
    "shard",
    ["../honest.safetensors", "/etc/x.safetensors", "..\\x.safetensors", "C:\\x.safetensors", "own.bin",
     "sub/../../x.safetensors"],
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_an_index_names_only_safetensors_of_the_folder(shard, named, draft, honest, marker, asked):
    index = draft / ("own.safetensors.index.json" if named else "model.safetensors.index.json")
    shutil.copy(draft / "model.safetensors", draft.parent / "honest.safetensors")
    (draft / "model.safetensors").rename(draft / "own.safetensors")
    (draft / "own.bin").write_bytes(pickle.dumps(Unpickled(marker)))
    edit(index, metadata={}, weight_map={"lm_head.weight": "own.safetensors", "model.norm.weight": shard})
    if named:
        edit(draft / "config.json", transformers_weights=index.name)
    refused(draft, honest, "own.*index.json names|model.*index.json names", marker, asked)


def test_an_index_without_a_map_is_one_error(draft, honest, marker, asked):
    edit(draft / "model.safetensors.index.json", weight_map=["model.safetensors"])
    refused(draft, honest, "has no weight_map", marker, asked)


def test_shards_of_the_folder_load(draft, honest, marker, asked):
    (draft / "model.safetensors").unlink()
    tiny_pair("llama").draft.save_pretrained(draft, max_shard_size="10KB")
    assert len(list(draft.glob("model-*.safetensors"))) > 1
    ignored(draft, honest, marker, asked)


@pytest.mark.parametrize("weights", ["adapter_model.bin", "../honest.safetensors", "/x.safetensors", "own.bin", 3])
def test_weights_that_the_configuration_names(weights, draft, honest, marker, asked):
    for name in ("adapter_model.bin", "own.bin"):
        (draft / name).write_bytes(pickle.dumps(Unpickled(marker)))
    edit(draft / "config.json", transformers_weights=weights)
    refused(draft, honest, "its configuration names .* as weights; only", marker, asked)


def test_adapters_are_refused(draft, honest, marker, asked):
    edit(draft / "adapter_config.json", base_model_name_or_path="org/other", peft_type="LORA", auto_mapping=AUTO)
    refused(draft, honest, "holds an adapter.*merge_and_unload", marker, asked)


def test_shards_of_a_distributed_training_are_refused(draft, honest, marker, asked):
    shutil.copy(draft / "model.safetensors", draft / "shard-00001-model-00001-of-00001.safetensors")
    (draft / ".metadata").write_bytes(pickle.dumps(Unpickled(marker)))
    refused(draft, honest, "shards of a distributed training", marker, asked)


def test_a_file_is_no_checkpoint(draft, marker, asked, monkeypatch):
    monkeypatch.chdir(draft)
    with pytest.raises(ValueError, match="config.json: a file, not a directory"):
        load_pair(target="config.json", draft="config.json")


# --- models of the hub, as its cache holds them -----------------------------------------------------------------------


def cached(folder, root, monkeypatch):
    """The name of a model in the hub's cache with the files of that folder."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(root))
    repository = root / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    shutil.copytree(folder, repository / "snapshots" / ("0" * 40))
    return "org/name"


def test_a_cached_model_loads(draft, tmp_path, marker, asked, monkeypatch):
    name = cached(draft, tmp_path / "cache", monkeypatch)
    assert load_pair(target=name, draft=name, device="cpu").tokenizer is not None
    assert not marker.exists() and not asked


class Made:
    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def hostile_pickle(folder):
    """Its code would make the file `marker` beside the folder."""
    (folder / "model.safetensors").unlink()
    torch.save({"lm_head.weight": Made(folder.parent / "marker")}, folder / "pytorch_model.bin")


def index_of_another_folder(folder):
    (folder / "model.safetensors").unlink()
    edit(folder / "model.safetensors.index.json", metadata={}, weight_map={"lm_head.weight": "../x.safetensors"})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: edit(folder / "config.json", model_type="own", auto_map=AUTO), REFUSED),
        (lambda folder: edit(folder / "tokenizer_config.json", tokenizer_class="AutoProcessor"), "is no tokenizer"),
        (lambda folder: edit(folder / "adapter_config.json", base_model_name_or_path="x/y"), "holds an adapter"),
        (lambda folder: edit(folder / "config.json", attn_implementation="x/y"), "code from elsewhere"),
        (index_of_another_folder, "index.json names '../x.safetensors'"),
        (hostile_pickle, "asks for posix.mkdir"),
    ],
)
def test_a_cached_model_is_refused_for_the_same_reasons(spoil, message, draft, tmp_path, marker, asked, monkeypatch):
    spoil(draft)
    name = cached(draft, tmp_path / "cache", monkeypatch)
    with pytest.raises(ValueError, match=f"org/name: .*{message}"):
        load_pair(target=name, draft=name, device="cpu")
    assert not marker.exists() and not asked


# --- tokenizers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tekken.json", "tokenizer.model", "vocab.json", "vocab.txt", "added_tokens.json"])
def test_other_files_of_a_tokenizer_are_data(name, draft, honest, marker, asked):
    (draft / "tokenizer.json").unlink()
    (draft / name).write_bytes(pickle.dumps(Unpickled(marker)))
    refused(draft, honest, "cannot be loaded|tokenizers differ", marker, asked)


@pytest.mark.parametrize(
    "template",
    [
        "{{ cycler.__init__.__globals__.os.system('touch MARKER') }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append('x') }}",
        "{% include '/etc/hostname' %}",
        "{{ lipsum.__globals__['os'].popen('touch MARKER').read() }}",
    ],
)
def test_a_chat_template_is_rendered_in_a_sandbox(template, marker, asked):
    tokenizer = word_tokenizer(chat_template=template.replace("MARKER", str(marker)))
    with pytest.raises(ValueError, match="chat template of the tokenizer .* cannot be used .*Leave --chat out"):
        render_chat(tokenizer, [Turn("user", "w5")])
    assert not marker.exists()


def test_the_sandbox_lets_nothing_be_changed():
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from transformers.utils.chat_template_utils import _compile_jinja_template

    assert isinstance(_compile_jinja_template("").environment, ImmutableSandboxedEnvironment)


# --- traces -----------------------------------------------------------------------------------------------------------


def trace_of(folder, model, **meta):
    folder.mkdir()
    target = {"target": {"model": str(model)}, "draft": {"model": "d"}}
    write_meta(folder, {"eos_token_ids": [EOS], "max_overrun": 9, "prompts": {"dataset": "by-hand"}, **target, **meta})
    branches = {at: [(1, 0.9)] * 9 for at in range(9)}
    write_part(folder, 0, [pattern("++-+++-+", overruns=branches), pattern("+++++", index=1, overruns=branches)])
    return folder


def words(folder, marker, *, hostile):
    """A tokenizer's folder, hostile or not."""
    word_tokenizer().save_pretrained(folder)
    (folder / "own.py").write_text(code(marker))
    if hostile:
        edit(
            folder / "tokenizer_config.json",
            tokenizer_class="OwnWords",
            auto_map={"AutoTokenizer": ["own.Tokenizer"] * 2},
        )
    return folder


def page(trace, out, *more):
    done = CliRunner().invoke(
        app, ["report", str(trace), "-o", str(out), "--policy", "constant:tokens=3", *more], input="y\n" * 100
    )
    assert "[y/N]" not in done.output
    return done, out.read_text() if out.exists() else ""


def test_a_folder_that_a_trace_names_is_never_opened(tmp_path, marker, asked, monkeypatch):
    opened = []
    monkeypatch.setattr(loading, "load_tokenizer", lambda *given: opened.append(given))
    folder = words(tmp_path / "words", marker, hostile=False)
    done, text = page(trace_of(tmp_path / "trace", folder), tmp_path / "report.html")
    assert done.exit_code == 0 and "w10" not in text and not opened and not asked
    assert f"no tokenizer of '{folder}' is in the cache of models (--tokenizer FOLDER names one)" in done.stderr


@pytest.mark.parametrize("name", ["org/name", "name", "./org/name", "../x/org/name", "~/org/name", "tokenizer.json"])
def test_a_relative_folder_that_a_trace_names_is_never_opened(name, tmp_path, marker, asked, monkeypatch):
    here = tmp_path / "x"
    for place in (here / "org" / "name", here / "name"):
        words(place, marker, hostile=True)
    words(here, marker, hostile=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here))
    done, _ = page(trace_of(tmp_path / "trace", name), tmp_path / "report.html")
    assert done.exit_code == 0 and "Token numbers instead of text" in done.stderr
    assert not marker.exists() and not asked


def test_a_model_of_the_cache_that_a_trace_names_gives_text(tmp_path, marker, asked, monkeypatch):
    """Even where a hostile folder of that name lies in the working directory."""
    cached(words(tmp_path / "words", marker, hostile=False), tmp_path / "cache", monkeypatch)
    words(tmp_path / "org" / "name", marker, hostile=True)
    monkeypatch.chdir(tmp_path)
    done, text = page(trace_of(tmp_path / "trace", "org/name"), tmp_path / "report.html")
    assert done.exit_code == 0 and "w10" in text and "Token numbers" not in done.stderr
    assert not marker.exists() and not asked


def test_a_hostile_model_of_the_cache_gives_numbers(tmp_path, marker, asked, monkeypatch):
    cached(words(tmp_path / "words", marker, hostile=True), tmp_path / "cache", monkeypatch)
    trace = trace_of(tmp_path / "trace", "org/name")
    done, text = page(trace, tmp_path / "report.html")
    assert done.exit_code == 0 and "w10" not in text and REFUSED in done.stderr
    done, _ = page(trace, tmp_path / "other.html", "--tokenizer", "org/name")
    assert done.exit_code == 2 and REFUSED in done.stderr
    assert not marker.exists() and not asked


def test_the_word_of_the_user_opens_a_folder_and_runs_nothing(tmp_path, marker, asked):
    trace = trace_of(tmp_path / "trace", "org/name")
    done, text = page(
        trace, tmp_path / "good.html", "--tokenizer", str(words(tmp_path / "good", marker, hostile=False))
    )
    assert done.exit_code == 0 and "w10" in text
    done, _ = page(trace, tmp_path / "bad.html", "--tokenizer", str(words(tmp_path / "bad", marker, hostile=True)))
    assert done.exit_code == 2 and REFUSED in done.stderr
    done, _ = page(trace, tmp_path / "none.html", "--tokenizer", str(tmp_path / "nowhere"))
    assert done.exit_code == 2 and "no tokenizer in that folder or in the cache of models" in done.stderr
    assert not marker.exists() and not asked


def test_a_heatmap_is_drawn_by_the_same_rule(tmp_path, marker, asked):
    trace = trace_of(tmp_path / "trace", words(tmp_path / "words", marker, hostile=True))
    done = CliRunner().invoke(app, ["plot", str(trace), "heatmap", "-o", str(tmp_path / "x.png")], input="y\n" * 100)
    assert done.exit_code == 0 and "Token numbers instead of text" in done.stderr
    assert not marker.exists() and not asked


def test_traces_of_the_demo_pair_keep_their_text(tmp_path, marker):
    done, _ = page(trace_of(tmp_path / "trace", "/anywhere", pair="demo"), tmp_path / "report.html")
    assert done.exit_code == 0 and "Token numbers" not in done.stderr


# --- the commands, with yes on their standard input -------------------------------------------------------------------


def with_yes(*given, cwd):
    words_ = [sys.executable, "-m", "oracle.cli", *map(str, given)]
    settings = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(cwd / "home")}
    return subprocess.run(words_, input="y\n" * 100, capture_output=True, text=True, cwd=cwd, env=settings)


@pytest.mark.parametrize("part", ["config.json", "tokenizer_config.json"])
def test_collect_refuses_whatever_is_answered(part, draft, honest, tmp_path, marker):
    if part == "config.json":
        edit(draft / part, model_type="own", auto_map=AUTO)
    else:
        edit(draft / part, tokenizer_class="OwnWords", auto_map={"AutoTokenizer": ["own.Tokenizer", None]})
    pair = ["--target", honest[0], "--draft", draft, "--dataset", "demo-text", "--limit", 1]
    done = with_yes("collect", tmp_path / "out", *pair, cwd=tmp_path)
    assert done.returncode == 2 and REFUSED in done.stderr, done.stderr
    assert "y/N" not in done.stdout + done.stderr and not marker.exists()
