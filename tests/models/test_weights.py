"""Pickled weights: they load to the same numbers, and no file that holds more than weights does anything."""

import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile

import pytest
import torch
from builders.pairs import tiny
from builders.tokenizers import save, word_tokenizer
from safetensors.torch import load_file, save_file

from oracle.models import loading
from oracle.models.identity import fingerprint
from oracle.models.pairs import load_pair
from oracle.models.untrusted import Refused, no_conversion


class Runs:
    """What a pickle calls when it is read without care."""

    def __init__(self, marker, call=open):
        self.call, self.given = call, (str(marker), "w") if call is open else (str(marker),)

    def __reduce__(self):
        return self.call, self.given


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    monkeypatch.setattr(loading, "_hub_problem", lambda source: "ConnectError: no route")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint, and its weights by name."""
    folder = save(tmp_path_factory.mktemp("saved"), tiny("llama"), word_tokenizer())
    return folder, load_file(folder / "model.safetensors")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the checkpoint without weights."""
    copy = shutil.copytree(saved[0], tmp_path / "copy")
    (copy / "model.safetensors").unlink()
    return copy


def loaded(folder):
    return load_pair(target=folder, draft=folder, device="cpu").target


def write_shards(folder, weights):
    names = sorted(weights)
    files = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
    for file, keys in files.items():
        torch.save({key: weights[key] for key in keys}, folder / file)
    write_index(folder, {key: file for file, keys in files.items() for key in keys})


def write_index(folder, weight_map):
    content = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(content))


WRITERS = {
    "zip": lambda folder, weights: torch.save(weights, folder / "pytorch_model.bin"),
    "before torch 1.6": lambda folder, weights: torch.save(
        weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False
    ),
    "shards": write_shards,
    "parameters": lambda folder, weights: torch.save(
        {key: torch.nn.Parameter(value) for key, value in weights.items()}, folder / "pytorch_model.bin"
    ),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_pickled_weights_are_those_that_were_saved(write, saved, folder):
    write(folder, saved[1])
    assert fingerprint(loaded(folder)) == fingerprint(loaded(saved[0]))


@pytest.mark.parametrize("write", [WRITERS["zip"], WRITERS["shards"]])
def test_of_the_cache_of_the_hub_too(write, saved, folder, tmp_path, monkeypatch):
    write(folder, saved[1])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    repository = tmp_path / "cache" / "models--org--name"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    shutil.copytree(folder, repository / "snapshots" / ("0" * 40))
    model = loaded("org/name")
    assert model.config.name_or_path == "org/name" and fingerprint(model) == fingerprint(loaded(saved[0]))


def test_weights_as_old_checkpoints_name_them(tmp_path):
    """Without the head that is tied, without the name of the body, and with masks that the model computes today."""
    config = tiny("opt").config
    config.tie_word_embeddings = True
    model = type(tiny("opt"))(config)
    folder = save(tmp_path, model, word_tokenizer())
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    old = {key.removeprefix("model."): value for key, value in weights.items() if not key.startswith("lm_head")}
    torch.save(old | {"decoder.version": torch.tensor([3.0])}, folder / "pytorch_model.bin")
    assert fingerprint(loaded(folder)) == fingerprint(model)


def test_safetensors_come_first(saved, folder, tmp_path):
    shutil.copy(saved[0] / "model.safetensors", folder)
    torch.save({"x": Runs(tmp_path / "marker")}, folder / "pytorch_model.bin")
    assert fingerprint(loaded(folder)) == fingerprint(loaded(saved[0]))
    assert not (tmp_path / "marker").exists()


def tar(path, hostile):
    with tarfile.open(path, "w") as archive:
        for name in ("storages", "tensors", "pickle"):
            entry = tarfile.TarInfo(name)
            content = pickle.dumps(hostile, protocol=2)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def scripted(path, hostile):
    torch.jit.script(torch.nn.Linear(2, 2)).save(path)


def zipped(path, hostile):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(hostile, protocol=2))
        archive.writestr("archive/version", "3\n")


HOSTILE = {
    "torch's own format": (
        lambda path, hostile: torch.save({"lm_head.weight": hostile}, path),
        "asks for io.open, which is no part of weights, so it is not read and nothing of it was run; get the",
    ),
    "before torch 1.6": (
        lambda path, hostile: torch.save({"a": hostile}, path, _use_new_zipfile_serialization=False),
        "asks for io.open",
    ),
    "a bare pickle": (lambda path, hostile: path.write_bytes(pickle.dumps(hostile, protocol=2)), "asks for io.open"),
    "a new pickle": (lambda path, hostile: path.write_bytes(pickle.dumps(hostile)), "is no file of weights"),
    "a zip of it": (zipped, "asks for io.open"),
    "a tar file": (tar, "is a tar file of torch's first format"),
    "a programme": (scripted, "is a TorchScript programme"),
    "a list": (lambda path, hostile: torch.save([torch.ones(2)], path), "does not hold weights by name"),
    "a number": (lambda path, hostile: torch.save({"lm_head.weight": 3}, path), "does not hold weights by name"),
    "nothing": (lambda path, hostile: path.write_bytes(b""), "is no file of weights"),
    "nonsense": (lambda path, hostile: path.write_bytes(b"nonsense"), "is no file of weights"),
    "safetensors": (lambda path, hostile: save_file({"a": torch.ones(2)}, path), "is no file of weights"),
}


