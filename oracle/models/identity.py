"""Which model this is: what a trace or a measured run says about it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from oracle.models.pair import Pair


def describe(model: PreTrainedModel) -> dict[str, Any]:
    """What identifies a model in a trace: name, revision, size, a hash of some of its weights, dtype and device."""
    return {
        "model": name_of(model),
        "revision": getattr(model.config, "_commit_hash", None),
        "parameters": int(model.num_parameters()),
        "weights_sample_sha256": fingerprint(model),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        **({"encoder_decoder": True} if model.config.is_encoder_decoder else {}),
    }


def facts(pair: Pair) -> dict[str, Any]:
    """What identifies a pair: its name, and both models; what its maker says of them counts."""
    said = {role: pair.info.get(role, {}) for role in ("target", "draft")}
    rest = {name: value for name, value in pair.info.items() if name not in said}
    found = {"target": describe(pair.target), "draft": pair.drafting.facts(pair)}
    return {"pair": pair.name} | rest | {role: found[role] | said[role] for role in said}


def fingerprint(model: PreTrainedModel) -> str:
    """Hash of names, shapes and some 64 values of every weight: tells checkpoints apart without reading gigabytes."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        if weight.device.type != "meta":  # weights that are kept on disk
            flat = weight.detach().flatten()
            digest.update(flat[:: max(1, len(flat) // 64)].float().cpu().numpy().tobytes())
    return digest.hexdigest()


def name_of(model: PreTrainedModel) -> str:
    """Its name on the hub or its folder; the name of its class where it was never loaded from anywhere."""
    return str(model.config.name_or_path or type(model).__name__)
