import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle import shipped
from oracle.prompts import hub as prompt_hub
from oracle.prompts.chat import render_chat
from oracle.prompts.fields import Turn
from oracle.prompts.hub import HubSet
from oracle.prompts.sets import HUB_SETS, load_prompts

ROOT = Path(__file__).parents[2]
ROW = {"prompt": "hello"}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def texts(source: object, **options: object) -> list[str]:
    return [prompt.text for prompt in load_prompts(source, **options)]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


# forms


def test_mbpp_is_the_task_and_its_first_test_between_triple_quotes(tmp_path):
    full = {"task_id": 7, "text": "Add.", "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]}
    prompts = load_prompts(write(tmp_path / "a.jsonl", full))
    assert prompts.prompts[0].text == '"""\nAdd.\nassert add(1, 2) == 3\n"""\n'
    assert prompts.prompts[0].id == "7"
    sanitized = {"task_id": 7, "prompt": "Add.", "test_list": full["test_list"]}
    assert texts(write(tmp_path / "b.jsonl", sanitized)) == [prompts.prompts[0].text]
    assert prompts.prompts[0].user_turn == prompts.prompts[0].text


def test_alpaca_with_and_without_input(tmp_path):
    rows = [{"instruction": "Sort {x}.", "input": "b, a"}, {"instruction": "Wave."}]
    first, second = load_prompts(write(tmp_path / "a.jsonl", *rows))
    assert first.text.endswith("### Instruction:\nSort {x}.\n\n### Input:\nb, a\n\n### Response:")
    assert first.text.startswith("Below is an instruction that describes a task, paired with an input")
    assert second.text == (
        "Below is an instruction that describes a task. Write a response that appropriately completes the request."
        "\n\n### Instruction:\nWave.\n\n### Response:"
    )
    assert (first.user_turn, second.user_turn) == ("Sort {x}.\n\nb, a", "Wave.")
    assert (first.id, second.id) == ("0", "1")


def test_empty_alpaca_inputs_give_identical_prompts(tmp_path):
    rows = [{"instruction": "Hi", "input": value} for value in ("", None, "   ", float("nan"))]
    assert len(set(texts(write(tmp_path / "a.jsonl", *rows, {"instruction": "Hi"})))) == 1
    table = pa.table({"instruction": ["Hi", "Hi"], "input": pa.array([float("nan"), None], pa.float64())})
    pq.write_table(table, tmp_path / "a.parquet")
    assert set(texts(tmp_path / "a.parquet")) == set(texts(tmp_path / "a.jsonl"))


def test_cnn_dailymail_and_plain(tmp_path):
    news = write(tmp_path / "a.jsonl", {"article": "News.", "highlights": "N."})
    assert texts(news) == ["Summarize:\nNews.\nSummary:\n"]
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "entry_point": "f"}
    (prompt,) = load_prompts(write(tmp_path / "b.jsonl", row))
    assert (prompt.id, prompt.text, prompt.user_turn) == ("HumanEval/0", "def f():\n", "def f():\n")


def test_empty_texts_stay_as_rows_and_are_counted(tmp_path):
    rows = [ROW, {"prompt": ""}, {"prompt": " "}, {"prompt": None}, ROW]
    prompts = load_prompts(write(tmp_path / "a.jsonl", *rows))
    assert [prompt.text for prompt in prompts] == ["hello", "", " ", "", "hello"]
    assert (prompts.source["empty"], prompts.source["selected"]) == (3, 5)
    assert texts(write(tmp_path / "b.jsonl", {"instruction": " ", "input": ""})) == [""]
    assert texts(write(tmp_path / "c.jsonl", {"text": "", "test_list": ["assert True"]})) == [""]
    assert texts(write(tmp_path / "d.jsonl", {"article": None})) == [""]


# files


def test_byte_order_mark_and_line_separators(tmp_path):
    text = "é 你 \u2028 \x85 x"
    first = json.dumps({"instruction": text, "input": ""}, ensure_ascii=False)
    lines = first + '\n\n{"instruction":"b","input":""}\r\n'
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    prompts = load_prompts(tmp_path / "a.jsonl")
    assert [prompt.user_turn for prompt in prompts] == [text, "b"]
    assert prompts.source["blank_lines"] == 1
    array = json.dumps([{"prompt": text}], ensure_ascii=False).encode()
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf" + array)
    assert texts(tmp_path / "a.json") == [text]


