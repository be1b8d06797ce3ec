"""What a model's configuration says about ids, rows and positions, read by value: a checkpoint may hold any type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from oracle.models.pair import Pair

_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len")  # names of the limit in model configs
SETTLED = "_settled_eos"  # on a generation config of `decoding.neutral`: what ended a text when it was made
_MOST_ID = 2**31 - 1  # what a recorded token can be
_NO_LIMIT = 10**9  # from here on a limit of positions stands for "none"


def eos_token_ids(pair: Pair) -> tuple[int, ...]:
    """Ids that end a text, ascending: from the target's generation config, else its config, else the tokenizer.

    Raises ValueError for a value that names no id.
    """
    where, value = _eos(pair)
    known = {} if pair.tokenizer is None else pair.tokenizer.get_vocab()
    return token_ids(value, where, known)


def says_no_eos(pair: Pair) -> str | None:
    """A remark where a configuration says that nothing ends a text, or what no text can hold; else None."""
    where, value = _eos(pair)
    known = known_rows(pair)
    ids = eos_token_ids(pair)
    if value is None or any(token < known for token in ids):
        return None
    because = f", but the models share ids 0 to {known - 1}" if ids else ""
    return f"{where} is {value!r}{because}: no token ends a text, so every answer goes on to its limit"


def token_ids(value: object, what: str, known: Mapping[str, int]) -> tuple[int, ...]:
    """The ids that a configuration's value names, ascending and each once.

    A whole number of any type, a text (a number, or a token of ``known``), or those in a list, an array or a tensor,
    however nested.  None, an empty list and -1 name none.  Raises ValueError for everything else, naming it.
    """
    return tuple(sorted({token for one in _flat(value) if (token := _token_id(one, value, what, known)) is not None}))


def start_token_id(pair: Pair) -> int | None:
    """The id that texts of an encoder-decoder pair begin with, which is the target's choice; None for other pairs.

    As the library looks for it: the generation config's ``decoder_start_token_id``, else its BOS, else the config's.
    Raises ValueError where there is none, or one that the models do not share.
    """
    if not pair.target.config.is_encoder_decoder:
        return None
    places = (getattr(pair.target, "generation_config", None), pair.target.config.get_text_config(decoder=True))
    names = ("decoder_start_token_id", "bos_token_id")
    said = (getattr(place, name, None) for place in places for name in names)
    value = next((one for one in said if one is not None), None)
    found, known = whole(value), min(rows(pair.target), rows(pair.draft))
    if found is None or not 0 <= found < known:
        raise ValueError(
            f"decoder_start_token_id of the target is {value!r}; an encoder-decoder's texts begin with it, so it must "
            f"be one of the ids 0 to {known - 1} that the models share: set it in the generation config"
        )
    return found


def rows(model: PreTrainedModel) -> int:
    """Number of token ids that a model scores, padding of the embedding included."""
    value = getattr(model.config.get_text_config(), "vocab_size", None)
    found = whole(value)
    if found is None or found < 1:
        raise ValueError(
            f"the model's vocab_size is {value!r}; it must be a whole number from 1 on: correct its config"
        )
    return found


def known_rows(pair: Pair) -> int:
    """Ids that target and draft both know: 0 .. known_rows - 1; the target's where the draft has ids of its own."""
    return min(rows(pair.target), rows(pair.draft)) if pair.drafting.shares_ids else rows(pair.target)


def positions(model: PreTrainedModel) -> int | None:
    """Most positions that a model can read, or None where it has no limit; a tiny or giant number stands for none."""
    config = model.config.get_text_config()
    if hasattr(config, "relative_attention_num_buckets"):
        return None  # T5 sees distances; what its n_positions says is how long the texts of its training were
    limits = [_limit(name, getattr(config, name, None)) for name in _POSITIONS]
    return min((limit for limit in limits if limit is not None), default=None)


def whole(value: Any) -> int | None:
    """The whole number that a number of any type is; None for what is no number, or none that is whole."""
    item = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        return None
    return int(item) if isinstance(item, int) or item.is_integer() else None


def _eos(pair: Pair) -> tuple[str, Any]:
    """Where it is said what ends a text, and the value as it stands there."""
    generation = getattr(pair.target, "generation_config", None)
    settled = getattr(generation, SETTLED, None)
    if settled is not None:  # nothing, too: the library has no way to say that no token ends a text
        return "eos_token_id of a neutral generation config", settled
    found = getattr(generation, "eos_token_id", None)
    if found is not None:
        return "eos_token_id of the target's generation config", found
    found = getattr(pair.target.config.get_text_config(), "eos_token_id", None)
    if found is not None or pair.tokenizer is None:
        return "eos_token_id of the target's config", found
    return "eos_token_id of the tokenizer", pair.tokenizer.eos_token_id


def _flat(value: Any) -> Iterator[object]:
    """The single values in lists, tuples, sets, arrays and tensors of any depth."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        for one in value:
            yield from _flat(one)
    elif value is not None:
        yield value


def _token_id(one: object, value: object, what: str, known: Mapping[str, int]) -> int | None:
    found = _written(one, known) if isinstance(one, str) else whole(one)
    if found is None or not -1 <= found <= _MOST_ID:
        within = "" if one is value else f" (in {str(value)[:60]})"
        raise ValueError(
            f"{what}: {str(one)[:60]!r}{within} names no token; correct it there: a token id, a list of them, "
            "a token of the tokenizer, or [] for none"
        )
    return None if found == -1 else found


def _written(text: str, known: Mapping[str, int]) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else known.get(text)


def _limit(name: str, value: object) -> int | None:
    if value is None or (isinstance(value, float) and not abs(value) < _NO_LIMIT):
        return None
    found = whole(value)
    if found is None:
        raise ValueError(f"the model's {name} is {value!r}; it must be a whole number: correct its config")
    return found if 0 < found < _NO_LIMIT else None
