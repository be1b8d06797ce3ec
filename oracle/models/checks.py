"""Whether two models, and two tokenizers, fit together."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from oracle.models.configs import rows, says_no_eos
from oracle.models.identity import name_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from oracle.models.pair import Pair

# Almost any two tokenizers split it differently: indentation, digits, accents, tabs, other scripts, a special token.
_PROBE = "def add(a, b):\n    return a + b  # naïve – 1, 22, 333\tÜber 你好 </s>"


def check_pair(pair: Pair) -> None:
    """Raise one ValueError that says why the two models cannot work together, if they cannot.

    Warns where a configuration says expressly that no token ends a text.
    """
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if model.config.is_encoder_decoder:
            raise ValueError(encoder_decoder(role, name_of(model)))
        if getattr(model, "_is_stateful", False):
            raise ValueError(
                f"the {role} ({name_of(model)}) keeps a recurrent state, which cannot be rolled back to an earlier "
                "token as speculative decoding needs; choose a model with attention only"
            )
    if remark := says_no_eos(pair):  # raises for a value that names no token
        warnings.warn(remark, stacklevel=2)
    counts = {"target": rows(pair.target), "draft": rows(pair.draft)}
    if pair.tokenizer is None or counts["target"] == counts["draft"]:
        return
    needed = max(pair.tokenizer.get_vocab().values()) + 1
    role = min(counts, key=counts.__getitem__)
    if needed > counts[role]:
        raise ValueError(
            f"the tokenizer uses ids up to {needed - 1}, but the {role} ({name_of(getattr(pair, role))}) knows only "
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


def unequal_rows(pair: Pair) -> str | None:
    """Why the library will not run this pair as it is, where one model has more embedding rows than the other."""
    target, draft = rows(pair.target), rows(pair.draft)
    if target == draft:
        return None
    return (
        f"the target has {target} embedding rows and the draft {draft}: the library takes them for different "
        "tokenizers and would draft on another path; shrink the larger model once with "
        f"resize_token_embeddings({min(target, draft)}) and save_pretrained, then give that folder"
    )


def shared_rows(pair: Pair) -> int:
    """Ids that both models know: 0 .. shared_rows - 1.

    Models of one family pad their embeddings to different sizes; both models' logits are cut to this range before
    anything else is computed from them, the softmax included.
    """
    return min(rows(pair.target), rows(pair.draft))


def encoder_decoder(role: str, name: str) -> str:
    """Why a model of that kind is refused."""
    return f"the {role} ({name}) is an encoder-decoder model; only pairs of decoder-only models are supported so far"
