"""The section about the distributions that were fitted."""

from __future__ import annotations

from analysis.examine import Examined
from analysis.fit.distributions import Fit, GoodnessOfFit, best
from analysis.report.markup import Markup, join, number, table, tag, with_interval


def fits(subject: Examined) -> Markup:
    """Every family that was fitted to a trace's accepted lengths."""
    if not subject.fits:
        return tag("p", "No run to fit: every iteration was cut off before it began.", class_="warning")
    winner = best(subject.fits)
    head = (
        "Family",
        "Parameters (95 % interval)",
        "Mean",
        "SD",
        "log-likelihood",
        "Δ AIC",
        "Goodness of fit, p",
        "Status",
    )
    rows = [
        (
            each.family,
            _parameters(each),
            number(each.mean),
            number(each.sd),
            number(each.log_likelihood, 1),
            number(each.delta_aic, 1),
            subject.goodness[each.family].p_words,
            "; ".join(filter(None, [each.status, each.note, _untested(subject.goodness[each.family])])),
        )
        for each in subject.fits
    ]
    caption = (
        f"Distributions fitted to the accepted lengths (from 0) of {subject.name}: {subject.fits[0].n:,} iterations,"
        f" {subject.fits[0].censored:,} censored. The geometric row is the i.i.d. model, on which every closed-form"
        f" speedup rests. Intervals: {subject.fits[0].over}. Goodness of fit and Δ AIC are those of independent draws"
        " of a family: where the runs of a prompt are alike, p may be small for that alone."
    )
    return table(
        head, rows, caption=caption, text_columns=(1, 7), best=None if winner is None else subject.fits.index(winner)
    )


def _untested(test: GoodnessOfFit) -> str:
    return "" if test.status == "ok" else test.status


def _parameters(fit: Fit) -> Markup:
    words = [
        tag("span", f"{name} = {with_interval(estimate, lambda value: f'{value:.3g}')}", title=fit.meanings[name])
        for name, estimate in fit.parameters.items()
    ]
    return join(words, "<br>")
