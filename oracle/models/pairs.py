"""Target/draft pairs by name, and loading them or any two models."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.models.checks import check_architectures, check_tokenizers, remarks
from oracle.models.identity import name_of
from oracle.models.loading import check_device, load_config, load_model, load_tokenizer, locate
from oracle.models.pair import Pair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
SHIPPED = {"demo": "pair", "demo-t5": "pair-t5"}  # name -> folder of data/
PAIRS = (*SHIPPED, *PUBLISHED)


def load_pair(
    name: str | None = None,
    *,
    target: str | Path | None = None,
    draft: str | Path | None = None,
    dtype: str = "auto",
    device: str | None = None,
    draft_device: str | None = None,
    allow_token_differences: bool = False,
) -> Pair:
    """Load a named pair (see ``PAIRS``), or any two models by hub name or local directory.

    ``dtype`` "auto" keeps the checkpoint's (float32 for the demo pairs); ``device`` defaults to the GPU where there is
    one, ``draft_device`` to ``device``.  ``allow_token_differences`` takes a draft whose special tokens are others than
    the target's: prompts that hold one are left out.  What is allowed or noted is warned of, and is in ``Pair.info``.
    Raises ValueError for names that are unknown, models that cannot be loaded and pairs that do not fit together;
    whatever can be told without reading weights is told first.
    """
    sources = _sources(name, target, draft)
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is unknown; choose one of {', '.join(DTYPES)}")
    devices = [device or _default_device(), draft_device or device or _default_device()]
    for place in devices:
        check_device(place)
    where = [locate(source) for source in sources]
    target_config, draft_config = (load_config(*each) for each in zip(sources, where, strict=True))
    check_architectures((target_config, draft_config), sources)
    tokenizers = [load_tokenizer(source, options) for source, options in zip(sources, where, strict=True)]
    shared, facts, contradicting = _shared(tokenizers, sources, allow_token_differences)
    kind = "float32" if name in SHIPPED and dtype == "auto" else dtype
    models = [load_model(*each[:2], kind, each[2]) for each in zip(sources, where, devices, strict=True)]
    pair = Pair(models[0], models[1], shared, name or " + ".join(sources), facts, contradicting)
    remarks(pair)  # said where prompts are read; here only whether there is a reason against it
    return pair


def with_draft(
    pair: Pair,
    draft: str | Path,
    *,
    dtype: str = "auto",
    device: str | None = None,
    allow_token_differences: bool = False,
) -> Pair:
    """The target of ``pair`` with another draft, by hub name or local directory; ``device`` None: the target's.

    Warns and raises as `load_pair` does.
    """
    source, device = str(draft), device or str(pair.target.device)
    check_device(device)
    where = locate(source)
    check_architectures((pair.target.config, load_config(source, where)), (name_of(pair.target), source))
    tokenizers, sources = [pair.tokenizer, load_tokenizer(source, where)], (name_of(pair.target), source)
    shared, facts, contradicting = _shared(tokenizers, sources, allow_token_differences)
    found = Pair(
        pair.target, load_model(source, where, dtype, device), shared, " + ".join(sources), facts, contradicting
    )
    remarks(found)
    return found


def _shared(
    tokenizers: list[PreTrainedTokenizerBase | None], sources: tuple[str, str], allow: bool
) -> tuple[PreTrainedTokenizerBase | None, dict[str, Any], frozenset[int]]:
    """The tokenizer of a pair, what is to be recorded of the choice, and the ids that mean another token to the draft.

    Warns of every difference that is allowed, and where one of the models has no tokenizer.
    """
    target, draft = tokenizers
    if target is not None and draft is not None:
        found = check_tokenizers(target, draft, allow)
        for note in found.notes():
            warnings.warn(note, stacklevel=3)
        facts = found.facts()
        return target, {"token_differences": facts} if facts else {}, found.contradicting
    if draft is None:
        if target is not None:
            warnings.warn(
                f"{sources[1]} has no tokenizer: nothing shows that its token ids mean what {sources[0]}'s mean; the "
                "agreement of the two will tell",
                stacklevel=3,
            )
        return target, {}, frozenset()
    warnings.warn(f"{sources[0]} has no tokenizer: the draft's ({sources[1]}) splits the prompts", stacklevel=3)
    return draft, {"tokenizer": sources[1]}, frozenset()


def _sources(name: str | None, target: str | Path | None, draft: str | Path | None) -> tuple[str, str]:
    """Where target and draft are: hub names or local directories."""
    if name is not None and (target is not None or draft is not None):
        raise ValueError(f"give either the name of a pair ({name!r}) or target and draft, not both")
    if name is None:
        if target is None or draft is None:
            raise ValueError(f"a pair needs a target and a draft, or one of the names {', '.join(PAIRS)}")
        return str(target), str(draft)
    if name in SHIPPED:
        from oracle.shipped import data_path

        folder = data_path(SHIPPED[name])
        return str(folder / "target"), str(folder / "draft")
    if name not in PUBLISHED:
        raise ValueError(f"no pair is called {name!r}; choose one of {', '.join(PAIRS)}, or give target and draft")
    return PUBLISHED[name]


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
