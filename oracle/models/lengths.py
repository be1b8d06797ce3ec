"""How long a text may get before a model reads it in another way: rotary positions that change with the length.

"longrope" (Phi-3, Phi-4-mini) has two sets of frequencies and takes the second one for *all* positions of a pass as
soon as one position of its batch lies beyond the length that it was first trained with; keys that are cached keep the
rotation of the pass that made them.  So the same tokens get other probabilities when a longer text shares their batch,
or when they are read in another number of pieces: there is one answer on either side of the switch, and none across it.
"dynamic" scaling takes other frequencies for every length beyond the model's context, which no text here exceeds.
(transformers 5.24, ``modeling_rope_utils.dynamic_rope_update``; Phi-3 recomputes its cache when it steps over.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oracle.models import compat
from oracle.models.configs import whole

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from oracle.models.pair import Pair

_FIRST = "original_max_position_embeddings"


def switch(model: PreTrainedModel) -> int | None:
    """Most positions that a model reads in its first way; None where there is one way only.

    Raises ValueError for a configuration that asks for two and does not say from where on.
    """
    config = model.config.get_text_config()
    ropes = _ropes(compat.rope_settings(config))
    found = [_switch(config, rope) for rope in ropes if compat.rope_kind(rope) == "longrope"]
    return min(found, default=None)


def side(pair: Pair, size: int) -> tuple[bool, ...]:
    """On which side of each switch a prompt of so many tokens lies: prompts of other sides must not share a pass."""
    return tuple(size > at for at in _switches(pair))


def room(pair: Pair, size: int) -> int | None:
    """Most tokens that may follow a prompt of so many tokens (>= 1) on its side of every switch; None without a limit.

    At least one: the last token of an answer is read by nobody.
    """
    return min((max(1, at - size) for at in _switches(pair) if size <= at), default=None)


def _switches(pair: Pair) -> list[int]:
    return sorted({at for model in (pair.target, pair.draft) if (at := switch(model)) is not None})


def _ropes(parameters: Any) -> Iterator[Mapping[str, Any]]:
    """The settings of the rotary positions: one for all layers, or one for each type of layer."""
    if isinstance(parameters, Mapping):
        each = [parameters] if compat.rope_kind(parameters) else parameters.values()
        yield from (rope for rope in each if isinstance(rope, Mapping))


def _switch(config: Any, rope: Mapping[str, Any]) -> int:
    value = rope.get(_FIRST, getattr(config, _FIRST, None))
    at = whole(value)
    if at is None or at < 1:
        raise ValueError(
            f"the model's rope_parameters ask for longrope positions, but {_FIRST} is {value!r}; it must be a whole "
            "number from 1 on: correct its config"
        )
    return at
