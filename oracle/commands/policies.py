"""``oracle policies``: the policies that there are, and what is to be known of each."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.groups import takes
from oracle.commands.notes import note, say
from oracle.commands.options import Json
from oracle.commands.programs import show_json

if TYPE_CHECKING:
    from oracle.policies.facts import Facts


def register(app: typer.Typer) -> None:
    app.command()(policies)


@takes()
def policies(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One policy, in full; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """List the policies: rule, keys and defaults, what it reads, which programmes have it, where it is from."""
    from oracle.policies import POLICIES
    from oracle.policies.facts import facts
    from oracle.policies.names import suggest

    if name is not None and name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}{suggest(name, POLICIES)}; legal: {', '.join(POLICIES)}")
    found = [facts(each) for each in ([name] if name is not None else POLICIES)]
    if as_json:
        show_json(found)
        return
    say("\n\n".join("\n".join(_lines(each, full=name is not None)) for each in found), lines=True)
    if name is None:
        note(
            "Beside these: oracle:detect, oracle:clairvoyant and oracle:optimal in simulation, and policies of your "
            "own, path/to/file.py:Name.  `oracle policies NAME` says all of one."
        )


def _lines(found: Facts, full: bool) -> list[str]:
    """A policy in a few lines that fit the terminal."""
    told = [found.rule, *(found.more.split("\n\n") if full and found.more else ())]
    reads = ", ".join(found.reads) or "nothing"
    memory = "; its memory lives on to the next prompt" if found.carries_over else ""
    known = [f"In {', '.join(found.found_in)}."] if found.found_in else []
    known += [f"From {found.source}."] if found.source else []
    told.append(" ".join([f"Reads {reads}{memory}.", *known]))
    width = max(40, min(shutil.get_terminal_size().columns, 100))
    lines = [found.usage]
    # The text of a policy is one word: it is never broken, so that it can be pasted.
    for sentence in told:
        plain = sentence.replace("`", "")
        lines += textwrap.wrap(plain, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return lines