@pytest.mark.parametrize(("write", "message"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("shard", [False, True])
def test_a_file_that_holds_more_than_weights_runs_nothing(write, message, shard, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "pytorch_model-00001-of-00001.bin" if shard else "pytorch_model.bin"
    write(folder / name, Runs(tmp_path / "marker"))
    if shard:
        write_index(folder, {"lm_head.weight": name})
    with pytest.raises(Refused, match=message) as caught:
        loaded(folder)
    text = str(caught.value)
    assert text.startswith(f"{folder}: {name} ") and "weights_only" not in text and "\n" not in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]


def test_the_hostile_file_is_hostile(tmp_path):
    """Read without care it does what it says, or the test above would show nothing."""
    torch.save({"a": Runs(tmp_path / "marker")}, tmp_path / "x.bin")
    torch.load(tmp_path / "x.bin", weights_only=False)
    assert (tmp_path / "marker").exists()


def test_a_module_that_is_never_allowed_is_named(folder, tmp_path):
    torch.save({"a": Runs(tmp_path / "marker", os.mkdir)}, folder / "pytorch_model.bin")
    with pytest.raises(Refused, match="asks for posix.mkdir|asks for nt.mkdir"):
        loaded(folder)
    assert not (tmp_path / "marker").exists()


def test_a_pickle_behind_the_name_of_safetensors_is_never_read(folder, tmp_path):
    torch.save({"a": Runs(tmp_path / "marker")}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="cannot be loaded"):
        loaded(folder)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "shard", ["../own.bin", "/etc/x.bin", "..\\x.bin", "C:\\x.bin", "sub/../../x.bin", "own.pt", "own.safetensors"]
)
def test_an_index_names_only_pickles_of_the_checkpoint(shard, saved, folder, tmp_path):
    for place in (tmp_path / "own.bin", folder / "own.pt", folder / "own.safetensors"):
        torch.save(saved[1], place)
    write_index(folder, {"lm_head.weight": shard})
    with pytest.raises(Refused, match=r"pytorch_model.bin.index.json names .*; only \*.bin of the checkpoint itself"):
        loaded(folder)


def test_a_shard_that_is_missing_is_named(folder):
    write_index(folder, {"lm_head.weight": "pytorch_model-00001-of-00001.bin"})
    with pytest.raises(ValueError, match="pytorch_model-00001-of-00001.bin, which .*index.json names, is not there"):
        loaded(folder)


def test_a_pickled_head_is_told_by_its_weights(folder):
    torch.save({"fc.weight": torch.zeros(2, 4)}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="is an EAGLE head"):
        loaded(folder)


def test_missing_weights_are_not_made_up(saved, folder):
    torch.save(
        {key: value for key, value in saved[1].items() if key != "model.norm.weight"}, folder / "pytorch_model.bin"
    )
    with pytest.raises(ValueError, match=r"lacks 1 weights \(model.norm.weight\)"):
        loaded(folder)


def test_nobody_is_asked_to_convert_weights_of_the_hub(tmp_path, monkeypatch):
    """The library would, in a thread of its own that goes to the hub, unless it is told."""
    from transformers import modeling_utils

    (tmp_path / "x.bin").touch()
    asked = []
    monkeypatch.delenv("DISABLE_SAFETENSORS_CONVERSION", raising=False)
    monkeypatch.setattr(modeling_utils, "is_offline_mode", lambda: False)
    monkeypatch.setattr(modeling_utils, "has_file", lambda *given, **named: False)
    monkeypatch.setattr(modeling_utils, "cached_file", lambda name, file, **named: str(tmp_path / "x.bin"))
    monkeypatch.setattr(modeling_utils, "Thread", lambda **named: asked.append(named["name"]) or _Idle())

    def find():
        return modeling_utils._get_resolved_checkpoint_files("org/name", None, None, False, None, False)

    find()
    assert asked == ["Thread-auto_conversion"]
    with no_conversion():
        assert find()[0] == [str(tmp_path / "x.bin")]
    assert len(asked) == 1 and "DISABLE_SAFETENSORS_CONVERSION" not in os.environ


class _Idle:
    def start(self):
        pass
