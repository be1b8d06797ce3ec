"""``oracle tune``: which policy to use, with which threshold and cap, and the lines to paste."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands.bounds import Between
from oracle.commands.destinations import PICTURE, check_file
from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, describe, load_trace
from oracle.commands.notes import note, say
from oracle.commands.numbers import gain_text, interval_text, policy_text
from oracle.commands.options import Force, InSample, Json, OneTrace, Policies, PriceOptions
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.cost import CostModel
    from analysis.tune import Tuned
    from oracle.records.trace import Trace
    from oracle.settings import Settings


def register(app: typer.Typer) -> None:
    app.command()(tune)


@takes()
def tune(
    prices: PriceOptions,
    trace: OneTrace = None,
    policy: Policies = None,
    folds: Annotated[
        int, typer.Option("--folds", help="Parts of the prompts that the optimism is found with."), Between(2, 100)
    ] = 5,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw speedup over threshold and cap here.")] = None,
    in_sample: InSample = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Choose a policy, its threshold and cap on a trace, judged on prompts that did not choose it.

    Tried are the settings of transformers' own rules; --policy NAME adds those of another one, --policy all of every
    one that needs no training.  Keys hold a number fast: --policy svip:tokens=20
    """
    from analysis.plots.canvas import FORMATS
    from analysis.tune import tune as tuned
    from analysis.tune.grid import ALL, beside_default, settings_of
    from oracle.policies.names import taken_in_sample

    if plot is not None:
        check_file(plot, FORMATS, made=PICTURE, force=force)
    added = [text if text.strip() == ALL or not in_sample else taken_in_sample(text) for text in policy or ()]
    families = beside_default(added)
    settings_of(families)  # what will not do is said before anything is loaded
    loaded = load_trace(trace)
    cost = prices.load(loaded)
    check_together(loaded, cost=cost)
    found = tuned(loaded, cost, families, folds=folds)
    if as_json:
        show_json(_answer(found, loaded))
    else:
        show_tuned(found, describe(loaded), loaded.meta.get("draft"))
    _warn(found, loaded, cost)
    if plot is not None:
        _draw(found, plot)


def show_tuned(found: Tuned, title: str, draft: object = None) -> None:
    """A row for each family, what is to be said of them, and the lines to paste."""
    from oracle.settings import nearest

    columns = ["best of the family", "tried", "speedup\nin sample", "held out\n[95 %]", "% over the\ntuned constant"]
    rows = [
        [
            policy_text(each.best, 24),
            f"{each.tried}",
            f"{each.in_sample:.2f}",
            interval_text(each.speedup).replace(" ", "\n", 1),
            "baseline" if each.best == found.constant else gain_text(each.over_constant),
        ]
        for each in found.looks
    ]
    show_table(title, columns, rows)
    say("Held out: each half of the prompts under what the other half chose; all intervals hold at once.")
    for sentence in found.sentences:
        say(sentence)
    for each, told in nearest(found.policy, found.constant, found.simplest, draft):
        say(f"\n{settings_text(each, told)}", lines=True)


def settings_text(settings: Settings, told: str) -> str:
    """Some lines: the engine, what to know, what to paste."""
    return "\n".join(line for line in (f"{settings.engine} {settings.version}. {told}", settings.text) if line)


def _answer(found: Tuned, trace: Trace) -> dict[str, Any]:
    """Everything, and the settings to paste."""
    from oracle.settings import nearest

    near = nearest(found.policy, found.constant, found.simplest, trace.meta.get("draft"))
    paste = [plain(each) | {"note": told} for each, told in near]
    return plain(found) | {"paste": paste}


def _warn(found: Tuned, trace: Trace, cost: CostModel) -> None:
    """Say where the advice rests on prices that nobody measured."""
    from analysis.replay.simulate import simulate

    for text in dict.fromkeys((found.policy, found.constant)):
        result = simulate(trace, text, cost)
        context = trace.context[trace.offsets[result.prompt] + result.position]
        if outside := cost.outside_range(result.drafted, context):
            note(f"Warning: {text}: {outside}; prices there are extrapolated.")


def _draw(found: Tuned, file: Path) -> None:
    from analysis.plots.canvas import figure_of, save
    from analysis.plots.surface import plot_surface

    if found.surface is None:
        note(f"No picture: {found.left_out.get('dynamic', 'dynamic was not tried')}.")
    else:
        note(f"Picture: {save(figure_of(plot_surface(found.surface)), file)}")
