"""``oracle fit``: which distribution the accepted lengths follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.bounds import Between
from oracle.commands.groups import takes
from oracle.commands.inputs import load_traces
from oracle.commands.notes import note
from oracle.commands.numbers import estimate_text, number_text
from oracle.commands.options import Format, Json, Traces
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import check_form, printed_as, show_table, tell

if TYPE_CHECKING:
    from analysis.fit.distributions import Fit
    from oracle.workflows.questions import Fitted


def register(app: typer.Typer) -> None:
    app.command()(fit)


@takes()
def fit(
    traces: Traces = None,
    draws: Annotated[int, typer.Option(help="Draws of the goodness-of-fit test."), Between(1, 100_000)] = 200,
    form: Format = "terminal",
    as_json: Json = False,
) -> None:
    """Fit distributions to the oracle SL, runs cut short by a text's end counted as "at least this long".

    Families: geometric (independent acceptance), zero-inflated and mixed geometric, beta-geometric, negative binomial,
    discrete Weibull.  Lengths are accepted tokens r, from 0.  Intervals are over prompts; "fit p" asks whether the
    lengths could be independent draws of the family, all from one acceptance or mixture of them.
    """
    from oracle.workflows.questions import fit as fit_trace

    check_form(form, as_json)
    answer = []
    with printed_as(form):
        for name, trace in load_traces(traces).items():
            found = fit_trace(trace, draws)
            answer += [
                {"trace": name, **plain(each), "goodness": plain(test)}
                for each, test in zip(found.fits, found.goodness, strict=True)
            ]
            if found.nothing is not None:
                (note if as_json else tell)(f"{name}: {found.nothing}")
            elif not as_json:
                show_fits(name, found)
    if as_json:
        show_json(answer)


def show_fits(name: str, found: Fitted) -> None:
    """A row a family, then what its fit is worth and what its parameters mean."""
    title = f"{name}: {found.iterations:,} oracle iterations, {found.censored:,} cut short; accepted tokens r"
    columns = ["family", "log-lik.", "ΔAIC", "fit p", "mean", "parameters [95 %]"]
    rows = []
    for each, test in zip(found.fits, found.goodness, strict=True):
        parameters = ";\n".join(f"{key} {estimate_text(value)}" for key, value in each.parameters.items())
        row = [
            f"{each.log_likelihood:,.1f}",
            f"{each.delta_aic:,.1f}",
            test.p_words,
            number_text(each.mean),
            parameters,
        ]
        rows.append(["-\n".join(each.family.rsplit("-", 1)), *row])
    show_table(title, columns, rows)
    note(f"  intervals: {found.fits[0].over}")
    note(
        "  fit p: of independent draws of the family; where runs of a prompt are alike, it may be small by that. "
        "ΔAIC takes runs as independent too: it orders the families."
    )
    for each, test in zip(found.fits, found.goodness, strict=True):
        if test.status != "ok":
            note(f"  {each.family}, fit p: {test.status}")
    _explain(found.fits)
    tell(found.iid.sentence)


def _explain(fits: Sequence[Fit]) -> None:
    for each in fits:
        if each.status != "ok" or each.note:
            note(f"  {each.family}: {'; '.join(text for text in (each.status, each.note) if text != 'ok' and text)}")
    meanings: dict[tuple[str, str], list[str]] = {}
    for each in fits:
        for key, meaning in each.meanings.items():
            meanings.setdefault((key, meaning), []).append(each.family)
    names = [key for key, _ in meanings]
    for (key, meaning), families in meanings.items():
        where = f" ({', '.join(families)})" if names.count(key) > 1 else ""
        note(f"  {key}{where}: {meaning}")
