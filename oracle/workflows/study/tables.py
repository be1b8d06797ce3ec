"""The tables of a recipe: which keys each has, and what is legal there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, with_config
from typing_extensions import TypedDict

from oracle.models.pairs import DTYPES
from oracle.policies import parse
from oracle.records.typed import Count, Flag, Positive, Price, Text, check, says, short
from oracle.words import did_you_mean

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("no name")
    return value


def _policy(value: str) -> str:
    parse(value)  # a recipe comes from anywhere: a policy that is a file of code is not run
    return value


def _dtype(value: str) -> str:
    if value not in DTYPES:
        raise ValueError("no dtype")
    return value


def _no_table(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("no text")
    return value


Name = Annotated[
    str,
    BeforeValidator(_no_table),
    AfterValidator(_name),
    says("a name of up to 64 letters, digits, dots, dashes, plus signs and underscores: it names a folder too"),
]
Dtype = Annotated[str, Field(strict=True), AfterValidator(_dtype), says(f"one of {', '.join(DTYPES)}")]
Policies = Annotated[
    list[Annotated[str, Field(strict=True), AfterValidator(_policy)]],
    Field(strict=True),
]
Prompts = Annotated[int, Field(strict=True, ge=1, le=10_000_000), says("a number of prompts, from 1 up")]
Published = Annotated[dict[str, Any], Field(strict=True), says('a table such as {dynamic = 1.5, source = "..."}')]


@with_config(extra="forbid")
class Top(TypedDict, total=False):
    """The whole file."""

    title: Text
    defaults: Annotated[dict[str, Any], Field(strict=True), says("a table, [defaults]")]
    pairs: Annotated[list[dict[str, Any]], Field(strict=True), says("a list of tables, [[pairs]]")]
    tasks: Annotated[list[dict[str, Any]], Field(strict=True), says("a list of tables, [[tasks]]")]
    rows: Annotated[list[dict[str, Any]], Field(strict=True), says("a list of tables, [[rows]]")]


class _Place(TypedDict, total=False):
    """Where the models of a pair run, and in which number format."""

    dtype: Dtype
    device: Text
    draft_device: Text


class _Choice(TypedDict, total=False):
    """Which prompts of a task, and how long texts get."""

    limit: Prompts
    seed: Count
    chat: Flag
    max_prompt_tokens: Positive
    max_new_tokens: Positive


class _Work(TypedDict, total=False):
    """What is done with a pair on a task."""

    policies: Policies
    clocked: Prompts
    repeats: Positive
    max_overrun: Count


@with_config(extra="forbid")
class Defaults(_Place, _Choice, _Work, total=False):
    """``[defaults]``: what holds where a pair, a task or a row says nothing else."""

    threads: Positive


@with_config(extra="forbid")
class PairTable(_Place, total=False):
    """``[[pairs]]``: two models, or the name of a known pair."""

    name: Name
    target: Text
    draft: Text
    allow_token_differences: Flag


@with_config(extra="forbid")
class TaskTable(_Choice, total=False):
    """``[[tasks]]``: a data set, which prompts of it, and how long texts get; or the name of a known task."""

    name: Name
    dataset: Text
    split: Text
    prompt_field: Text


@with_config(extra="forbid")
class RowTable(_Work, total=False):
    """``[[rows]]``: one pair on one task."""

    pair: Text
    task: Text
    limit: Prompts
    published: Published


def parse_toml(data: bytes, file: str) -> dict[str, Any]:
    """The tables of a recipe.  Raises ValueError that names the file and the place."""
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{file}: not a recipe: {error!s:.200}; a recipe is TOML") from None


def checked(kind: Any, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """One table of the kind.  Raises ValueError that names the file and table, the key, its value and what is legal."""
    legal = kind.__annotations__ if kind is Top else _keys(kind)
    for key in table:
        if key not in legal:
            raise ValueError(
                f"{where}: unknown key {short(key)}; legal: {', '.join(legal)}.{did_you_mean(str(key), legal)}"
            )
    return dict(check(kind, dict(table), where))


def speedups(table: Mapping[str, Any], where: str) -> tuple[dict[str, float], str]:
    """Published speedups by policy, and their source."""
    rest = dict(table)
    source = check(Text, rest.pop("source", None), f"{where}.source")
    if not rest:
        raise ValueError(f"{where}: no speedup; give some, by policy: dynamic = 1.5")
    return {
        policy: check(Price, float(value) if type(value) is int else value, f"{where}.{policy}")
        for policy, value in rest.items()
    }, source


def _keys(kind: Any) -> list[str]:
    """Its own first, then those of what it is made of."""
    bases = [*kind.__orig_bases__] if hasattr(kind, "__orig_bases__") else []
    inherited = {name for base in bases for name in getattr(base, "__annotations__", {})}
    own = [name for name in kind.__annotations__ if name not in inherited]
    return [*own, *(name for name in kind.__annotations__ if name in inherited)]
