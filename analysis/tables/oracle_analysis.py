"""The published form of the oracle analysis: how long the draft could have gone on, and what policies make of it.

The columns are those of Mamou et al., Dynamic Speculation Lookahead, arXiv 2405.04304: the oracle SL (one more than the
tokens accepted), the target's time a token, and the speedups of decoding under the heuristic, a constant of 5, the best
constant, whatever else is named, and the oracle that stops where the draft first disagrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from analysis.cost import CostModel
from analysis.describe.statistics import describe
from analysis.gains.heldout import best_held_out
from analysis.intervals import Estimate
from analysis.published import OracleAnalysis, published_for
from analysis.replay.drafts import NotRecorded
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate_totals
from analysis.replay.sweep import constants
from analysis.tables.formats import Column, Table, comma_separated, estimate_cell
from oracle.records.trace import Trace

HEURISTIC, STATIC, TUNED, ORACLE = "heuristic", "static 5", "static tuned", "oracle"
_POLICIES = {HEURISTIC: "heuristic", STATIC: "constant:tokens=5", ORACLE: "oracle:detect"}
_DISCO = "DISCO"


@dataclass(frozen=True)
class Figures:
    """One trace; each speedup under its published name, or under the text of its policy."""

    name: str
    target: str
    draft: str
    prompts: int
    mean: Estimate  # of the oracle SL
    sd: Estimate
    target_ms: float | None  # per token; None where prices are not in seconds
    speedups: dict[str, Estimate]
    tuned: str  # the best constant on all prompts; its speedup is judged on prompts that did not choose it
    left_out: dict[str, str] = field(default_factory=dict)  # column -> why it has no number
    published: OracleAnalysis | None = None  # of the same data set


def figures(trace: Trace, name: str, cost: CostModel, policies: Sequence[str] = ()) -> Figures:
    """The row of a trace, and columns for further ``policies``.

    Raises ValueError for a policy that is not known, that was trained on these prompts, and for prices of another pair.
    """
    columns = {HEURISTIC: _POLICIES[HEURISTIC], STATIC: _POLICIES[STATIC]}
    columns |= {_column(text): text for text in policies} | {ORACLE: _POLICIES[ORACLE]}
    fixed = constants()
    found = dict(simulate_totals(trace, [*columns.values(), *fixed], cost))
    replayed = {column: found[number] for number, column in enumerate(columns)}
    tried = [each for number in range(len(columns), len(found)) if isinstance(each := found[number], Totals)]
    tried.sort(key=lambda each: -each.speedup)
    held = best_held_out(tried, tried)
    speedups = {name: each.speedup_estimate() for name, each in replayed.items() if isinstance(each, Totals)}
    speedups[TUNED] = held.constant_speedup
    order = [HEURISTIC, STATIC, TUNED, *columns]
    everything = describe(trace).everything
    plain = tried[0].plain_seconds.sum()
    return Figures(
        name=name,
        target=_model(trace, "target"),
        draft=_model(trace, "draft"),
        prompts=trace.prompts,
        mean=everything.detect.mean,
        sd=everything.detect.sd,
        target_ms=float(1000 * plain / trace.tokens) if cost.unit == "s" else None,
        speedups={column: speedups[column] for column in dict.fromkeys(order) if column in speedups},
        tuned=held.constant,
        left_out={column: str(each) for column, each in replayed.items() if isinstance(each, NotRecorded)},
        published=published_for(name) or published_for(trace.dataset),
    )


def oracle_table(found: Sequence[Figures]) -> Table:
    """The published form; under each row the published one of the same data set, where there is one."""
    listed = list(dict.fromkeys(column for each in found for column in each.speedups))
    names = [*(column for column in listed if column != ORACLE), ORACLE]
    if any(each.published for each in found) and _DISCO not in names:
        names.insert(-1, _DISCO)
    columns: list[Column] = [("", "data"), ("", "models"), ("", "prompts"), ("oracle SL", "mean"), ("oracle SL", "SD")]
    columns += [("", "target ms/token"), *(("speedup", name) for name in names)]
    rows: list[tuple[str, ...]] = []
    for each in found:
        ours = [estimate_cell(each.mean), estimate_cell(each.sd), _ms(each.target_ms)]
        speedups = [estimate_cell(each.speedups.get(name)) for name in names]
        rows.append((each.name, f"{each.target} + {each.draft}", f"{each.prompts}", *ours, *speedups))
        if (known := each.published) is not None:
            theirs = [f"{known.mean:.1f}", f"{known.sd:.1f}", _ms(known.target_ms)]
            others = [f"{known.speedups[name]:.2f}" if name in known.speedups else "" for name in names]
            rows.append((f"{known.data} (published)", f"{known.target} + {known.draft}", "", *theirs, *others))
    return Table(
        tuple(columns), tuple(rows), "Speedup of decoding over the target alone [95 %].", tuple(notes(found)), 2
    )


def notes(found: Sequence[Figures]) -> list[str]:
    """What has to be known beside the numbers."""
    tuned = ", ".join(f"{each.tuned} ({each.name})" for each in found)
    sources = dict.fromkeys(each.published.source for each in found if each.published)
    return [
        f"Static tuned: {tuned}, judged on prompts that did not choose it.",
        *(f"Published: {source}, other models on other machines." for source in sources),
        *(f"{each.name}, {column}: {reason}." for each in found for column, reason in each.left_out.items()),
    ]


def oracle_csv(found: Sequence[Figures]) -> str:
    """The same for programs: a line a trace and figure."""
    rows: list[tuple] = []
    for each in found:
        known = each.published
        theirs = {} if known is None else {"mean": known.mean, "sd": known.sd, "target ms/token": known.target_ms}
        theirs |= {} if known is None else known.speedups
        milliseconds = None if each.target_ms is None else Estimate(each.target_ms, float("nan"), float("nan"))
        ours = {"mean": each.mean, "sd": each.sd, "target ms/token": milliseconds, **each.speedups}
        for figure in dict.fromkeys([*ours, *theirs]):
            one = ours.get(figure)
            ends = (None, None, None) if one is None else (one.value, one.low, one.high)
            about = (each.name, each.target, each.draft, each.prompts)
            rows.append((*about, figure, *ends, theirs.get(figure), known and known.source))
    head = ("data", "target", "draft", "prompts", "figure", "value", "low", "high", "published", "source")
    return comma_separated(head, rows)


def _column(policy: str) -> str:
    """The published name of a policy; its text where it has none."""
    return _DISCO if policy.strip().partition(":")[0] == "disco" else policy.strip()


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _model(trace: Trace, role: str) -> str:
    name = str((trace.meta.get(role) or {}).get("model", "?"))
    return "/".join(name.rstrip("/").split("/")[-2:])
