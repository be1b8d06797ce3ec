"""The section that sets the traces beside published numbers."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.examine import Examined
from analysis.published import (
    ORACLE_ANALYSIS,
    TRANSFORMERS_BENCHMARKS,
    TRANSFORMERS_SOURCE,
    OracleAnalysis,
    published_for,
)
from analysis.replay.drafts import NotRecorded
from analysis.replay.simulate import simulate_all
from analysis.report.markup import Markup, join, number, table, tag
from analysis.report.traces import pair_name
from oracle.policies import parse
from oracle.policies.library import fixed_length


def published(subjects: Sequence[Examined]) -> Markup:
    """The oracle SL and the oracle's speedup beside the published ones, and the published speedups of the library."""
    head = (
        "",
        "Models",
        "Oracle SL (detect), mean ± SD",
        "Acceptance",
        "Draft cost",
        "Constant 5",
        "Best constant",
        "Oracle (detect)",
    )
    rows = [_own_row(subject) for subject in subjects]
    known = [published_for(subject.name) or published_for(subject.trace.dataset) for subject in subjects]
    # Without a data set in common, all of them are shown: the reader chooses.
    shown = [each for each in dict.fromkeys(each.data for each in known if each)] or list(ORACLE_ANALYSIS)
    rows += [_published_row(ORACLE_ANALYSIS[name]) for name in shown]
    source = next(iter(ORACLE_ANALYSIS.values())).source
    first = table(
        head,
        rows,
        text_columns=(1,),
        caption=(
            f"This report's traces, simulated, and the published ones, measured ({source}). Other models on other"
            " machines: compare shapes, not digits."
        ),
    )
    library = table(
        ("Target", "Draft", "Task", "Heuristic", "Dynamic"),
        [
            (each.target, each.draft, each.task, number(each.heuristic), number(each.dynamic))
            for each in TRANSFORMERS_BENCHMARKS
        ],
        caption=f"Published speedups of the library's own policies ({TRANSFORMERS_SOURCE})",
        text_columns=(1, 2),
    )
    return join(
        [
            first,
            tag(
                "details",
                tag("summary", "Published speedups of heuristic and dynamic speculation, seven pairs and tasks"),
                library,
            ),
        ]
    )


def _own_row(subject: Examined) -> tuple:
    everything, ratio = subject.description.everything, subject.draft_cost
    # Of five tokens the outcome need not be known where rounds were recorded: no number then.
    found = simulate_all(subject.trace, ("constant:tokens=5", "oracle:detect"), subject.cost)
    five, detect = (float("nan") if isinstance(each, NotRecorded) else each.speedup for each in found)
    constant = subject.constant
    return (
        f"{subject.name} (this report)",
        pair_name(subject.trace),
        f"{number(everything.detect.mean.value)} ± {number(everything.detect.sd.value)}",
        number(everything.acceptance_rate.value),
        number(ratio, 3),
        number(five),
        f"{number(constant.speedup)} ({fixed_length(parse(constant.policy))})",
        number(detect),
    )


def _published_row(each: OracleAnalysis) -> tuple:
    speedups = each.speedups
    return (
        f"{each.data} (published)",
        f"{each.target} / {each.draft}",
        f"{each.mean:g} ± {each.sd:g}",
        number(each.acceptance),
        number(each.draft_cost, 3),
        number(speedups["static 5"]),
        number(speedups["static tuned"]),
        number(speedups["oracle"]),
    )
