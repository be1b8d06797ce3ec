"""The section of the report that shows single prompts: its frame, and the data that the page's script reads."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.examine import Examined
from analysis.report.markup import Markup, fill
from analysis.report.policies import best_words
from analysis.report.prompt_view import MAX_PROMPTS, share_out, view_prompts
from oracle.records.trace import Trace


def prompt_data(subjects: Sequence[Examined]) -> tuple[dict, int]:
    """JSON of the view of single prompts, and how many prompts are in it."""
    table: dict[str, int] = {}
    prompts: list[dict] = []
    chosen = share_out([each.trace.prompts if can_show(each.trace) else 0 for each in subjects])
    for number, (each, some) in enumerate(zip(subjects, chosen, strict=True)):
        prompts += view_prompts(number, each.trace, each.shown, some, each.source.decode, table)
    named = [_source(each) for each in subjects]
    return {"words": list(table), "sources": named, "prompts": prompts}, len(prompts)


def _source(subject: Examined) -> dict:
    """A trace's name and policies, and which of them is the one to use (``note`` says how it is called)."""
    policies = [result.policy for result in subject.shown]
    return {
        "name": subject.name,
        "policies": policies,
        "best": policies.index(subject.best.policy),
        "note": best_words(subject),
    }


def can_show(trace: Trace) -> bool:
    """Whether the trace holds what the view of single prompts shows."""
    return trace.draft_tokens is not None


def viewer(subjects: Sequence[Examined], shown: int) -> Markup:
    """The frame around the ``shown`` prompts; the script fills it in."""
    total = sum(each.trace.prompts for each in subjects)
    chosen = f"{shown:,} of {total:,} prompts, evenly spaced (a page shows at most {MAX_PROMPTS})"
    note = "The page holds these texts: mind who may read them."
    hidden = [each.name for each in subjects if not can_show(each.trace)]
    if hidden:
        note += f" Prompts of {', '.join(hidden)} are not shown: these traces hold no draft tokens."
    numbered = [each.name for each in subjects if each.source.decode is None]
    if numbered:
        note += f" Tokens of {', '.join(numbered)} are shown by number, because no tokenizer was at hand."
    return fill("viewer.html", which=f"All {total:,} prompts" if shown == total else chosen, note=note)