def test_the_three_file_types_agree(tmp_path):
    rows = [{"task_id": i, "text": f"Task {i}.", "test_list": [f"assert f({i})"]} for i in range(3)]
    write(tmp_path / "a.jsonl", *rows)
    (tmp_path / "a.json").write_text(json.dumps(rows))
    folder = tmp_path / "split=test"  # a folder name that must not turn into a column
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.PARQUET")
    sets = [load_prompts(path) for path in (tmp_path / "a.jsonl", str(tmp_path / "a.json"), folder / "a.PARQUET")]
    assert sets[0].prompts == sets[1].prompts == sets[2].prompts
    assert len({found.source["sha256"] for found in sets}) == 3
    assert json.loads(json.dumps(sets[0].source)) == sets[0].source


def test_ids_are_row_numbers_unless_every_row_has_its_own(tmp_path):
    twice = load_prompts(write(tmp_path / "a.jsonl", {"task_id": 5, **ROW}, {"task_id": 5, **ROW}))
    assert ([prompt.id for prompt in twice], twice.source["ids"]) == (["0", "1"], "row")
    gap = load_prompts(write(tmp_path / "b.jsonl", {"id": "x", **ROW}, ROW))
    assert [prompt.id for prompt in gap] == ["0", "1"]
    named = load_prompts(write(tmp_path / "c.jsonl", {"id": "x", **ROW}, {"id": "y", **ROW}), limit=1)
    assert ([prompt.id for prompt in named], named.source["ids"]) == (["x"], "id")


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.jsonl", b'{"prompt": "a"}\n{"prompt": \n', ["a.jsonl, line 2", "not valid JSON", "delete this line"]),
        ("a.jsonl", b'{"prompt": "a"}\n[1]\n', ["a.jsonl, line 2", "list"]),
        ("a.jsonl", b'\n\n"a"\n', ["a.jsonl, line 3", "str"]),
        ("a.jsonl", b"[" * 100_000, ["a.jsonl, line 1", "nested too deeply"]),
        ("a.json", b"5", ["a.json", "expected one JSON array"]),
        ("a.json", b'[{"prompt": ' + b"[" * 600 + b"]" * 600 + b"}]", ["a.json", "nested too deeply"]),
        ("a.jsonl", b'{"prompt": ' + b"9" * 5000 + b"}", ["a.jsonl, line 1", "cannot be read"]),
        ("a.jsonl", b'{"prompt": "a"}\n{"prompt": "\xe9"}\n', ["a.jsonl, line 2", "UTF-8"]),
        ("a.jsonl", '{"prompt": "a"}'.encode("utf-16"), ["UTF-8"]),
        ("a.jsonl", b'{"prompt": "\\ud800"}', ["a.jsonl, line 1", "surrogate"]),
        ("a.jsonl", b'{"text": "a", "test_list": ["\\ud800"]}', ["line 1", "character 1 of test_list", "surrogate"]),
        ("a.jsonl", b'{"prompt": "a", "id": "\\ud800"}', ["a.jsonl, line 1", "the id", "surrogate"]),
        ("a.jsonl", b'{"prompt": 5}', ["a.jsonl, line 1", "prompt must be text", "int"]),
        ("a.jsonl", b'{"prompt": "a"}\n{"promt": "b"}', ["a.jsonl, line 2", "prompt", "promt"]),
        ("a.jsonl", b'{"promt": "b"}', ["a.jsonl, line 1", "instruction (alpaca)", "Did you mean 'prompt'?"]),
        ("a.jsonl", b"{}", ["a.jsonl, line 1", "(none)"]),
        ("a.jsonl", b'{"text": "b", "test_list": [3]}', ["a.jsonl, line 1", "test_list"]),
        ("a.jsonl", b"", ["no rows"]),
        ("a.jsonl", b"\n \r\n", ["no rows"]),
        ("a.json", b"[]", ["no rows"]),
        ("a.json", b'[{"prompt": "a"},\n 3]', ["a.json, row 2", "int"]),
        ("a.json", b'{"prompt": "a"}\n{"prompt": "b"}', ["a.json", ".jsonl"]),
        ("a.json", b'{"prompt": "a"}', ["a.json", "array"]),
        ("a.parquet", b"PAR1 no", ["a.parquet", "Parquet"]),
        ("a.xlsx", b"PK", ["'.xlsx'", ".jsonl, .json, .parquet, .csv, .tsv, .txt"]),
        ("a.jsnl", b"{}", ["'.jsnl'", "Did you mean '.jsonl'?"]),
    ],
)
def test_bad_files(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        load_prompts(tmp_path / name)
    for word in words:
        assert word in str(caught.value)


def test_a_parquet_file_whose_text_is_no_text_is_refused(tmp_path):
    broken = pa.array([b"fine", b"\xdc\x41"]).view(pa.string())
    pq.write_table(pa.table({"prompt": broken}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="a.parquet: not a readable Parquet file"):
        load_prompts(tmp_path / "a.parquet")


def test_a_directory_is_refused_and_its_script_never_run(tmp_path, no_network):
    folder = tmp_path / "mbpp"
    folder.mkdir()
    (folder / "mbpp.py").write_text("raise SystemExit('executed')")
    write(folder / "mbpp.jsonl", ROW)
    with pytest.raises(ValueError, match="is a directory.*mbpp.jsonl"):
        load_prompts(str(folder))
    assert texts(str(folder / "mbpp.jsonl")) == ["hello"]


def test_missing_file_names_the_nearest_one(tmp_path):
    write(tmp_path / "prompts.jsonl", ROW)
    with pytest.raises(ValueError, match=r"no file .*Did you mean 'prompts.jsonl'\?"):
        load_prompts(tmp_path / "promts.jsonl")


def test_a_path_named_like_a_data_set_is_a_path(tmp_path, monkeypatch, no_network):
    monkeypatch.chdir(tmp_path)
    Path("alpaca").mkdir()
    for source in (Path("alpaca"), "./alpaca"):
        with pytest.raises(ValueError, match="directory"):
            load_prompts(source)


# selection


def test_limit_takes_the_first_rows_and_seed_a_sample_that_grows(tmp_path):
    path = write(tmp_path / "a.jsonl", *({"prompt": str(i)} for i in range(50)))
    assert texts(path, limit=3) == ["0", "1", "2"]
    assert texts(path, limit=99) == [str(i) for i in range(50)]
    sample = texts(path, limit=20, seed=4)
    assert len(set(sample)) == 20 and sample != sorted(sample, key=int)
    assert texts(path, limit=5, seed=np.int64(4)) == sample[:5]
    assert texts(path, limit=20, seed=5) != sample
    assert sorted(texts(path, seed=4), key=int) == texts(path)
    assert [prompt.id for prompt in load_prompts(path, limit=5, seed=4)] == sample[:5]


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": -1}, {"limit": True}, {"limit": 2.5}, {"seed": -1}])
def test_bad_numbers(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a whole number"):
        load_prompts("demo-code", **options)


@pytest.mark.parametrize(
    "source, options, words",
    [
        ("mbbp", {}, ["Unknown prompts 'mbbp'", "demo-code", "Did you mean 'mbpp'?"]),
        ("", {}, ["mbpp"]),
        (["a", "b"], {}, ["name or a path"]),
        ("alpaca", {"split": "test"}, ["alpaca has no split 'test'", "Legal: train."]),
        ("mbpp", {"split": "tset"}, ["Did you mean 'test'?"]),
        ("demo-code", {"split": "test"}, ["demo-code has no splits"]),
        ("demo-text", {"revision": "main"}, ["demo-text has no revisions"]),
    ],
)
def test_bad_arguments(source, options, words, no_network):
    with pytest.raises(ValueError) as caught:
        load_prompts(source, **options)
    for word in words:
        assert word in str(caught.value)


# the demo prompts


@pytest.mark.parametrize("name, form", [("demo-code", "mbpp"), ("demo-text", "alpaca")])
def test_demo_prompts(name, form, no_network):
    prompts = load_prompts(name)
    assert (prompts.name, len(prompts), prompts.source["format"], prompts.source["empty"]) == (name, 40, form, 0)
    assert len({prompt.id for prompt in prompts}) == len({prompt.text for prompt in prompts}) == 40


def test_demo_asserts_are_python():
    for line in (ROOT / "data" / "demo-code.jsonl").read_text(encoding="utf-8").splitlines():
        for test in json.loads(line)["test_list"]:
            assert test.startswith("assert ")
            compile(test, "test", "exec")


def test_shipped_files_of_an_installed_wheel(tmp_path, monkeypatch):
    package = tmp_path / shipped.PACKAGE
    package.mkdir()
    (package / "only-here.txt").write_text("x")
    monkeypatch.syspath_prepend(tmp_path)
    assert shipped.data_path("only-here.txt") == package / "only-here.txt"
    assert shipped.data_path("demo-code.jsonl") == ROOT / "data" / "demo-code.jsonl"
    with pytest.raises(RuntimeError, match="'nowhere.txt'.*install oracle-lookahead again"):
        shipped.data_path("nowhere.txt")


# the hub


def cached_copy(cache: Path, hub_set: HubSet, rows: list[dict]) -> str:
    """Lay out what datasets leaves in its cache after a download of a data set, and return the commit."""
    import datasets

    commit, name = "c" * 40, hub_set.hub_id.split("/")[1]
    folder = cache / hub_set.hub_id.replace("/", "___") / hub_set.config / "0.0.0" / commit
    source = cache.parent / "rows.jsonl"
    write(source, *rows)
    built = datasets.load_dataset(
        "json", data_files={"test": str(source)}, split="test", cache_dir=str(cache.parent / "other")
    )
    folder.mkdir(parents=True)
    arrow = Path(built.cache_files[0]["filename"])
    (folder / f"{name}-test.arrow").write_bytes(arrow.read_bytes())
    info = json.loads((arrow.parent / "dataset_info.json").read_text())
    info.update(builder_name="parquet", dataset_name=name, config_name=hub_set.config)
    info["splits"]["test"]["dataset_name"] = name
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return commit


@pytest.fixture
def unreachable(monkeypatch):
    """A hub that refuses every connection; datasets must not even try it."""
    import huggingface_hub

    def refuse(*args, **kwargs):
        raise ConnectionRefusedError("connection refused")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", refuse)
    monkeypatch.setattr(huggingface_hub.HfApi, "hf_hub_download", lambda *a, **k: pytest.fail("asked the hub again"))


def test_cached_data_set_loads_without_the_hub(tmp_path, monkeypatch, unreachable):
    import datasets

    rows = [{"task_id": i, "text": f"Task {i}.", "test_list": [f"assert f({i})"]} for i in (11, 12, 13)]
    cache = tmp_path / "cache"
    commit = cached_copy(cache, HUB_SETS["mbpp"], rows)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(cache))
    offline = datasets.config.HF_HUB_OFFLINE
    prompts = load_prompts("google-research-datasets/mbpp", limit=2)
    assert [prompt.id for prompt in prompts] == ["11", "12"]
    expected = {"dataset": "google-research-datasets/mbpp", "config": "full", "split": "test", "revision": commit}
    assert expected.items() <= prompts.source.items()
    assert (prompts.source["rows"], prompts.source["format"]) == (3, "mbpp")
    assert json.dumps(prompts.source)
    with pytest.raises(ValueError, match="split train.* does not exist.*test"):
        load_prompts("mbpp", split="train")
    with pytest.raises(RuntimeError, match=f"cached at revision {commit}, not main"):
        load_prompts("mbpp", revision="main")
    assert datasets.config.HF_HUB_OFFLINE == offline


def test_no_hub_and_no_cache_names_both_ways_out(tmp_path, monkeypatch, unreachable):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="connection refused.*local file.*demo-code"):
        load_prompts("alpaca")
    with pytest.raises(RuntimeError, match="tatsu-lab/alpacca .*refused.*Did you mean 'tatsu-lab/alpaca'"):
        load_prompts("tatsu-lab/alpacca")


def test_a_hanging_name_server_does_not_hold_us_up(monkeypatch):
    import threading

    import huggingface_hub

    release = threading.Event()
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *a, **k: release.wait(60))
    problem, commit = prompt_hub.probe_hub("a/b", None, seconds=0.01)
    release.set()
    assert (problem, commit) == ("no answer within 0.01 s", None)


