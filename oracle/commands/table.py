"""``oracle table``: traces in the form of the published oracle analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, load_traces
from oracle.commands.notes import say
from oracle.commands.numbers import estimate_text, interval_text, number_text
from oracle.commands.options import Format, InSample, Json, Policies, PriceOptions, Traces
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import check_form, show_table

if TYPE_CHECKING:
    from analysis.tables.oracle_analysis import Figures


def register(app: typer.Typer) -> None:
    app.command()(table)


@takes()
def table(
    prices: PriceOptions,
    traces: Traces = None,
    policy: Policies = None,
    in_sample: InSample = False,
    form: Format = "terminal",
    as_json: Json = False,
) -> None:
    """Put traces into the published table: oracle SL, heuristic, static 5, static tuned, oracle; published ones beside.

    --policy adds columns: -p disco:file=disco.json for what `oracle train disco` fitted to other prompts.
    """
    from analysis.replay.simulate import check_policies
    from analysis.tables.formats import latex, markdown
    from analysis.tables.oracle_analysis import figures, notes, oracle_csv, oracle_table
    from oracle.policies.names import taken_in_sample

    check_form(form, as_json)
    added = [taken_in_sample(text) if in_sample else text for text in policy or ()]
    check_policies(added)
    loaded = load_traces(traces)
    costs = prices.each(loaded.values())
    for trace, cost in zip(loaded.values(), costs, strict=True):
        check_together(trace, cost=cost)
    found = [figures(trace, name, cost, added) for (name, trace), cost in zip(loaded.items(), costs, strict=True)]
    if as_json:
        show_json([plain(each) for each in found])
    elif form == "terminal":
        for each in found:
            _show(each)
        for text in notes(found):
            say(text)
    else:
        text = oracle_csv(found) if form == "csv" else {"markdown": markdown, "latex": latex}[form](oracle_table(found))
        say(text.rstrip("\n"), lines=True)


def _show(each: Figures) -> None:
    """A line a figure, ours and the published one of the same data set."""
    known = each.published
    theirs = {} if known is None else known.speedups
    rows: list[Sequence[str]] = [
        ["oracle SL, mean", estimate_text(each.mean), "" if known is None else f"{known.mean:.1f}"],
        ["oracle SL, SD", estimate_text(each.sd), "" if known is None else f"{known.sd:.1f}"],
        ["target, ms a token", number_text(each.target_ms), "" if known is None else f"{known.target_ms:.2f}"],
    ]
    names = dict.fromkeys([*each.speedups, *theirs])
    rows += [
        [
            f"speedup, {name}",
            interval_text(each.speedups[name]) if name in each.speedups else "-",
            f"{theirs[name]:.2f}" if name in theirs else "",
        ]
        for name in [*(name for name in names if name != "oracle"), "oracle"]
    ]
    published = "published" if known is None else f"published\n({known.data})"
    title = f"{each.name}: {each.target} + {each.draft}, {each.prompts:,} prompts"
    show_table(title, ["figure", "here [95 %]", published], rows)
