"""Which files hold a checkpoint's weights, and that these hold weights: safetensors where there are any, else pickles.

A pickle is a programme that builds values, and can build anything.  Many checkpoints of the hub have nothing else, so
theirs are read by torch's weights-only reader: it runs the few instructions that rebuild tensors and refuses a file
that asks for more, before any of that is done.  Each file is read through once without its numbers first, so that what
is wrong is one sentence, and the models are loaded by the library, which uses the same reader.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.models.untrusted import Refused, own_file, shards, stays_within

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

SAFE = ("model.safetensors", "model.safetensors.index.json")
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")  # the names that the library looks for, in its order
_LOAD_AS = "get the checkpoint as safetensors, or one that its makers saved with save_pretrained"
# What torch says of a name that a file asks for beyond tensors.
_ASKED = re.compile(r"GLOBAL (\S+) (?:was not an allowed global|whose module \S+ is blocked)")


def are_pickled(source: str, config: PreTrainedConfig, where: dict[str, bool]) -> bool:
    """Whether the weights are in pickles only: any safetensors of theirs come first.

    Raises what the library raises for a hub that does not answer as it should.
    """
    from transformers.utils.hub import has_file

    if getattr(config, "transformers_weights", None) is not None:  # the configuration's own choice, safetensors always
        return False
    there = (
        any(has_file(source, name, local_files_only=where["local_files_only"]) for name in names)
        for names in (SAFE, PICKLED)
    )
    return not next(there) and next(there)


def check_pickles(source: str, where: dict[str, bool]) -> set[str]:
    """Names of the weights in pickled files, fetched where they may be, each file read by the weights-only reader.

    Raises Refused for a file that holds or asks for anything but tensors by name, and for an index that names other
    files than ``*.bin`` of the checkpoint itself.
    """
    return {key for name, path in _files(source, where) for key in _keys(source, name, path)}


def _files(source: str, where: dict[str, bool]) -> Iterator[tuple[str, str]]:
    """Name and path of each file: the whole one where there is one, as the library chooses, else those of the index."""
    whole, index = PICKLED
    if path := own_file(source, whole, where):
        yield whole, path
        return
    listed = own_file(source, index, where)
    for shard in sorted(map(str, shards(source, index, listed))) if listed else ():
        if not (stays_within(shard) and shard.endswith(".bin")):
            raise Refused(
                f"{source}: {index} names {shard!r}; only *.bin of the checkpoint itself are read: {_LOAD_AS}"
            )
        path = own_file(source, shard, where)
        if path is None:
            raise ValueError(f"{source}: {shard}, which {index} names, is not there; get the checkpoint again")
        yield shard, path


def _keys(source: str, name: str, path: str) -> set[str]:
    """Names of the weights in one file; nothing of their numbers is read where its format allows that."""
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a pickle's version: what cannot be read is an error
            found: Any = torch.load(path, map_location="meta", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # torch has no class for it: UnpicklingError, RuntimeError, EOFError, KeyError, ...
        raise Refused(
            f"{source}: {Path(name).name} {_reason(error)}, so it is not read and nothing of it was run; {_LOAD_AS}"
        ) from error
    if not isinstance(found, Mapping) or not found or not all(_is_weight(*item) for item in found.items()):
        raise Refused(f"{source}: {Path(name).name} does not hold weights by name; {_LOAD_AS}")
    return set(found)


def _is_weight(key: object, value: object) -> bool:
    import torch

    return isinstance(key, str) and isinstance(value, torch.Tensor)


def _reason(error: Exception) -> str:
    """What torch says, without its advice to read the file in an unsafe way."""
    text = str(error)
    if asked := _ASKED.search(text):
        return f"asks for {asked[1]}, which is no part of weights"
    if "legacy .tar format" in text:
        return "is a tar file of torch's first format"
    if "TorchScript" in text:
        return "is a TorchScript programme"
    return "is no file of weights that torch can read"
