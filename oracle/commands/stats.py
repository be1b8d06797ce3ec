"""``oracle stats``: how much the oracle SL varies, where from, and what predicts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, load_traces
from oracle.commands.notes import say
from oracle.commands.numbers import estimate_text, number_text
from oracle.commands.options import Json, PriceOptions, Traces
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.replay.enough import Enough
    from analysis.study import Findings


def register(app: typer.Typer) -> None:
    app.command()(stats)


@takes()
def stats(prices: PriceOptions, traces: Traces = None, as_json: Json = False) -> None:
    """Describe the oracle SL: its spread, where it comes from, and what predicts it; then the verdict in words."""
    from analysis.replay.enough import enough_of
    from analysis.study import findings

    cost = prices.load()
    answer, loaded = [], load_traces(traces)
    for trace in loaded.values():
        check_together(trace, cost=cost)
    for name, trace in loaded.items():
        found, enough = findings(trace, cost), enough_of(trace, cost)
        answer.append(
            {
                "trace": name,
                "statistics": found.description,
                "signals": found.signals,
                "verdict": found.verdict,
                "enough": enough,
            }
        )
        if not as_json:
            show_statistics(name, found, enough)
    if as_json:
        show_json(answer)


def show_statistics(name: str, found: Findings, enough: Enough) -> None:
    """The spread of the oracle SL, the signals, the verdict, and how many prompts are enough."""
    whole, some = found.description.everything, found.description.without_loops
    columns = ["", "all texts [95 %]"] + (["without repeats"] if some else [])
    rows = []
    for label, pick in STATISTICS:
        rows.append([label, estimate_text(pick(whole)), *([estimate_text(pick(some))] if some else [])])
    show_table(
        f"{name}: {whole.accepted.iterations:,} oracle iterations of {whole.accepted.prompts} prompts", columns, rows
    )
    for note in dict.fromkeys(each.note for each in (whole, some) if each and each.note):
        say(note)
    signal_rows = [
        [
            each.signal,
            estimate_text(each.auc),
            estimate_text(each.calibration_error),
            number_text(each.calibration_if_perfect),
            estimate_text(each.brier),
        ]
        for each in found.signals
    ]
    if signal_rows:
        show_table(
            f"Signals as predictors of acceptance, {found.signals[0].positions}",
            ["signal", "AUC", "calibration error", "if perfect", "Brier score"],
            signal_rows,
        )
    for sentence in found.verdict.sentences:
        say(sentence)
    say(enough.sentence)
    say("")


STATISTICS = (
    ("mean accepted (r)", lambda s: s.accepted.mean),
    ("mean detect (r + 1)", lambda s: s.detect.mean),
    ("SD (n - 1)", lambda s: s.accepted.sd),
    ("median accepted", lambda s: s.accepted.median),
    ("trimmed mean accepted (10 % off either end)", lambda s: s.accepted.trimmed_mean),
    ("largest accepted", lambda s: s.accepted.largest),
    ("mean accepted over all positions", lambda s: s.averages.over_positions),
    ("variance over a geometric's of the same mean", lambda s: s.accepted.dispersion),
    ("  the same with all agreements shuffled", lambda s: s.iid_dispersion),
    ("variance over that of shuffled agreements", lambda s: s.excess_dispersion),
    ("  added by differences between prompts", lambda s: s.heterogeneity.between),
    ("  added by the order within prompts", lambda s: s.heterogeneity.within),
    ("acceptance rate (censoring counted)", lambda s: s.acceptance_rate),
    ("iterations cut short", lambda s: s.censoring.iterations),
    ("accepted tokens in the longest 1 %", lambda s: s.longest_share),
    ("design effect of prompts on the mean", lambda s: s.heterogeneity.design_effect),
    ("lag-1 autocorrelation within prompts", lambda s: s.heterogeneity.lag1),
)
