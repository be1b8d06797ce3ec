"""Target/draft pairs: the named ones, how they are loaded, and whether the two models fit together."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("auto", "float32", "bfloat16", "float16")

# Name -> (target, draft) on the model hub, as published with the results that `oracle` is compared with.
PUBLISHED = {
    "pythia": ("EleutherAI/pythia-1.4b-deduped", "EleutherAI/pythia-160m-deduped"),
    "opt": ("facebook/opt-6.7b", "facebook/opt-125m"),
    "codegen": ("Salesforce/codegen-6B-mono", "Salesforce/codegen-350M-mono"),
    "llama": ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B"),
    "starcoder": ("bigcode/starcoder", "bigcode/tiny_starcoder_py"),
    "vicuna": ("lmsys/vicuna-13b-v1.3", "double7/vicuna-68m"),
    "flan-t5": ("google/flan-t5-xl", "google/flan-t5-small"),
}
PAIRS = ("demo", *PUBLISHED)

_PROBE = "def add(a, b):\n    return a + b  # naïve – 1, 22, 333\tÜber 你好 <s></s>"


@dataclass(frozen=True)
class Pair:
    """A target, a draft, and the tokenizer that they share (None where prompts are token ids)."""

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None = None
    name: str = ""
    info: dict[str, Any] = field(default_factory=dict)  # what a trace's meta.json says about the two models


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

    ``dtype`` "auto" keeps the checkpoint's; ``device`` defaults to the GPU where there is one, ``draft_device`` to ``device``.
    Raises ValueError for names that are unknown, models that cannot be loaded and pairs that do not fit together.
    """
    target, draft = _sources(name, target, draft)
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is unknown; choose one of {', '.join(DTYPES)}")
    if name == "demo" and dtype == "auto":
        dtype = "float32"
    device = device or _default_device()
    draft_device = draft_device or device
    tokenizer, other = _load_tokenizer(target), _load_tokenizer(draft)
    if tokenizer is not None and other is not None:
        check_tokenizers(tokenizer, other)
    models = [_load_model(target, dtype, device), _load_model(draft, dtype, draft_device)]
    pair = Pair(*models, tokenizer if tokenizer is not None else other, name or f"{target} + {draft}")
    check_pair(pair)
    return pair


def check_pair(pair: Pair) -> None:
    """Raise one ValueError that says why the two models cannot work together, if they cannot."""
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if model.config.is_encoder_decoder:
            raise ValueError(
                f"the {role} ({describe(model)['model']}) is an encoder-decoder model; "
                "only pairs of decoder-only models are supported so far"
            )
    shared = shared_rows(pair)
    if pair.tokenizer is not None and len(pair.tokenizer) > shared:
        smaller = "target" if rows(pair.target) == shared else "draft"
        raise ValueError(
            f"the tokenizer has {len(pair.tokenizer)} tokens but the {smaller} ({describe(getattr(pair, smaller))['model']}) "
            f"only {shared} embedding rows; choose a pair that shares one vocabulary"
        )


def check_tokenizers(target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase) -> None:
    """Raise ValueError, naming a token, unless both tokenizers give every token and every special token the same id.

    The tokenizers are compared, never the sizes of the models: sizes are padded differently within one family, and equal
    sizes say nothing about equal tokens.
    """
    ours, theirs = target.get_vocab(), draft.get_vocab()
    for token in sorted(ours.keys() | theirs.keys(), key=lambda token: ours.get(token, theirs.get(token))):
        if ours.get(token) != theirs.get(token):
            ids = f"id {ours.get(token, 'none')} in the target's, {theirs.get(token, 'none')} in the draft's"
            raise ValueError(f"the tokenizers differ: {token!r} has {ids}; choose a draft with the target's tokenizer")
    for text in (_PROBE,):
        left, right = (tokenizer(text, add_special_tokens=False)["input_ids"] for tokenizer in (target, draft))
        if left != right:
            at = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
            raise ValueError(
                f"the tokenizers split {text!r} differently from token {at} on ({left[at : at + 3]} and {right[at : at + 3]}); "
                "choose a draft with the target's tokenizer"
            )


def rows(model: PreTrainedModel) -> int:
    """Number of token ids that a model scores, padding of the embedding included."""
    return int(model.config.get_text_config().vocab_size)


def shared_rows(pair: Pair) -> int:
    """Ids that both models know: 0 .. shared_rows - 1.

    Models of one family pad their embeddings to different sizes; both models' logits are cut to this range before anything
    else, the softmax included.
    """
    return min(rows(pair.target), rows(pair.draft))


def describe(model: PreTrainedModel) -> dict[str, Any]:
    """What identifies a model in a trace: name, revision, hash of its config, dtype, device."""
    config = model.config
    text = config.to_json_string(use_diff=False)
    return {
        "model": str(config.name_or_path or type(model).__name__),
        "revision": getattr(config, "_commit_hash", None),
        "config_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "parameters": int(model.num_parameters()),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
    }


def _sources(name: str | None, target: str | Path | None, draft: str | Path | None) -> tuple[str, str]:
    if name is not None and (target is not None or draft is not None):
        raise ValueError(f"give either the pair's name ({name!r}) or target and draft, not both")
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


def _load_tokenizer(source: str) -> PreTrainedTokenizerBase | None:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError):
        if Path(source).is_dir():
            return None  # the pair's other half may bring one; prompts as token ids need none
        raise ValueError(_unreachable(source)) from None


def _load_model(source: str, dtype: str, device: str) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True)
    except OSError as error:
        raise ValueError(_unreachable(source, error)) from None
    if getattr(model, "hf_device_map", None) is None and not getattr(model, "is_quantized", False):
        model = model.to(device)
    return model.eval()


def _unreachable(source: str, error: Exception | None = None) -> str:
    reason = f" ({str(error).splitlines()[0]})" if error else ""
    return f"{source}: no such model{reason}; give a local directory with config.json, *.safetensors and tokenizer files"
