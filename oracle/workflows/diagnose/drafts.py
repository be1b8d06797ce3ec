"""Several drafts of one target, which is loaded once."""

from __future__ import annotations

from pathlib import Path

from oracle.models.checks import check_pair, check_tokenizers, encoder_decoder
from oracle.models.identity import name_of
from oracle.models.loading import check_device, load_config, load_model, load_tokenizer, locate
from oracle.models.pair import Pair


def with_draft(pair: Pair, draft: str | Path, *, dtype: str = "auto", device: str | None = None) -> Pair:
    """The target of ``pair`` with another draft, by hub name or local directory; ``device`` None: the target's.

    Raises ValueError, as `load_pair` does, for a draft that cannot be loaded or does not fit.
    """
    source, device = str(draft), device or str(pair.target.device)
    check_device(device)
    where = locate(source)
    if load_config(source, where).is_encoder_decoder:
        raise ValueError(encoder_decoder("draft", source))
    tokenizer = load_tokenizer(source, where)
    if tokenizer is not None and pair.tokenizer is not None:
        check_tokenizers(pair.tokenizer, tokenizer)
    name = f"{name_of(pair.target)} + {source}"
    found = Pair(pair.target, load_model(source, where, dtype, device), pair.tokenizer or tokenizer, name)
    check_pair(found)
    return found
