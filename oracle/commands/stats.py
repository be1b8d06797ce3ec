"""``oracle stats``: how much the oracle SL varies, where from, and what predicts it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import typer

from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, load_traces
from oracle.commands.numbers import estimate_text, number_text
from oracle.commands.options import Format, Json, PriceOptions, Traces
from oracle.commands.programs import show_json
from oracle.commands.tables import check_form, printed_as, show_table, tell

if TYPE_CHECKING:
    from analysis.examine import Findings
    from analysis.gains.split import Null
    from analysis.intervals import Estimate
    from analysis.replay.enough import Enough


def register(app: typer.Typer) -> None:
    app.command()(stats)


@takes()
def stats(prices: PriceOptions, traces: Traces = None, form: Format = "terminal", as_json: Json = False) -> None:
    """Describe the oracle SL: its spread, where it comes from, and what predicts it; then the verdict in words."""
    from analysis.examine import findings
    from analysis.replay.enough import enough_of

    check_form(form, as_json)
    answer, loaded = [], load_traces(traces)
    costs = prices.each(loaded.values())
    for trace, cost in zip(loaded.values(), costs, strict=True):
        check_together(trace, cost=cost)
    with printed_as(form):
        for (name, trace), cost in zip(loaded.items(), costs, strict=True):
            found, enough = findings(trace, cost), enough_of(trace, cost)
            answer.append(
                {
                    "trace": name,
                    "prices": cost,
                    "statistics": found.description,
                    "signals": found.signals,
                    "iid": found.evidence.iid,
                    "gains": found.evidence.gains,
                    "held_out": found.evidence.held_out,
                    "loss": found.evidence.loss,
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
        tell(note)
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
    show_gains(found)
    for sentence in found.verdict.sentences:
        tell(sentence)
    tell(enough.sentence)
    tell("")


def show_gains(found: Findings) -> None:
    """Each gain beside that of shuffled tokens: mean, and range over the shuffles."""
    gains = found.evidence.gains
    if gains is None:
        return
    some = "" if gains.prompts == gains.of else f"; {gains.prompts:,} of {gains.of:,} prompts"
    show_table(
        f"Gain over one constant for all in %, and with tokens shuffled{some}",
        ["", "these texts\n[95 %]", "shuffled within\neach text (range)", "shuffled over\nall texts (range)"],
        [[each.what, _points(each.gain), _range(each.within), _range(each.whole)] for each in gains.gains],
    )


def _points(gain: Estimate) -> str:
    value, low, high = (100 * end for end in (gain.value, gain.low, gain.high))
    return f"{value:.1f} [{'-' if math.isnan(low) else f'{low:.1f}, {high:.1f}'}]"


def _range(null: Null) -> str:
    return f"{100 * null.mean:.1f} ({100 * null.low:.1f} to {100 * null.high:.1f})"


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
