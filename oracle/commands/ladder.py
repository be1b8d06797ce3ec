"""The table of `oracle simulate --ladder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.commands.notes import note
from oracle.commands.numbers import gain_text, interval_text, policy_text
from oracle.commands.tables import show_table, tell

if TYPE_CHECKING:
    from analysis.gains.split import Null
    from analysis.intervals import Estimate
    from analysis.ladder.ladder import Ladder
    from analysis.ladder.rungs import Rung


def show_ladder(found: Ladder, title: str) -> None:
    """One row a rung, one line on the headroom, and notes on what stands behind them."""
    from analysis.ladder.words import headroom_sentence, remarks

    columns = ["rung", "speedup\n[95 %]", "% over best\nconstant\n[95 %]", "the same,\nshuffled\n(range)",
               "% of the\nheadroom\n[95 %]"]  # fmt: skip
    show_table(title, columns, [_cells(each) for each in found.rungs])
    tell(headroom_sentence(found))
    for each in remarks(found):
        note(f"Note: {each}.")


def _cells(each: Rung) -> list[str]:
    policy = "" if each.policy in (None, each.name) else f"\n  {policy_text(each.policy or '', width=24)}"
    return [
        f"{each.name}{policy}",
        "-" if each.speedup is None else interval_text(each.speedup).replace(" ", "\n", 1),
        "-" if each.over_constant is None else gain_text(each.over_constant),
        "-" if each.null is None else _range(each.null),
        "-" if each.share is None else _share(each.share),
    ]


def _range(null: Null) -> str:
    value, low, high = (f"{100 * (end - 1):+.1f}" for end in (null.mean, null.low, null.high))
    return f"{value}\n({low}, {high})"


def _share(share: Estimate) -> str:
    value, low, high = (f"{100 * end:.0f}" for end in (share.value, share.low, share.high))
    return f"{value}\n[-]" if share.low != share.low else f"{value}\n[{low}, {high}]"
