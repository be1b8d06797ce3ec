"""A checkpoint is data: what it asks the library to run, fetch or open beyond its own files is refused before it loads.

``trust_remote_code=False`` alone is not enough.  The library leaves that argument out of some calls of its own, where
it then asks on the terminal; a configuration can name attention code of the hub; an adapter's configuration can name
another model; and an index of weights can name any file.  And where a model of the hub has pickled weights only, the
library asks a service of the hub, in a thread of its own, to convert them for everybody.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from oracle.models import compat

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

CODE_REFUSED = (
    "checkpoints that bring their own code are not supported; choose a model that transformers implements itself, "
    "or a version of this one that was converted to it"
)
_INDEX = "model.safetensors.index.json"
# Implementations that a configuration may name -> the package that has to be there, where one has to; without it, or
# under any other name, the library would fetch code from the hub.
_ATTENTION: dict[str, str | None] = {
    "eager": None,
    "sdpa": None,
    "flex_attention": None,
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
    "flash_attention_4": "flash_attn",
}
_EXPERTS: dict[str, str | None] = {"eager": None, "batched_mm": None, "grouped_mm": None}


class Refused(ValueError):
    """A checkpoint asks for something that none may; the message says what, and what to do."""


@contextlib.contextmanager
def no_questions() -> Iterator[None]:
    """Where the library would ask on the terminal whether to run a checkpoint's code, it refuses at once instead."""
    from transformers import dynamic_module_utils

    before = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # the library's own switch for machines that nobody watches
    try:
        yield
    finally:
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = before


@contextlib.contextmanager
def no_conversion() -> Iterator[None]:
    """Weights of the hub are read as they are: nobody is asked to convert them, and no conversion is fetched."""
    name = "DISABLE_SAFETENSORS_CONVERSION"  # the library's own switch, which it reads at each loading
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def check_config(source: str, config: PreTrainedConfig) -> None:
    """Raise Refused where a configuration names code of the hub, or weights that are not safetensors of its own."""
    implementations: dict[str, dict[str, str | None]] = {
        "attn_implementation": _ATTENTION,
        "experts_implementation": _EXPERTS,
    }
    for part in _parts(config):
        for key, legal in implementations.items():
            _check_implementation(source, key, getattr(part, f"_{key}", None), legal)
    weights = getattr(config, "transformers_weights", None)
    if weights is not None and not (
        stays_within(weights) and str(weights).endswith((".safetensors", ".safetensors.index.json"))
    ):
        raise Refused(
            f"{source}: its configuration names {weights!r} as weights; only *.safetensors of the checkpoint itself "
            "are read: take transformers_weights out of config.json"
        )


def check_weights(source: str, config: PreTrainedConfig, where: dict[str, bool]) -> None:
    """Raise Refused for an index of safetensors that names anything else or elsewhere, and for distributed shards."""
    if any(Path(source).glob("shard-*-model-*-of-*.safetensors")):
        raise Refused(
            f"{source}: holds the shards of a distributed training (shard-*.safetensors), whose reader can unpickle; "
            "load them where they were made and save them with save_pretrained, then give that folder"
        )
    for name in {_INDEX, str(getattr(config, "transformers_weights", None) or _INDEX)}:
        if not name.endswith(".index.json") or not (index := own_file(source, name, where)):
            continue
        for shard in shards(source, name, index):
            if not (stays_within(shard) and str(shard).endswith(".safetensors")):
                raise Refused(
                    f"{source}: {name} names {shard!r}; only *.safetensors of the checkpoint itself are read: get the "
                    "checkpoint again, or save it with save_pretrained"
                )


def check_tokenizer(source: str, where: dict[str, bool]) -> object:
    """The class that the tokenizer's own files name; Refused where one that is named is something else of the library.

    The library takes any name that it has (a model's or another loader's, too) and loads that without our arguments.
    """
    from transformers import PreTrainedTokenizerBase
    from transformers.models.auto.tokenization_auto import get_tokenizer_config, tokenizer_class_from_name
    from transformers.utils.import_utils import DummyObject

    own = get_tokenizer_config(source, local_files_only=where["local_files_only"])
    for named in (own, config_dict(source, where)):
        name = named.get("tokenizer_class")
        if not isinstance(name, str):
            continue
        for spelling in {name, name.removesuffix("Fast"), f"{name}Fast"}:
            found = tokenizer_class_from_name(spelling)
            # A dummy says which package its class needs, and does nothing else.
            known = isinstance(found, DummyObject) or (
                isinstance(found, type) and issubclass(found, PreTrainedTokenizerBase)
            )
            if found is not None and not known:
                raise Refused(
                    f"{source}: names {name!r} as the class of its tokenizer, which is no tokenizer; correct "
                    "tokenizer_class in tokenizer_config.json or config.json"
                )
    return own.get("tokenizer_class")


def _parts(config: Any) -> Iterator[Any]:
    """A configuration and those of its parts (a model of text within one of pictures)."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        if (part := getattr(config, name, None)) is not None:
            yield from _parts(part)


def _check_implementation(source: str, key: str, name: object, legal: dict[str, str | None]) -> None:
    if name is None:
        return
    package = legal.get(name) if isinstance(name, str) else None
    if name not in legal or (package and importlib.util.find_spec(package) is None):
        raise Refused(
            f"{source}: its configuration asks for {key} {name!r}, which would be code from elsewhere; legal: "
            f"{', '.join(legal)} (flash attention where its package is installed); take {key} out of config.json"
        )


def shards(source: str, name: str, index: str) -> set[object]:
    """The files that an index of weights names."""
    with open(index, encoding="utf-8") as file:
        content = json.load(file)
    named = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(named, dict):
        raise Refused(f"{source}: {name} has no weight_map; get the checkpoint again")
    return set(map(str, named.values()))


def stays_within(name: object) -> bool:
    """Whether a name in a checkpoint stays within the checkpoint, whatever system reads it."""
    if not isinstance(name, str):
        return False
    windows = PureWindowsPath(name)
    return not (windows.anchor or PurePosixPath(name).is_absolute() or ".." in windows.parts)


def own_file(source: str, name: str, where: dict[str, bool]) -> str | None:
    """Path of a file of the checkpoint, fetched where it may be; None where there is none."""
    from transformers.utils.hub import cached_file

    return cached_file(
        source,
        name,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        **where,
    )


def config_dict(source: str, where: dict[str, bool]) -> dict[str, Any]:
    """What config.json says, or the file that it points to; empty where there is none, as beside many a tokenizer."""
    if not own_file(source, "config.json", where):
        return {}
    return compat.config_class().get_config_dict(source, **where)[0]
