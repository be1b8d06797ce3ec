"""The section about the signals of the draft."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.examine import Examined
from analysis.report.markup import Markup, number, table, with_interval


def signals(subjects: Sequence[Examined]) -> Markup | None:
    """How well each signal foretells acceptance, a row a signal and trace; None where no trace has any."""
    if not any(subject.signals for subject in subjects):
        return None
    head = (
        "Signal",
        "Trace",
        "Positions",
        "AUC",
        "Rank correlation",
        "Calibration error",
        "If perfectly calibrated",
        "Brier score",
    )
    rows = [
        (
            each.signal,
            subject.name,
            f"{each.count:,}, {each.positions}",
            with_interval(each.auc, lambda v: number(v, 3)),
            number(each.spearman, 3),
            with_interval(each.calibration_error, lambda v: number(v, 3)),
            number(each.calibration_if_perfect, 3),
            with_interval(each.brier, lambda v: number(v, 3)),
        )
        for subject in subjects
        for each in subject.signals
    ]
    return table(
        head,
        rows,
        caption="How well each signal of the draft foretells that the target accepts its token",
        text_columns=(1, 2),
    )
