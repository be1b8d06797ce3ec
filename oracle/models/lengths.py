"""How long a text may get before a model reads it in another way: rotary positions that change with the length.

"longrope" (Phi-3, Phi-4-mini) has two sets of frequencies and takes the second one for *all* positions of a pass as
soon as one position of its batch lies beyond the length that it was first trained with.  "dynamic" NTK scaling takes
other frequencies for every length beyond that.  Keys that are cached keep the rotation of the pass that made them.  So
the same tokens get other probabilities when a longer text shares their batch, or when they are read in another number
of pieces: up to the switch there is one answer, behind it only where all is read on the same side.
(transformers 5.24, ``modeling_rope_utils.dynamic_rope_update``; Phi-3 recomputes its cache when it steps over.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oracle.models.configs import whole

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from oracle.models.pair import Pair


@dataclass(frozen=True)
class Switch:
    """Where a model begins to read in another way."""

    at: int  # most positions that are read in the first way
    settles: bool  # behind it there is one other way, whatever the length


def switch(model: PreTrainedModel) -> Switch | None:
    """The first switch of a model's positions; None where they never change.

    Raises ValueError for a configuration that asks for such positions and does not say from where on.
    """
    config = model.config.get_text_config()
    found = [_switch(config, rope) for rope in _ropes(getattr(config, "rope_parameters", None))]
    return min((one for one in found if one is not None), key=lambda one: one.at, default=None)


def switches(pair: Pair) -> tuple[Switch, ...]:
    """Those of both models, each once."""
    found = (switch(model) for model in (pair.target, pair.draft))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def side(pair: Pair, size: int) -> tuple[bool, ...]:
    """On which side of each switch a prompt of so many tokens lies: prompts of other sides must not share a pass."""
    return tuple(size > one.at for one in switches(pair))


def room(pair: Pair, size: int) -> int | None:
    """Most tokens that may follow a prompt of so many tokens (>= 1) on its side of every switch; None without a limit.

    0 where none may: the prompt lies where every length is read in another way.
    """
    rooms = [_room(one, size) for one in switches(pair)]
    return min((one for one in rooms if one is not None), default=None)


def unreadable(pair: Pair, ids: Sequence[int]) -> str | None:
    """Why a prompt of these ids (each known to both models) cannot be read as the models mean it; None where it can."""
    at = next((at for at, token in enumerate(ids) if token in pair.contradicting), None)
    if at is not None:
        return f"token id {ids[at]} means another token to the draft (at index {at} of the prompt)"
    if room(pair, len(ids)) == 0:
        first = min(one.at for one in switches(pair) if not one.settles)
        return f"{len(ids)} tokens, but beyond {first} the models' positions change with every token (dynamic scaling)"
    return None


def _room(one: Switch, size: int) -> int | None:
    if size <= one.at:
        return max(1, one.at - size)  # the last token of an answer is read by nobody
    return None if one.settles else 0


def _ropes(parameters: Any) -> Iterator[Mapping[str, Any]]:
    """The settings of the rotary positions: one for all layers, or one for each type of layer."""
    if not isinstance(parameters, Mapping):
        return
    if "rope_type" in parameters:
        yield parameters
        return
    for each in parameters.values():
        if isinstance(each, Mapping):
            yield each


def _switch(config: Any, rope: Mapping[str, Any]) -> Switch | None:
    kind = str(rope.get("rope_type"))
    if "dynamic" not in kind and kind != "longrope":
        return None
    names = ("original_max_position_embeddings", "max_position_embeddings")
    # The library scales a dynamic model from its whole context on, and knows no other length.
    whole_context = "dynamic" in kind
    values = [getattr(config, names[whole_context], None)]
    if not whole_context:
        values.insert(0, rope.get(names[0]))
    at = next((found for value in values if (found := whole(value)) is not None), None)
    if at is None or at < 1:
        raise ValueError(
            f"the model's rope_parameters ask for {kind} positions, but {names[whole_context]} is {values[0]!r}; "
            "it must be a whole number from 1 on: correct its config"
        )
    return Switch(at, settles=kind == "longrope")
