"""Target/draft pairs: the named ones, loading, and whether the two models fit together."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.loading import check_device, load_config, load_model, load_tokenizer, locate

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("auto", "float32", "bfloat16", "float16")

# Name -> (target, draft) on the model hub, as published with the results that a trace is compared with.
PUBLISHED = {
    "pythia": ("EleutherAI/pythia-1.4b-deduped", "EleutherAI/pythia-160m-deduped"),
    "opt": ("facebook/opt-6.7b", "facebook/opt-125m"),
    "codegen": ("Salesforce/codegen-6B-mono", "Salesforce/codegen-350M-mono"),
    "llama": ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B"),
    "starcoder": ("bigcode/starcoder", "bigcode/tiny_starcoder_py"),
    "vicuna": ("lmsys/vicuna-13b-v1.3", "double7/vicuna-68m"),
}
PAIRS = ("demo", *PUBLISHED)

_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")  # names of the limit in model configs

# Almost any two tokenizers split it differently: indentation, digits, accents, tabs, other scripts, a special token.
_PROBE = "def add(a, b):\n    return a + b  # naïve – 1, 22, 333\tÜber 你好 </s>"


@dataclass(frozen=True)
class Pair:
    """A target, a draft, and the tokenizer that they share (None where prompts are token ids)."""

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None = None
    name: str = ""
    info: dict[str, Any] = field(default_factory=dict)  # added to what a trace's meta.json says about the pair


def load_pair(
    name: str | None = None,
    *,
    target: str | Path | None = None,
    draft: str | Path | None = None,
    dtype: str = "auto",
    device: str | None = None,
    draft_device: str | None = None,
) -> Pair:
    """Load a named pair (see ``PAIRS``), or any two models by hub name or local directory.

    ``dtype`` "auto" keeps the checkpoint's (float32 for the demo pair); ``device`` defaults to the GPU where there is
    one, ``draft_device`` to ``device``.  Raises ValueError for names that are unknown, models that cannot be loaded and
    pairs that do not fit together; whatever can be told without reading weights is told first.
    """
    sources = _sources(name, target, draft)
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is unknown; choose one of {', '.join(DTYPES)}")
    devices = [device or _default_device(), draft_device or device or _default_device()]
    for place in devices:
        check_device(place)
    where = [locate(source) for source in sources]
    for role, source, options in zip(("target", "draft"), sources, where, strict=True):
        if load_config(source, options).is_encoder_decoder:
            raise ValueError(_encoder_decoder(role, source))
    tokenizers = [load_tokenizer(source, options) for source, options in zip(sources, where, strict=True)]
    if None not in tokenizers:
        check_tokenizers(*tokenizers)
    kind = "float32" if name == "demo" and dtype == "auto" else dtype
    models = [load_model(*each[:2], kind, each[2]) for each in zip(sources, where, devices, strict=True)]
    tokenizer = next((one for one in tokenizers if one is not None), None)
    pair = Pair(*models, tokenizer, name or " + ".join(sources))
    check_pair(pair)
    return pair


def check_pair(pair: Pair) -> None:
    """Raise one ValueError that says why the two models cannot work together, if they cannot."""
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if model.config.is_encoder_decoder:
            raise ValueError(_encoder_decoder(role, _name(model)))
        if getattr(model, "_is_stateful", False):
            raise ValueError(
                f"the {role} ({_name(model)}) keeps a recurrent state, which cannot be rolled back to an earlier token "
                "as speculative decoding needs; choose a model with attention only"
            )
    counts = {"target": rows(pair.target), "draft": rows(pair.draft)}
    if pair.tokenizer is None or counts["target"] == counts["draft"]:
        return
    needed = max(pair.tokenizer.get_vocab().values()) + 1
    role = min(counts, key=counts.__getitem__)
    if needed > counts[role]:
        raise ValueError(
            f"the tokenizer uses ids up to {needed - 1}, but the {role} ({_name(getattr(pair, role))}) knows only "
            f"{counts[role]}; choose a draft that shares the target's vocabulary"
        )


def check_tokenizers(target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase) -> None:
    """Raise ValueError, naming a token, where the two tokenizers contradict each other.

    The tokenizers are compared, never the sizes of the models: sizes are padded differently within one family, and
    equal sizes say nothing about equal tokens.  A token that only one of them has is no contradiction as long as its id
    is free in the other (families add special tokens over time); nor is another choice of what begins, ends or pads a
    text, because the draft gets the target's ids and stops where the target does.
    """
    ours, theirs = target.get_vocab(), draft.get_vocab()
    names = {number: token for token, number in theirs.items()}
    for token, number in sorted(ours.items(), key=lambda item: item[1]):
        if theirs.get(token, number) != number or names.get(number, token) != token:
            raise ValueError(
                f"the tokenizers differ: {token!r} is id {number} in the target's, but the draft's has "
                f"{theirs.get(token, 'none')} for it and {names.get(number, 'nothing')!r} at {number}; "
                "choose a draft with the target's tokenizer"
            )
    left, right = (one(_PROBE, add_special_tokens=False)["input_ids"] for one in (target, draft))
    if left != right:
        at = next(n for n in range(len(left) + 1) if left[: n + 1] != right[: n + 1])
        raise ValueError(
            f"the tokenizers have the same tokens but split text differently: {target.decode(left[at : at + 3])!r} is "
            f"{left[at : at + 3]} in the target's, the draft's has {right[at : at + 3]} there; "
            "choose a draft with the target's tokenizer"
        )


def rows(model: PreTrainedModel) -> int:
    """Number of token ids that a model scores, padding of the embedding included."""
    return int(model.config.get_text_config().vocab_size)


def most_positions(model: PreTrainedModel) -> int | None:
    """Most positions that a model can read, or None where its config names no limit."""
    config = model.config.get_text_config()
    limits = [getattr(config, name, None) for name in _POSITIONS]
    return min((limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**9), default=None)


def unequal_rows(pair: Pair) -> str | None:
    """Why the library will not run this pair as it is, where one model has more embedding rows than the other."""
    target, draft = rows(pair.target), rows(pair.draft)
    if target == draft:
        return None
    return (
        f"the target has {target} embedding rows and the draft {draft}: the library takes them for different tokenizers "
        "and would draft on another path; shrink the larger model once with "
        f"resize_token_embeddings({min(target, draft)}) and save_pretrained, then give that folder"
    )


def shared_rows(pair: Pair) -> int:
    """Ids that both models know: 0 .. shared_rows - 1.

    Models of one family pad their embeddings to different sizes; both models' logits are cut to this range before
    anything else is computed from them, the softmax included.
    """
    return min(rows(pair.target), rows(pair.draft))


def describe(model: PreTrainedModel) -> dict[str, Any]:
    """What identifies a model in a trace: name, revision, size, a hash of some of its weights, dtype and device."""
    return {
        "model": _name(model),
        "revision": getattr(model.config, "_commit_hash", None),
        "parameters": int(model.num_parameters()),
        "weights_sample_sha256": _fingerprint(model),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
    }


def _fingerprint(model: PreTrainedModel) -> str:
    """Hash of names, shapes and some 64 values of every weight: tells checkpoints apart without reading gigabytes."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        if weight.device.type != "meta":  # weights that are kept on disk
            flat = weight.detach().flatten()
            digest.update(flat[:: max(1, len(flat) // 64)].float().cpu().numpy().tobytes())
    return digest.hexdigest()


def _name(model: PreTrainedModel) -> str:
    return str(model.config.name_or_path or type(model).__name__)


def _encoder_decoder(role: str, name: str) -> str:
    return f"the {role} ({name}) is an encoder-decoder model; only pairs of decoder-only models are supported so far"


def _sources(name: str | None, target: str | Path | None, draft: str | Path | None) -> tuple[str, str]:
    """Where target and draft are: hub names or local directories."""
    if name is not None and (target is not None or draft is not None):
        raise ValueError(f"give either the name of a pair ({name!r}) or target and draft, not both")
    if name is None:
        if target is None or draft is None:
            raise ValueError(f"a pair needs a target and a draft, or one of the names {', '.join(PAIRS)}")
        return str(target), str(draft)
    if name == "demo":
        from oracle.shipped import data_path

        return str(data_path("pair") / "target"), str(data_path("pair") / "draft")
    if name not in PUBLISHED:
        raise ValueError(f"no pair is called {name!r}; choose one of {', '.join(PAIRS)}, or give target and draft")
    return PUBLISHED[name]


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
