"""What ``meta.json`` holds, field by field; fields that are not named here are kept and not looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Required

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic reads the one of `typing` from Python 3.12 on only

from oracle.records.typed import Count, Flag, Object, Positive, Text, says

Tokens = Annotated[list[Count], says("a list of token ids, each a whole number from 0")]
RunId = Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{32}$"), says("32 digits from 0 to f")]
_OPEN = ConfigDict(extra="allow")


@with_config(_OPEN)
class Model(TypedDict, total=False):
    """Target or draft."""

    model: Text | None
    revision: Text | None
    dtype: Text | None
    weights_sample_sha256: Text | None
    kind: Text  # of a draft that is no model of its own: first-layers, prompt-lookup; or one of another tokenizer
    encoder_decoder: Flag  # absent for a decoder-only model


@with_config(_OPEN)
class Prompts(TypedDict, total=False):
    """Where the prompts are from."""

    dataset: Text | None


@with_config(_OPEN)
class _Meta(TypedDict, total=False):
    """What traces and measured runs have in common."""

    run_id: RunId
    pair: Text | None
    target: Model
    draft: Model
    prompts: Prompts | None
    prompts_planned: Positive
    prompts_sha256: Text
    max_new_tokens: Positive
    chat: Flag
    system: Text | None
    template_args: Object
    template_date: Text | None  # what the chat template took for today; absent where it did not ask
    encoded: Object  # what the models read, and what is odd about it
    skipped: list[Object]
    decoding: Text | None
    reference: Text | None
    created: Text | None


@with_config(_OPEN)
class TraceMeta(_Meta, total=False):
    schema: Required[Count]
    eos_token_ids: Required[Tokens]
    decoder_start_token_id: Count  # what the texts of an encoder-decoder pair begin with; absent for others
    max_overrun: Count
    top_k: Count
    batch_size: Positive
    draft_kind: Text
    round_limit: Positive  # tokens of a round draft that are recorded from each position
    round_ends: Flag  # a round with fewer than that has ended by itself: there is nothing more to draft
    round_clipped: (
        Flag  # rounds are clipped to the room that is left (the default); false: only where one token is left
    )
    dtype: Text | None
    device: Text | None
    versions: Object


@with_config(_OPEN)
class RunsMeta(_Meta, total=False):
    runs_schema: Required[Count]
    policies: dict[str, Object]
    repeats: Positive
    until: Object  # what a run that goes on until enough is known was asked for
    stopped: Text  # why such a run has ended; absent before
    machine: dict[str, Any]


def looked_up(meta: Mapping[str, Any]) -> bool:
    """Whether the draft is an n-gram lookup: without probabilities, and not clipped to the room that is left."""
    return kind_of_draft(meta) == "prompt-lookup"


def kind_of_draft(meta: Mapping[str, Any]) -> str | None:
    """The kind of a draft that is no model of its own with the target's tokenizer; None of one that is."""
    draft = meta.get("draft")
    kind = draft.get("kind") if isinstance(draft, Mapping) else None
    return None if kind is None else str(kind)


def has_encoders(meta: Mapping[str, Any]) -> bool:
    """Whether the models have encoders: prompts are read by these, and texts are the decoders' alone."""
    target = meta.get("target")
    return isinstance(target, Mapping) and target.get("encoder_decoder") is True
