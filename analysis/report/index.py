"""The page of a study: its table, and a link to the page of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.report.markup import Markup, join, page, section, table, tag
from analysis.tables.speedups import Row, notes, speedup_table
from oracle.records.whole import write_whole


def write_index(out: Path, title: str, rows: Sequence[Row], links: Mapping[str, str]) -> Path:
    """Write the page to ``out``; ``links`` are pages by the names of rows, seen from its folder; its path."""
    text = render(title, rows, links)
    write_whole(out, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return out


def render(title: str, rows: Sequence[Row], links: Mapping[str, str]) -> str:
    """The page's HTML."""
    found = speedup_table(rows, title)
    head = [f"{group}: {name}" if group else name for group, name in found.columns]
    shown = table(head, found.rows, caption=found.caption, text_columns=range(1, found.text))
    remarks = [tag("li", note) for note in notes(rows)]
    bodies = [
        ("table", "Speedups", join([shown, tag("ul", join(remarks))])),
        ("cells", "Cell by cell", tag("ul", join(_cell(row, links.get(row.name)) for row in rows))),
    ]
    return page(
        title=title,
        subtitle=f"{len(rows)} {'cell' if len(rows) == 1 else 'cells'}: a pair of models on a task each.",
        sections=[(name, heading, section(name, heading, body)) for name, heading, body in bodies],
        footer="Made by oracle-lookahead from the records beside this page; the same table in table.md, table.tex and "
        "table.csv.",
        view={"prompts": []},
    )


def _cell(row: Row, link: str | None) -> Markup:
    name = row.name if link is None else tag("a", row.name, href=link)
    return tag("li", name, "" if row.problem is None else f": {row.problem}")
