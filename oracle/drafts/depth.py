"""Where a model says how many layers it runs, as the library reads and sets it for an early exit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def depth_of(model: PreTrainedModel) -> Any:
    """The configuration whose ``num_hidden_layers`` the library sets."""
    return getattr(model, model.base_model_prefix, model).config


@contextlib.contextmanager
def restored(target: PreTrainedModel) -> Iterator[None]:
    """Give the target its layers back: the library lowers their number to draft, and leaves it so on an error."""
    config = depth_of(target)
    before = config.num_hidden_layers
    try:
        yield
    finally:
        config.num_hidden_layers = before
