"""A target and a draft, and the tokenizer that they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oracle.drafts.kinds import Drafting, OwnModel

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Pair:
    """A target, a draft, and the tokenizer that they share (None where prompts are token ids)."""

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None = None
    name: str = ""
    info: dict[str, Any] = field(default_factory=dict)  # added to what a trace's meta.json says about the pair
    contradicting: frozenset[int] = frozenset()  # ids that mean another token to the draft: no prompt may hold one
    drafting: Drafting = OwnModel()  # what drafts, which need not be a model of its own
