"""What a checkpoint is, told from its files and its configuration before anything of it is loaded.

Much is published beside language models that looks like one: heads that continue a target's hidden states, adapters,
files of other programmes.  Loaded as a model they give an error about weights, or a model with random ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from oracle.models.weights import PICKLED

_Config = dict[str, Any]
_INSTEAD = "give a draft that is a causal language model of its own, with the target's tokenizer"
_CONVERT = (
    "give the folder of the original checkpoint (config.json, *.safetensors), or convert it once with "
    "AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=FILE).save_pretrained(NEW_FOLDER) (package gguf)"
)
_MERGE = "merge it once (merge_and_unload and save_pretrained of peft), then give that folder"

# What it is -> how its configuration tells; the first one that fits.  The names are those of the published checkpoints
# and of the engines that read them (vLLM, SGLang, TensorRT-LLM, speculators, transformers).
_HEADS: dict[str, Callable[[_Config], bool]] = {
    "a DFlash head": lambda config: _named(config, r"dflash") or "dflash_config" in config,
    "an EAGLE head": lambda config: (
        _named(config, r"^(?!.*vl).*eagle") or not {"eagle_config", "draft_vocab_size"}.isdisjoint(config)
    ),
    "a Medusa head": lambda config: _named(config, r"medusa") or "medusa_num_heads" in config,
    "a Hydra head": lambda config: _named(config, r"hydra") or "hydra_num_heads" in config,
    "an MLP speculator": lambda config: _named(config, r"mlp_?speculator"),
    "an assistant for its target's hidden states": lambda config: _named(config, r"_assistant$|assistantforcausallm"),
    "a multi-token-prediction head": lambda config: _named(config, r"mtp|nextn$"),
    "a speculator": lambda config: not {"speculators_model_type", "speculators_config"}.isdisjoint(config),
}


def check_kind(source: str, files: Iterable[str], config: _Config | None) -> None:
    """Raise ValueError, naming it and what to do, for a checkpoint that is no language model of its own.

    ``files`` are the names in it as far as they are known, ``config`` is its config.json; None where it has none.
    """
    names = set(files)
    if problem := _by_files(names, config is not None) or (config and _by_config(config)):
        raise ValueError(f"{source}: {problem}")


def check_file(source: str) -> None:
    """Raise ValueError for a file in place of a folder that is known to be another programme's."""
    if source.lower().endswith(".gguf"):
        raise ValueError(f"{source}: a GGUF file, which is llama.cpp's; {_CONVERT}")


def check_heads(source: str, keys: set[str]) -> None:
    """Raise ValueError where the names of the weights tell a head, as an EAGLE head says that it is a llama.

    ``fc`` mixes the target's hidden states with the embedding of a token, before its first layer.
    """
    if "fc.weight" in keys:
        raise ValueError(f"{source}: {_head('an EAGLE head (its weights have fc.weight)')}")
    if any(re.match(r"(medusa_head\.)?\d+\.\d+\.linear\.weight$", key) for key in keys):
        raise ValueError(f"{source}: {_head('a Medusa head')}")


def _by_files(names: set[str], has_config: bool) -> str | None:
    endings = {Path(name).suffix.lower() for name in names}
    if "adapter_config.json" in names:
        return (
            "holds an adapter (adapter_config.json), which can name another model and change this one; "
            f"it is no model by itself: {_MERGE}"
        )
    weights = ".safetensors" in endings or not names.isdisjoint(PICKLED)
    if weights and (has_config or "params.json" not in names):
        return None
    if ".gguf" in endings:
        return f"holds GGUF files only, which are llama.cpp's; {_CONVERT}"
    if "params.json" in names and not has_config:
        return (
            "holds a checkpoint of Mistral's own format (params.json), which transformers does not read; "
            "give a version with config.json and model*.safetensors"
        )
    other = {".onnx": "ONNX", ".mlmodel": "Core ML", ".tflite": "TensorFlow Lite", ".h5": "TensorFlow", ".pth": "torch"}
    found = next((name for ending, name in other.items() if ending in endings), None)
    if found is None:
        return None
    return f"holds weights of {found} only; give a version with *.safetensors"


def _by_config(config: _Config) -> str | None:
    head = next((name for name, fits in _HEADS.items() if fits(config)), None)
    if head:
        return _head(f"{head} ({_told_by(config)})")
    quantised = config.get("quantization")
    if isinstance(quantised, dict) and {"group_size", "bits"} <= {*quantised} and "quantization_config" not in config:
        return "is quantised for MLX, which transformers does not read; give the original checkpoint"
    return None


def _head(what: str) -> str:
    return f"is {what}, which reads its target's hidden states and says nothing without them; {_INSTEAD}"


def _named(config: _Config, pattern: str) -> bool:
    return any(re.search(pattern, name, re.I) for name in _own_names(config))


def _own_names(config: _Config) -> list[str]:
    """What a configuration calls itself."""
    architectures = config.get("architectures")
    listed = architectures if isinstance(architectures, list) else [architectures]
    kinds = [config.get(name) for name in ("model_type", "speculators_model_type")]
    return [name for name in (*listed, *kinds) if isinstance(name, str)]


def _told_by(config: _Config) -> str:
    return ", ".join(dict.fromkeys(_own_names(config))) or "config.json"
