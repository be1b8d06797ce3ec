"""What ``meta.json`` holds, field by field; fields that are not named here are kept and not looked at."""

from __future__ import annotations

from typing import Annotated, Any, Required

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict  # pydantic reads the one of `typing` from Python 3.12 on only

from oracle.records.typed import Count, Flag, Object, Positive, Text, legal

Tokens = legal(list[Count], "a list of token ids, each a whole number from 0")
RunId = legal(Annotated[str, Field(strict=True, pattern=r"^[0-9a-f]{32}$")], "32 digits from 0 to f")
_OPEN = ConfigDict(extra="allow")


class Model(TypedDict, total=False):
    """Target or draft."""

    __pydantic_config__ = _OPEN
    model: Text | None
    revision: Text | None
    dtype: Text | None
    weights_sample_sha256: Text | None


class Prompts(TypedDict, total=False):
    """Where the prompts are from."""

    __pydantic_config__ = _OPEN
    dataset: Text | None


class _Meta(TypedDict, total=False):
    """What traces and measured runs have in common."""

    __pydantic_config__ = _OPEN
    run_id: RunId
    pair: Text | None
    target: Model
    draft: Model
    prompts: Prompts | None
    prompts_planned: Positive
    prompts_sha256: Text
    max_new_tokens: Positive
    chat: Flag
    skipped: list[Object]
    decoding: Text | None
    reference: Text | None
    created: Text | None


class TraceMeta(_Meta, total=False):
    schema: Required[Count]
    eos_token_ids: Required[Tokens]
    max_overrun: Count
    batch_size: Positive
    draft_kind: Text
    dtype: Text | None
    device: Text | None
    versions: Object


class RunsMeta(_Meta, total=False):
    runs_schema: Required[Count]
    policies: dict[str, Object]
    repeats: Positive
    machine: dict[str, Any]
