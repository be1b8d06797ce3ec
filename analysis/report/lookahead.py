"""The section about the distribution of the oracle SL, in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.describe.statistics import Summary
from analysis.examine import Examined
from analysis.report.markup import Markup, join, number, percent, table, tag, with_interval


def statistics(subjects: Sequence[Examined]) -> Markup:
    """Oracle SL in numbers, one column a trace and one more without its repeating texts."""
    columns = []
    for subject in subjects:
        columns.append((subject.name, subject.description.everything))
        if subject.description.without_loops is not None:
            columns.append(
                (
                    f"{subject.name}, without {len(subject.description.loops)} repeating texts",
                    subject.description.without_loops,
                )
            )
    share = lambda value: percent(value)  # noqa: E731
    lines = {
        "Iterations": lambda s: number(s.detect.iterations),
        "Mean (detect)": lambda s: with_interval(s.detect.mean),
        "SD (n − 1)": lambda s: with_interval(s.detect.sd),
        "Median (detect)": lambda s: with_interval(s.detect.median, lambda v: number(v, 0)),
        "Trimmed mean (detect; 10 % off either end)": lambda s: with_interval(s.detect.trimmed_mean),
        "5 %, 95 % and 99 % quantile (detect)": lambda s: ", ".join(
            number(_quantile(s.detect, q), 0) for q in (0.05, 0.95, 0.99)
        ),
        "Largest (detect)": lambda s: number(s.detect.largest),
        "Mean (accepted) over iterations": lambda s: with_interval(s.averages.over_iterations),
        "Mean (accepted) over all positions": lambda s: with_interval(s.averages.over_positions),
        "Variance over that of a geometric": lambda s: with_interval(s.accepted.dispersion),
        "Variance over that with all agreements shuffled (1 = i.i.d.)": lambda s: with_interval(s.excess_dispersion),
        "Of it, added by differences between prompts": lambda s: with_interval(s.heterogeneity.between),
        "Of it, added by the order within prompts": lambda s: with_interval(s.heterogeneity.within),
        "Iterations cut short by the end of a text": lambda s: with_interval(s.censoring.iterations, share),
        "Accepted tokens in the longest 1 % of iterations": lambda s: with_interval(s.longest_share, share),
        "Acceptance per token, censoring corrected": lambda s: with_interval(s.acceptance_rate, lambda v: number(v, 3)),
        "Design effect of prompts on the mean": lambda s: with_interval(s.heterogeneity.design_effect),
        "Correlation of neighbouring iterations of a prompt": lambda s: with_interval(
            s.heterogeneity.lag1, lambda v: number(v, 3)
        ),
    }
    notes = [found.note for _, found in columns]
    rows = [(name, *(line(values) for _, values in columns)) for name, line in lines.items()]
    numbers = table(("", *(name for name, _ in columns)), rows, caption="Oracle SL, with 95 % intervals over prompts")
    return join([numbers, *(tag("p", note, class_="note") for note in dict.fromkeys(filter(None, notes)))])


def _quantile(summary: Summary, share: float) -> float:
    return next(value for key, value in summary.quantiles.items() if math.isclose(float(key), share))
