"""``oracle pairs``: the pairs that have a name, and what each of them loads."""

from __future__ import annotations

import dataclasses
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands.groups import takes
from oracle.commands.notes import note, say
from oracle.commands.options import Json
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from oracle.models.named import Checkpoint, NamedPair

_WIDTH = 80


def register(app: typer.Typer) -> None:
    app.command()(pairs)


@takes()
def pairs(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One pair, in full; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """List the pairs that --pair names: models, size, licence, tasks of the published numbers.

    Nothing is loaded, and no hub is asked.
    """
    from oracle.models.named import NAMED, SHIPPED, named

    if name in SHIPPED:
        raise ValueError(
            f"{name} is an embedded pair, which comes with the toolkit: data/PAIR.md says what it is, how it was made"
        )
    chosen = NAMED if name is None else {name: named(name)}
    if as_json:
        show_json([_facts(each, pair) for each, pair in chosen.items()])
    elif name is None:
        show_table("", ["pair", "target\n draft", "size", "GB", "licence", "tasks"], _rows(chosen))
        note(
            f"Beside these: {' and '.join(SHIPPED)}, the embedded pairs.  * gated: ask for access on the hub.  "
            "+ pickled weights only: read "
            "by torch's weights-only reader.  No pair of the hub has been run by the project.  `oracle pairs NAME` "
            "says all of one."
        )
    else:
        say("\n".join(_lines(name, chosen[name])), lines=True)


def _rows(chosen: dict[str, NamedPair]) -> list[tuple[str, ...]]:
    """A row a pair, the draft on the second line."""
    from oracle.models.named import count_text

    return [
        (
            name,
            f"{_marked(pair.target)}\n {_marked(pair.draft)}",
            f"{count_text(pair.target.parameters)}\n{count_text(pair.draft.parameters)}",
            f"{pair.target.gigabytes:.1f}\n{pair.draft.gigabytes:.1f}",
            "\n".join(dict.fromkeys(_short(each.licence) for each in (pair.target, pair.draft))),
            "\n".join(pair.tasks) or "-",
        )
        for name, pair in chosen.items()
    ]


def _marked(model: Checkpoint) -> str:
    """Its name without that of its makers where the line is short, and marks."""
    return model.name.partition("/")[2] + ("*" if model.gated else "") + ("+" if model.pickled else "")


def _short(licence: str) -> str:
    """The licence's name in a column of 12."""
    name = licence.split(",")[0].split(":")[0].removeprefix("that of ")
    return "\n".join(textwrap.wrap(name.removesuffix(" Community").removesuffix(" terms of use"), 12))


def _facts(name: str, pair: NamedPair) -> dict[str, Any]:
    models = {role: _model(getattr(pair, role)) for role in ("target", "draft")}
    return {"name": name, **plain(pair), **models, "run_by_the_project": False}


def _model(model: Checkpoint) -> dict[str, Any]:
    facts = dataclasses.asdict(model)
    del facts["extra_gigabytes"]
    return {**facts, "gigabytes": round(model.gigabytes, 2)}


def _lines(name: str, pair: NamedPair) -> list[str]:
    """All that is known of one pair."""
    from oracle.models.named import size_text

    rows = [
        (
            role,
            f"{model.name}: {size_text(model)}, stored in {model.stored}; licence: {model.licence}; "
            f"{_access(model)}; {_format(model)}",
        )
        for role, model in (("target", pair.target), ("draft", pair.draft))
    ]
    if pair.encoder_decoder:
        rows.append(("kind", "encoder-decoder"))
    flag = "" if pair.dtype == pair.target.stored else f" (--dtype {pair.dtype})"
    rows += [
        ("data type", f"{pair.dtype}{flag}; processors without arithmetic of it are faster in float32 (oracle doctor)"),
        ("published for", ", ".join(pair.tasks) or "nothing"),
        ("source", pair.source),
        *(("remark", each) for each in pair.remarks),
        ("run here", "never, and the hub was not asked: its files may have changed"),
        ("command", f"oracle collect --pair {name}" + (f" --dataset {pair.tasks[0]}" if pair.tasks else "")),
    ]
    wide = 16
    lines = [name]
    for label, text in rows:
        lines += textwrap.wrap(
            f"  {label:<{wide - 2}}{text}",
            _WIDTH,
            subsequent_indent=" " * wide,
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def _access(model: Checkpoint) -> str:
    return {
        True: "gated: ask for access on the hub",
        False: "free to download",
        None: "whether it is gated is not known",
    }[model.gated]


def _format(model: Checkpoint) -> str:
    return {
        True: "pickled weights only, read by torch's weights-only reader",
        False: "safetensors",
        None: "whether it has safetensors is not known",
    }[model.pickled]
