"""The section about the headroom: nine rungs from no draft to the best that there could be, as picture and table."""

from __future__ import annotations

from analysis.examine import Examined
from analysis.gains.split import Null
from analysis.intervals import Estimate
from analysis.ladder.rungs import Rung
from analysis.ladder.words import headroom_sentence, remarks
from analysis.report.figures import headroom_figure
from analysis.report.markup import Markup, join, number, table, tag, with_interval


def ladder_section(subject: Examined) -> Markup:
    """The ladder of one trace."""
    rows = table(
        ("Rung", "What it is here", "Speedup (95 %)", "Over the best constant", "Shuffled (range)", "Of the headroom"),
        [_row(each) for each in subject.ladder.rungs],
        caption=(
            f"From no draft to the best there could be on {subject.name}; every choice and every model is judged on"
            " prompts that had no part in it"
        ),
        text_columns=(1,),
    )
    notes = tag("ul", *(tag("li", f"{each[0].upper()}{each[1:]}.") for each in remarks(subject.ladder)), class_="note")
    return join([tag("p", headroom_sentence(subject.ladder)), headroom_figure(subject), rows, notes])


def _row(each: Rung) -> tuple[object, ...]:
    return (
        each.name,
        "" if each.policy in (None, each.name) else tag("code", each.policy),
        "–" if each.speedup is None else with_interval(each.speedup),
        "–" if each.over_constant is None else with_interval(_gain(each.over_constant), _percent),
        "–" if each.null is None else _range(each.null),
        "–" if each.share is None else with_interval(each.share, _percent),
    )


def _gain(ratio: Estimate) -> Estimate:
    return ratio.map(lambda end: end - 1)


def _percent(value: float) -> str:
    return f"{number(100 * value, 1)} %"


def _range(null: Null) -> str:
    return f"{_percent(null.mean - 1)} ({number(100 * (null.low - 1), 1)} to {number(100 * (null.high - 1), 1)})"
