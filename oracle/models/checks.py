"""Whether two models, and two tokenizers, fit together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oracle.models.configs import rows, says_no_eos
from oracle.models.identity import name_of
from oracle.models.tokens import Differences, Vocabulary, compare, some_of
from oracle.policies.semantics import in_force

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

    from oracle.models.pair import Pair

_SAME = "choose a draft with the target's tokenizer"
_ANYWAY = "or only measure it (`oracle measure --universal`, universal=True): what it drafts cannot be replayed"
REREADS = (
    "transformers lets an encoder-decoder draft read its whole text again in each iteration, which costs time and "
    "changes what it drafts, unless generate is given decoder_attention_mask=torch.ones(1, 1, dtype=torch.long); "
    "calls here are given it: give it too"
)


def expect_pair(pair: object) -> None:
    """Raise TypeError for what is no pair of models."""
    if not (hasattr(pair, "target") and hasattr(pair, "draft")):
        raise TypeError(f"{type(pair).__name__} given, which is not a pair of models: oracle.load_pair makes one")


def check_pair(pair: Pair) -> tuple[str, ...]:
    """``remarks`` on a pair that fits, each of them a warning; raises as that does."""
    expect_pair(pair)
    found = remarks(pair)
    for remark in found:
        warnings.warn(remark, stacklevel=2)
    return found


def remarks(pair: Pair) -> tuple[str, ...]:
    """What to know of a pair: that no token ends a text, by its configuration, or that a model lacks special tokens.

    Raises one ValueError that says why the two models cannot work together, if they cannot.
    """
    check_architectures((pair.target.config, pair.draft.config), (name_of(pair.target), name_of(pair.draft)))
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if getattr(model, "_is_stateful", False):
            raise ValueError(
                f"the {role} ({name_of(model)}) keeps a recurrent state, which cannot be rolled back to an earlier "
                "token as speculative decoding needs; choose a model with attention only"
            )
    rereads = REREADS if needs_decoder_mask(pair) else None
    return tuple(remark for remark in (says_no_eos(pair), rereads, *_tokens_without_rows(pair)) if remark)


def _tokens_without_rows(pair: Pair) -> Iterator[str]:
    """A remark on special or unused tokens that one model has no row for.  Raises ValueError for ordinary ones."""
    counts = {"target": rows(pair.target), "draft": rows(pair.draft)}
    if pair.tokenizer is None or counts["target"] == counts["draft"] or not pair.drafting.shares_ids:
        return
    role = min(counts, key=counts.__getitem__)
    name, known = name_of(getattr(pair, role)), counts[role]
    vocabulary = Vocabulary(pair.tokenizer)
    plain, marked = vocabulary.beyond(known)
    if plain:
        raise ValueError(
            f"the tokenizer uses ids up to {plain[-1]}, but the {role} ({name}) knows only {known}; choose a draft "
            "that shares the target's vocabulary"
        )
    if marked:
        some = some_of([f"{min(vocabulary.at(number))!r} ({number})" for number in marked])
        yield f"the {role} ({name}) has no row for special tokens, so prompts that hold one are left out: {some}"


def check_tokenizers(
    target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, allow: bool = False
) -> Differences:
    """What two tokenizers differ in.  Raises ValueError, naming a token, where the models do not speak of the same.

    The tokenizers are compared, never the sizes of the models: sizes are padded differently within one family, and
    equal sizes say nothing about equal tokens.  Refused are ids that stand for different pieces of text, and, unless
    ``allow``, for different special tokens.  Nothing is lost by other differences: an id that one of them keeps free
    or lacks (families add special tokens over time), another way to split text (the draft gets the target's ids), and
    another choice of what begins, ends or pads a text (the draft stops where the target does).
    """
    found = compare(target, draft)
    if found.used:
        one = found.used[0]
        elsewhere = draft.get_vocab().get(one.target or "")
        there = f", where that is id {elsewhere}" if elsewhere is not None else ""
        raise ValueError(
            f"the tokenizers differ: {one}{there} ({len(found.used)} of {found.tokens} ids stand for other text); "
            f"{_SAME}, {_ANYWAY}"
        )
    if found.special and not allow:
        raise ValueError(
            f"the tokenizers have the same text tokens but other special ones: {some_of(found.special)}; {_SAME}, or "
            "allow it (--allow-token-differences, allow_token_differences=True), which leaves out prompts that hold one"
        )
    return found


def unequal_rows(pair: Pair) -> str | None:
    """Why the library will not run this pair as it is, where one model has more embedding rows than the other."""
    target, draft = rows(pair.target), rows(pair.draft)
    if not pair.drafting.shares_ids:
        return _equal_rows(target) if target == draft else None
    if target == draft:
        return None
    return (
        f"the target has {target} embedding rows and the draft {draft}: the library takes them for different "
        "tokenizers and would draft on another path; shrink the larger model once with "
        f"resize_token_embeddings({min(target, draft)}) and save_pretrained, then give that folder"
    )


def _equal_rows(size: int) -> str:
    return (
        f"target and draft have {size} embedding rows each: the library takes that for one tokenizer, so it would not "
        "translate between the two; choose a draft whose embedding has another number of rows"
    )


def check_architectures(configs: tuple[PreTrainedConfig, PreTrainedConfig], names: tuple[str, str]) -> None:
    """Raise ValueError where one model of a pair has an encoder and the other has none, or the library cannot run one.

    ``configs`` and ``names`` are the target's and the draft's.  The library lends a decoder-only draft the target's
    encoder outputs, which only a draft that was cut from that very target can read.
    """
    target, draft = (config.is_encoder_decoder for config in configs)
    if target != draft:
        kinds = {True: "an encoder-decoder", False: "decoder-only"}
        raise ValueError(
            f"the target ({names[0]}) is {kinds[target]} and the draft ({names[1]}) is {kinds[draft]}: the draft must "
            f"be {kinds[target]} as well, with the target's tokenizer"
        )
    for role, config, name in zip(("target", "draft"), configs, names, strict=True):
        encoder, decoder = getattr(config, "num_layers", None), getattr(config, "num_decoder_layers", None)
        if config.is_encoder_decoder and encoder is not None and decoder is not None and decoder > encoder:
            raise ValueError(
                f"the {role} ({name}) has {decoder} decoder layers and {encoder} encoder layers: transformers makes "
                "its cache as large as the encoder, so that every generate() of such a model fails; choose one with "
                "at least as many encoder layers"
            )


def needs_decoder_mask(pair: Pair) -> bool:
    """Whether assisted generation goes wrong on this pair unless a mask of the decoder's first token is given.

    In the releases that `oracle.policies.semantics` marks, a draft with an encoder reads the whole text again in each
    iteration, behind what it has cached of it (`GenerationMixin._prefill` cuts off what is cached only where it knows
    the length of the mask).  With ``decoder_attention_mask=torch.ones(1, 1, dtype=torch.long)`` it reads the two tokens
    that it must.
    """
    return bool(pair.target.config.is_encoder_decoder) and in_force().workaround
