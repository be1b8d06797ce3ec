"""The published form of a benchmark: a row a pair and task, a group of columns a policy, published numbers beside ours.

Every speedup is of whole calls over plain decoding with the target, the reading of the prompt included on both sides,
as those that were published; its interval is a 95 % one over prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.intervals import Estimate
from analysis.replay.result import Totals
from analysis.tables.formats import Table, comma_separated, estimate_cell, number_cell
from analysis.verdict import NO_DRAFT

GIVEN, CONSTANT, TUNED = "", "tuned constant", "tuned policy"  # why a policy is in the table
_KINDS = ("published", "measured", "simulated")


@dataclass(frozen=True)
class Line:
    """One policy of a row; what is not known is None."""

    policy: str
    role: str  # GIVEN; CONSTANT and TUNED were chosen on the trace, and are judged on prompts that did not choose them
    published: float | None = None
    measured: Estimate | None = None
    simulated: Estimate | None = None


@dataclass(frozen=True)
class Row:
    """One pair on one task."""

    name: str
    target: str
    draft: str
    task: str
    recorded: int = 0  # prompts behind what is simulated
    clocked: int = 0  # prompts behind what is measured
    lines: tuple[Line, ...] = ()
    source: str | None = None  # of what was published
    problem: str | None = None  # why there is nothing, or not everything

    def of_role(self, role: str) -> Line | None:
        """The tuned one of that role."""
        return next((each for each in self.lines if each.role == role), None)


def with_prompts(totals: Totals) -> Callable[[float], float]:
    """From a speedup of decoding to that of whole calls, where reading the prompts takes what ``totals`` says.

    Rising, so that it maps the ends of an interval too.  What reading takes counts as known exactly.
    """
    plain = float(totals.plain_seconds.sum())
    both, alone = (float(each) for each in totals.prefill_seconds.sum(axis=0))
    return lambda speedup: (plain + alone) / (plain / speedup + both) if speedup else 0.0


def simulated(totals: Totals) -> Estimate:
    """The speedup of whole calls that a replay predicts.  Without a draft nothing but the target reads the prompt."""
    found = totals.speedup_estimate()
    return found if totals.policy == NO_DRAFT else found.map(with_prompts(totals))


def speedup_table(rows: Sequence[Row], title: str = "") -> Table:
    """The published form: target, draft, task, prompts; published, measured, simulated for each policy; what is tuned.

    A column that no row has anything for is left out.
    """
    policies = list(dict.fromkeys(line.policy for row in rows for line in row.lines if line.role == GIVEN))
    columns = [("", "target"), ("", "draft"), ("", "task"), ("", "prompts")]
    columns += [(policy, kind) for policy in policies for kind in _KINDS]
    columns += [(role, what) for role in (CONSTANT, TUNED) for what in ("policy", "simulated")]
    cells = [(row.target, row.draft, row.task, prompts_text(row), *_given(row, policies), *_tuned(row)) for row in rows]
    kept = [at for at in range(len(columns)) if at < 4 or any(row[at] for row in cells)]
    return Table(
        tuple(columns[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in cells),
        caption=". ".join(filter(None, [title.rstrip("."), "Speedup over plain decoding with the target [95 %]."])),
        notes=tuple(notes(rows)),
        text=3,
    )


def notes(rows: Sequence[Row]) -> list[str]:
    """What has to be known beside the numbers: sources, how the tuned ones are judged, what failed."""
    found = [f"Published: {source}." for source in dict.fromkeys(row.source for row in rows if row.source)]
    if any(row.lines for row in rows):
        found.append(
            "Measured: whole calls of the real generator. Simulated: the trace, replayed at the prices of this machine;"
            " what is tuned is judged on prompts that did not choose it."
        )
    return [*found, *(f"{row.name}: {row.problem}" for row in rows if row.problem)]


def speedup_csv(rows: Sequence[Row]) -> str:
    """The same for programs: a line a row and policy."""
    head = ["cell", "target", "draft", "task", "role", "policy", "published", "source"]
    ends = [f"{kind}{end}" for kind in ("measured", "simulated") for end in ("", "_low", "_high", "_prompts")]
    listed: list[list[object]] = []
    for row in rows:
        about = [row.name, row.target, row.draft, row.task]
        for line in row.lines:
            figures = [*_three(line.measured, row.clocked), *_three(line.simulated, row.recorded)]
            source = row.source if line.published is not None else None
            listed.append([*about, line.role, line.policy, line.published, source, *figures, row.problem])
        if not row.lines:
            listed.append([*about, *[None] * (4 + len(ends)), row.problem])
    return comma_separated([*head, *ends, "problem"], listed)


def prompts_text(row: Row) -> str:
    """How many prompts stand behind the numbers."""
    if not row.recorded:
        return ""
    return f"{row.recorded}" if row.clocked == row.recorded else f"{row.recorded}, {row.clocked} of them clocked"


def _given(row: Row, policies: Sequence[str]) -> list[str]:
    of = {line.policy: line for line in row.lines if line.role == GIVEN}
    found: list[str] = []
    for policy in policies:
        line = of.get(policy)
        found += [""] * 3 if line is None else [
            number_cell(line.published), estimate_cell(line.measured), estimate_cell(line.simulated)
        ]  # fmt: skip
    return found


def _tuned(row: Row) -> list[str]:
    lines = [row.of_role(role) for role in (CONSTANT, TUNED)]
    return [
        text for line in lines for text in (("", "") if line is None else (line.policy, estimate_cell(line.simulated)))
    ]


def _three(value: Estimate | None, prompts: int) -> list[object]:
    return [None] * 4 if value is None else [value.value, value.low, value.high, prompts]
