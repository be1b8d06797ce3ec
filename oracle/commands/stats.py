"""``oracle stats``: how much the oracle SL varies, where from, and what predicts it."""

from __future__ import annotations

import typer

from oracle.commands import options as opt
from oracle.commands.tables import number_text, show_json, show_table


def register(app: typer.Typer) -> None:
    app.command()(stats)


def stats(
    traces: opt.Traces = None,
    draft_cost: opt.DraftCost = None,
    cost: opt.CostFile = None,
    as_json: opt.Json = False,
) -> None:
    """Describe the oracle SL: its spread, where it comes from, and what predicts it; then the verdict in words."""
    from analysis.describe.statistics import plain
    from analysis.study import findings

    prices = opt.load_cost(draft_cost, cost)
    answer = []
    for name, trace in opt.load_traces(traces).items():
        found = findings(trace, prices)
        answer.append(
            {
                "trace": name,
                "statistics": plain(found.description),
                "signals": plain(found.signals),
                "verdict": plain(found.verdict),
            }
        )
        if not as_json:
            _show_statistics(name, found)
    if as_json:
        show_json(answer)


def _show_statistics(name: str, found) -> None:
    whole, some = found.description.everything, found.description.without_loops
    columns = ["", "all texts [95 %]"] + (["without repeats"] if some else [])
    rows = []
    for label, pick in _STATISTICS:
        rows.append([label, _interval(pick(whole)), *([_interval(pick(some))] if some else [])])
    show_table(
        f"{name}: {whole.accepted.iterations:,} oracle iterations of {whole.accepted.prompts} prompts", columns, rows
    )
    signal_rows = [
        [each.signal, _interval(each.auc), _interval(each.calibration_error), _interval(each.brier)]
        for each in found.signals
    ]
    show_table(
        f"Signals as predictors of acceptance, {found.signals[0].positions}",
        ["signal", "AUC", "calibration error", "Brier score"],
        signal_rows,
    )
    for sentence in found.verdict.sentences:
        typer.echo(sentence)
    typer.echo()


_STATISTICS = (
    ("mean accepted (r)", lambda s: s.accepted.mean),
    ("mean detect (r + 1)", lambda s: s.detect.mean),
    ("SD", lambda s: s.accepted.sd),
    ("median accepted", lambda s: s.accepted.median),
    ("trimmed mean accepted (10 % off either end)", lambda s: s.accepted.trimmed_mean),
    ("largest accepted", lambda s: s.accepted.largest),
    ("mean accepted over all positions", lambda s: s.averages.over_positions),
    ("variance over a geometric's of the same mean", lambda s: s.accepted.dispersion),
    ("  the same for i.i.d. texts of these lengths", lambda s: s.iid_dispersion),
    ("acceptance rate (censoring counted)", lambda s: s.acceptance_rate),
    ("iterations cut short", lambda s: s.censoring.iterations),
    ("accepted tokens in the longest 1 %", lambda s: s.longest_share),
    ("variance between prompts (intra-class corr.)", lambda s: s.heterogeneity.icc),
    ("design effect", lambda s: s.heterogeneity.design_effect),
    ("lag-1 autocorrelation within prompts", lambda s: s.heterogeneity.lag1),
)


def _interval(value) -> str:
    if not hasattr(value, "low"):
        return number_text(value)
    return f"{number_text(value.value)} [{number_text(value.low)}, {number_text(value.high)}]"
