"""Target/draft pairs by name, and loading them or any two models."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.drafts.alone import without_draft_model
from oracle.drafts.kinds import OtherTokenizer, OwnModel, is_lookup
from oracle.models.checks import check_architectures, check_tokenizers, remarks
from oracle.models.identity import name_of
from oracle.models.loading import check_device, load_config, load_model, load_tokenizer, locate
from oracle.models.named import PAIRS, SHIPPED, named
from oracle.models.pair import Pair

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DTYPES = ("auto", "float32", "bfloat16", "float16")


def load_pair(
    name: str | None = None,
    *,
    target: str | Path | None = None,
    draft: str | Path | None = None,
    dtype: str = "auto",
    device: str | None = None,
    draft_device: str | None = None,
    allow_token_differences: bool = False,
    draft_layers: int | None = None,
    universal: bool = False,
) -> Pair:
    """Load a named pair (see ``PAIRS``), or any two models by hub name or local directory.

    Instead of a model the draft may be ``draft_layers`` of the target's own first layers (early exit), or a lookup
    ("prompt-lookup", "prompt-lookup:tokens=20,ngram=2"): with ``target``, or with the target of a named pair.
    ``universal`` takes a draft with another tokenizer, which can be measured and not recorded.

    ``dtype`` "auto" keeps the checkpoint's (float32 for the demo pairs); ``device`` defaults to the GPU where there is
    one, ``draft_device`` to ``device``.  ``allow_token_differences`` takes a draft whose special tokens are others than
    the target's: prompts that hold one are left out.  What is allowed or noted is warned of, and is in ``Pair.info``.
    Raises ValueError for names that are unknown, models that cannot be loaded and pairs that do not fit together;
    whatever can be told without reading weights is told first.  TypeError for a name that is no text.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{type(name).__name__} given, which is not the name of a pair; names: {', '.join(PAIRS)}")
    alone = draft_layers is not None or is_lookup(draft)
    sources = _sources(name, target, draft) if not alone else _target_alone(name, target, draft, draft_layers)
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is unknown; choose one of {', '.join(DTYPES)}")
    devices = [device or _default_device(), draft_device or device or _default_device()]
    for place in devices:
        check_device(place)
    kind = "float32" if name in SHIPPED and dtype == "auto" else dtype
    if alone:
        found = _undrafted(sources[0], name or sources[0], kind, devices[0])
        return without_draft_model(found, None if draft is None else str(draft), draft_layers)
    where = [locate(source) for source in sources]
    target_config, draft_config = (load_config(*each) for each in zip(sources, where, strict=True))
    check_architectures((target_config, draft_config), sources)
    tokenizers = [load_tokenizer(source, options) for source, options in zip(sources, where, strict=True)]
    if universal:
        shared, facts, contradicting, drafting = tokenizers[0], {}, frozenset(), _own_tokenizer(tokenizers, sources)
    else:
        (shared, facts, contradicting), drafting = _shared(tokenizers, sources, allow_token_differences), OwnModel()
    models = [load_model(*each[:2], kind, each[2]) for each in zip(sources, where, devices, strict=True)]
    pair = Pair(models[0], models[1], shared, name or " + ".join(sources), facts, contradicting, drafting)
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
    if is_lookup(source):
        return without_draft_model(replace(pair, draft=pair.target), source, None)
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


def _target_alone(
    name: str | None, target: str | Path | None, draft: str | Path | None, layers: int | None
) -> tuple[str, str]:
    """Where the target is that drafts for itself.  Raises ValueError where a draft is given in two ways."""
    if layers is not None and draft is not None:
        raise ValueError(f"draft_layers={layers} and draft={str(draft)!r} exclude each other: give one of them")
    return _sources(name, target, target)


def _undrafted(source: str, name: str, dtype: str, device: str) -> Pair:
    """A target as a pair with itself."""
    where = locate(source)
    if load_config(source, where).is_encoder_decoder:
        raise ValueError(
            f"the target ({source}) is an encoder-decoder model: its own first layers, and what is looked up in its "
            "text, are no drafts here; give it a draft model that is one too"
        )
    tokenizer = load_tokenizer(source, where)
    model = load_model(source, where, dtype, device)
    return Pair(model, model, tokenizer, name)


def _own_tokenizer(tokenizers: list[PreTrainedTokenizerBase | None], sources: tuple[str, str]) -> OtherTokenizer:
    """The draft's tokenizer beside the target's.  Raises ValueError where one of them has none."""
    missing = [source for source, tokenizer in zip(sources, tokenizers, strict=True) if tokenizer is None]
    if missing or tokenizers[1] is None:
        raise ValueError(
            f"{missing[0]} has no tokenizer: universal assisted generation translates between two; give both models "
            "with their tokenizers, or leave universal out"
        )
    return OtherTokenizer(tokenizers[1])


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
    found = named(name)
    return found.target.name, found.draft.name


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
