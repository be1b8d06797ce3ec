"""The section about the signals of the draft."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.markup import Markup, number, table, with_interval
from analysis.study import Study


def signals(studies: Sequence[Study]) -> Markup | None:
    """How well each signal foretells acceptance, a row a signal and trace; None where no trace has any."""
    if not any(study.signals for study in studies):
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
            study.name,
            f"{each.count:,}, {each.positions}",
            with_interval(each.auc, lambda v: number(v, 3)),
            number(each.spearman, 3),
            with_interval(each.calibration_error, lambda v: number(v, 3)),
            number(each.calibration_if_perfect, 3),
            with_interval(each.brier, lambda v: number(v, 3)),
        )
        for study in studies
        for each in study.signals
    ]
    return table(
        head,
        rows,
        caption="How well each signal of the draft foretells that the target accepts its token",
        text_columns=(1, 2),
    )
