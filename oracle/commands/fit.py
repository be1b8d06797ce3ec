"""``oracle fit``: which distribution the accepted lengths follow."""

from __future__ import annotations

from typing import Annotated

import typer

from oracle.commands import options as opt
from oracle.commands.tables import number_text, show_json, show_table


def register(app: typer.Typer) -> None:
    app.command()(fit)


def fit(
    traces: opt.Traces = None,
    draws: Annotated[int, typer.Option(help="Draws of the goodness-of-fit test.")] = 200,
    as_json: opt.Json = False,
) -> None:
    """Fit distributions to the oracle SL, runs cut short by a text's end counted as "at least this long".

    Families: geometric (independent acceptance), zero-inflated and mixed geometric, beta-geometric, negative binomial,
    discrete Weibull.  Lengths are accepted tokens r, from 0.
    """
    import dataclasses

    from analysis.fit.distributions import Counts, fit_all, goodness_of_fit

    answer = []
    for name, trace in opt.load_traces(traces).items():
        found = trace.outcomes
        counts = Counts.from_samples(found.accepted[found.starts], found.censored[found.starts])
        fits = fit_all(counts)
        tests = [goodness_of_fit(counts, each, draws) for each in fits]
        answer += [
            {"trace": name, **dataclasses.asdict(each), "goodness": dataclasses.asdict(test)}
            for each, test in zip(fits, tests, strict=True)
        ]
        if not as_json:
            _show_fits(name, counts.n, int(counts.censored.sum()), fits, tests)
    if as_json:
        show_json(answer)


def _show_fits(name: str, runs: int, censored: int, fits, tests) -> None:
    title = f"{name}: {runs:,} oracle iterations, {censored:,} cut short; accepted tokens r"
    columns = ["family", "log-lik.", "ΔAIC", "fit p", "mean", "parameters [95 %]"]
    rows = []
    for each, test in zip(fits, tests, strict=True):
        parameters = "\n".join(
            f"{key} {number_text(value.value)} [{number_text(value.low)}, {number_text(value.high)}]"
            for key, value in each.parameters.items()
        )
        p = "-" if test.p != test.p else f"{test.p:.3f}"
        row = [f"{each.log_likelihood:,.1f}", f"{each.delta_aic:,.1f}", p, number_text(each.mean), parameters]
        rows.append(["-\n".join(each.family.rsplit("-", 1)), *row])
    show_table(title, columns, rows)
    for each in fits:
        if each.status != "ok" or each.note:
            opt.note(
                f"  {each.family}: {'; '.join(text for text in (each.status, each.note) if text != 'ok' and text)}"
            )
    meanings: dict[tuple[str, str], list[str]] = {}
    for each in fits:
        for key, meaning in each.meanings.items():
            meanings.setdefault((key, meaning), []).append(each.family)
    names = [key for key, _ in meanings]
    for (key, meaning), families in meanings.items():
        where = f" ({', '.join(families)})" if names.count(key) > 1 else ""
        opt.note(f"  {key}{where}: {meaning}")