def test_load_dataset_is_called_with_config_and_never_with_trust(monkeypatch):
    import datasets

    calls = []

    def fake(*args, **options):
        calls.append((args, options))
        return datasets.Dataset.from_dict({"instruction": ["Wave.", "Nod."], "input": ["", "twice"]})

    monkeypatch.setattr(datasets, "load_dataset", fake)
    monkeypatch.setattr(prompt_hub, "probe_hub", lambda *a: (None, "d" * 40))
    prompts = load_prompts("alpaca", revision="main")
    assert calls == [(("tatsu-lab/alpaca", "default"), {"split": "train", "revision": "main"})]
    assert [prompt.id for prompt in prompts] == ["0", "1"]
    assert (prompts.source["revision"], prompts.source["ids"]) == ("d" * 40, "row")


def test_a_data_set_that_is_a_script_is_explained(monkeypatch):
    import datasets

    def fake(*args, **options):
        raise RuntimeError("Dataset scripts are no longer supported, but found alpaca.py")

    monkeypatch.setattr(datasets, "load_dataset", fake)
    monkeypatch.setattr(prompt_hub, "probe_hub", lambda *a: (None, None))
    with pytest.raises(RuntimeError, match="never executed.*local file"):
        load_prompts("alpaca")


def test_offline_variable_and_light_imports(tmp_path):
    write(tmp_path / "a.jsonl", ROW)
    code = """
import sys, time
from oracle.prompts.sets import load_prompts
assert len(load_prompts(sys.argv[1])) == 1
assert not {"torch", "transformers", "datasets", "huggingface_hub"} & set(sys.modules)
try:
    load_prompts("mbpp")
except RuntimeError as error:
    print(error)
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(tmp_path / "a.jsonl")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=50)
    assert "local file" in done.stdout and "Retrying" not in done.stderr, done.stderr


# chat


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["<s>", "<user>", "<assistant>", "wave", "twice", "[UNK]"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", unk_token="[UNK]")


def test_chat_is_one_user_turn_with_the_answer_opened(tokenizer, monkeypatch):
    template = (
        "{{ bos_token }} {% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    monkeypatch.setattr(tokenizer, "chat_template", template)
    assert tokenizer("wave").input_ids == [0, 3]
    assert render_chat(tokenizer, [Turn("user", "wave\n\ntwice")]).tokens == [0, 1, 3, 4, 2]


def test_chat_without_a_template_says_where_it_would_be(tokenizer):
    with pytest.raises(ValueError, match="chat_template.jinja.*tokenizer_config.json.*--chat"):
        render_chat(tokenizer, [Turn("user", "wave")])


def test_a_field_exists_where_it_has_content(tmp_path):
    """Tables of several configurations carry every column in every row, null where the row's own has none."""
    rows = [
        {"text": None, "prompt": "A.", "test_list": ["assert a"]},
        {"text": "B.", "prompt": None, "test_list": ["assert b"]},
        {"text": " ", "prompt": "C.", "test_list": []},
        {"text": None, "prompt": float("nan"), "test_list": ["assert d"]},
        {"text": "E.", "prompt": "other", "test_list": None},
        {"text": "F."},  # what has no content may be left out
        {"text": "G.", "test_list": [None]},
        {"test_list": ["assert h"]},
    ]
    file = tmp_path / "mixed.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    wanted = ['"""\nA.\nassert a\n"""\n', '"""\nB.\nassert b\n"""\n', '"""\nC.\n"""\n', "", '"""\nE.\n"""\n']
    assert texts(file) == [*wanted, '"""\nF.\n"""\n', '"""\nG.\n"""\n', ""]


def test_a_column_that_no_row_fills_names_no_form(tmp_path):
    file = tmp_path / "plain.jsonl"
    file.write_text(
        '{"prompt": "x", "instruction": null, "test_list": []}\n{"prompt": "y", "instruction": ""}', "utf-8"
    )
    assert texts(file) == ["x", "y"]
    assert load_prompts(file).source["format"] == "plain"


def test_empty_rows_keep_the_form_of_their_fields(tmp_path):
    file = tmp_path / "empty.jsonl"
    file.write_text('{"instruction": null}\n{"instruction": ""}', "utf-8")
    assert (texts(file), load_prompts(file).source["format"]) == (["", ""], "alpaca")
