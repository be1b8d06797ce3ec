"""``oracle predict``: what a draft would gain by the closed form, before anything is recorded."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands.bounds import Between
from oracle.commands.destinations import PICTURE, check_file
from oracle.commands.groups import takes
from oracle.commands.notes import note, say
from oracle.commands.options import Force, Json, PriceOptions
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.closed_form import Prediction
    from analysis.cost import CostModel


def register(app: typer.Typer) -> None:
    app.command()(predict)


@takes()
def predict(
    prices: PriceOptions,
    acceptance: Annotated[
        float | None, typer.Option(help="Chance that a drafted token is accepted."), Between(0.0, 0.999)
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(help="Price of verifying 1, 2, ... tokens, in target steps: 1:1,4:1.1,8:1.4; default: flat."),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="A lookahead to be told of."), Between(1, 1000)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw speedup over acceptance and draft cost into this file.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The closed form for published pairs, beside what was measured.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say what a draft would gain if every drafted token were accepted independently: no trace is needed.

    Example: oracle predict --acceptance 0.8 --draft-cost 0.05
    """
    from analysis.closed_form import SHOWN
    from analysis.closed_form import predict as expected
    from analysis.plots.canvas import FORMATS

    if published:
        given = (acceptance, verify, tokens, plot, prices.draft_cost, prices.cost)
        if any(each is not None for each in given):
            raise ValueError("--published is about pairs of its own: give no acceptance, prices or lookahead with it")
        _show_published(as_json)
        return
    if acceptance is None:
        raise ValueError("--acceptance is missing: a share such as 0.8; `oracle stats TRACE` estimates it from a trace")
    if verify is not None and prices.cost is not None:
        raise ValueError("--verify and --cost exclude each other: give one of them")
    if plot is not None:
        check_file(plot, FORMATS, made=PICTURE, force=force)
    cost = prices.load()
    if verify is not None:
        cost = dataclasses.replace(cost, verify=curve(verify))
    found = expected(acceptance, cost, SHOWN if tokens is None else [*SHOWN, tokens])
    if as_json:
        show_json(_answer(found))
    else:
        _show(found)
    if plot is not None:
        _draw(found.acceptance, cost, plot)


def curve(text: str) -> tuple[tuple[int, float], ...]:
    """The points of "1:1,4:1.1".  Raises ValueError for what is no list of them."""
    try:
        pairs = [piece.split(":") for piece in text.split(",")]
        return tuple((int(tokens), float(price)) for tokens, price in pairs)
    except ValueError:
        raise ValueError(f"--verify is {text!r}; give tokens:price pairs, such as 1:1,4:1.1,8:1.4") from None


def _show(found: Prediction) -> None:
    title = f"Acceptance {found.acceptance:g}, draft step {found.draft_cost:.3g}"
    rows = [[f"{row.tokens}", f"{row.tokens_per_iteration:.2f}", f"{row.speedup:.2f}"] for row in found.rows]
    rows += [["oracle:detect", "", f"{found.detect:.2f}"], ["oracle:clairvoyant", "", f"{found.clairvoyant:.2f}"]]
    show_table(title, ["lookahead", "tokens/pass", "speedup"], rows)
    best = found.best
    say(
        f"Best constant lookahead: {best.tokens}, speedup {best.speedup:.2f}, "
        f"{best.tokens_per_iteration:.2f} tokens an iteration."
        if best.tokens
        else "No constant lookahead is faster than the target alone."
    )
    say(f"Break-even: {_break_even(found)}.")
    note("Acceptance is taken to be independent from token to token; a recorded trace needs no such assumption.")


def _break_even(found: Prediction) -> str:
    dearest, least = found.break_even_draft_cost, found.break_even_acceptance
    return "; ".join(
        (
            "no draft is cheap enough at this acceptance"
            if dearest is None
            else f"a draft step of {dearest:.3g} target steps at this acceptance",
            "no acceptance is high enough at these prices"
            if least is None
            else f"an acceptance of {least:.3g} at these prices",
        )
    )


def _answer(found: Prediction) -> dict[str, Any]:
    """A prediction for programs."""
    names = [field.name for field in dataclasses.fields(found) if field.name != "cost"]
    return {name: getattr(found, name) for name in names} | {"verify": found.cost.verify}


def _show_published(as_json: bool) -> None:
    from analysis.closed_form import published

    rows = [dataclasses.asdict(row) | {"error": row.error} for row in published()]
    if as_json:
        show_json(rows)
        return
    cells = [[row["data"], row["policy"], row["measured"], row["predicted"], f"{row['error']:+.0%}"] for row in rows]
    show_table(
        "Speedups: published, and by the closed form", ["data", "policy", "measured", "predicted", "error"], cells
    )
    note("Measured: arXiv 2405.04304; acceptance and draft cost of the same pairs: arXiv 2405.14105.")


def _draw(acceptance: float, cost: CostModel, file: Path) -> None:
    from analysis.plots.canvas import figure_of, save
    from analysis.plots.prediction import plot_prediction

    note(f"Picture: {save(figure_of(plot_prediction(acceptance, cost)), file)}")
