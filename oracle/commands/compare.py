"""``oracle compare``: two traces of the same prompts against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.groups import takes
from oracle.commands.inputs import load_trace, say_notes
from oracle.commands.notes import note
from oracle.commands.numbers import gain_text, interval_text, policy_text
from oracle.commands.options import AnyCost, Format, Json, Policies, Price, check_any_cost, load_cost, taken_for
from oracle.commands.programs import show_json
from oracle.commands.tables import check_form, printed_as, show_table, tell

if TYPE_CHECKING:
    from analysis.cost import CostModel
    from analysis.intervals import Estimate
    from analysis.versus import Versus
    from oracle.records.trace import Trace

_WHICH = " (given twice: the first for A, the second for B)."


def register(app: typer.Typer) -> None:
    app.command()(compare)


@takes()
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A trace folder.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one of the same prompts.")],
    policy: Policies = None,
    draft_cost: Annotated[
        list[float] | None,
        typer.Option(
            "--draft-cost",
            help="Time of a draft step over that of a target step; default 0.1" + _WHICH,
            show_default=False,
        ),
        Price,
    ] = None,
    cost: Annotated[
        list[Path] | None,
        typer.Option("--cost", help="A cost model that `oracle calibrate` measured" + _WHICH, show_default=False),
    ] = None,
    any_cost: AnyCost = False,
    form: Format = "terminal",
    as_json: Json = False,
) -> None:
    """Compare two traces of the same prompts, paired by prompt: another draft, another dtype, another recording.

    Only prompts that both hold are compared.  A ratio above 1 says that B is faster.
    """  # fmt: skip
    from analysis.replay.simulate import USUAL, check_policies
    from analysis.versus import versus

    check_form(form, as_json)
    check_policies(policy or USUAL)
    traces = load_trace(first), load_trace(second)
    prices = _prices(traces, draft_cost or [], cost or [], any_cost)
    found = versus(*traces, policy or USUAL, prices)
    if as_json:
        show_json(found)
    else:
        with printed_as(form):
            show_versus(found, first, second)
    say_notes(found.notes)
    for name, reason in found.left_out.items():
        note(f"Note: {name} is left out: {reason}.")


def _prices(
    traces: Sequence[Trace], draft: Sequence[float], files: Sequence[Path], any_cost: bool
) -> tuple[CostModel, CostModel]:
    """The prices of both traces.  Raises ValueError for both kinds, or for more than two of one."""
    from analysis.cost import CostModel, assumed

    check_any_cost(any_cost, files[0] if files else None)
    if draft and files:
        raise ValueError("--draft-cost and --cost exclude each other: give one of them")
    if len(draft) > 2 or len(files) > 2:
        option, count = ("--cost", len(files)) if files else ("--draft-cost", len(draft))
        raise ValueError(f"{option} is given {count} times; give it once for both traces, or once for each")
    found = [load_cost(path, any_cost) for path in files] or [CostModel(draft=each) for each in draft]
    if not found:
        found = [assumed(trace) for trace in traces]
        words = " for A, and for B ".join(dict.fromkeys(taken_for(each.draft) for each in found))
        note(f"Assuming {words}{' for both' if found[0] == found[1] else ''} (--draft-cost, or --cost).")
    return found[0], found[-1]


def show_versus(found: Versus, first: Path, second: Path) -> None:
    """What differs, the speedups on both sides, and their paired ratio."""
    rows = [
        [policy_text(row.policy), interval_text(row.first), interval_text(row.second), _line(gain_text(row.ratio))]
        for row in found.rows
    ]
    for name, folder, prompts in zip("AB", (first, second), found.of, strict=True):
        tell(f"{name}: {folder}, {prompts:,} {'prompt' if prompts == 1 else 'prompts'}")
    title = f"On the {found.prompts:,} common {'prompt' if found.prompts == 1 else 'prompts'}"
    show_table(title, ["policy", "A, speedup\n[95 %]", "B, speedup\n[95 %]", "B over A, %\n[95 %]"], rows)
    for each in found.differences or ["The traces say nothing different of themselves."]:
        tell(f"Compared: {each} (A / B)." if found.differences else str(each))
    tell(f"B over A is of {found.compares}; paired by prompt.")
    if found.different_texts:
        tell(f"The texts of {found.different_texts:,} of {found.prompts:,} prompts differ.")
    tell(
        f"Tokens that the draft agrees on: A {_points(found.first_agreement)} %, B {_points(found.second_agreement)} "
        f"%; B less A {_points(found.agreement_difference, signed=True)} points."
    )


def _line(text: str) -> str:
    return text.replace("\n", " ")


def _points(share: Estimate, *, signed: bool = False) -> str:
    """A share in per cent with its interval."""
    sign = "+" if signed else ""
    value, low, high = (f"{100 * end:{sign}.1f}" for end in (share.value, share.low, share.high))
    return f"{value} [-]" if math.isnan(share.low) else f"{value} [{low}, {high}]"
