"""The section that says the most important numbers and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.describe.signals import accepted_first
from analysis.report.markup import Markup, escape, join, number, percent, range_words, tag
from analysis.report.traces import per_trace
from analysis.study import Study


def glance(studies: Sequence[Study]) -> Markup:
    """The most important numbers and the verdict."""
    return per_trace(studies, lambda study: join([_tiles(study), _verdict(study)]))


def _verdict(study: Study) -> Markup:
    return tag("ul", *(tag("li", sentence) for sentence in study.verdict.sentences), class_="verdict")


def _tiles(study: Study) -> Markup:
    winner = study.sweep.best
    interval = range_words(winner.speedup_estimate())
    summary = study.description.everything.detect
    oracle = next((r for r in study.results if r.policy == "oracle:optimal"), None)
    tiles = [
        (percent(float(accepted_first(study.trace).mean())), "of the target's tokens are the draft's choice too"),
        (f"{number(summary.mean.value)} ± {number(summary.sd.value)}", "oracle SL (detect), mean ± SD"),
        (
            f"{number(winner.speedup)}×",
            Markup(f"best library setting simulated, <code>{escape(winner.policy)}</code>; {interval}"),
        ),
    ]
    if oracle is not None:
        tiles.append((f"{number(oracle.speedup)}×", "the optimal oracle: nothing can beat it at these costs"))
    return tag("ul", *(tag("li", tag("b", value), tag("span", words)) for value, words in tiles), class_="tiles")
