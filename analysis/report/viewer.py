"""The section of the report that shows single prompts: its frame, and the data that the page's script reads."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.markup import Markup, fill
from analysis.report.policies import best_words
from analysis.report.prompt_view import MAX_PROMPTS, share_out, view_prompts
from analysis.study import Study
from oracle.records.trace import Trace


def prompt_data(studies: Sequence[Study]) -> tuple[dict, int]:
    """JSON of the view of single prompts, and how many prompts are in it."""
    table: dict[str, int] = {}
    prompts: list[dict] = []
    chosen = share_out([each.trace.prompts if can_show(each.trace) else 0 for each in studies])
    for number, (each, some) in enumerate(zip(studies, chosen, strict=True)):
        prompts += view_prompts(number, each.trace, each.shown, some, each.source.decode, table)
    named = [_source(each) for each in studies]
    return {"words": list(table), "sources": named, "prompts": prompts}, len(prompts)


def _source(study: Study) -> dict:
    """A trace's name and policies, and which of them is the one to use (``note`` says how it is called)."""
    policies = [result.policy for result in study.shown]
    return {
        "name": study.name,
        "policies": policies,
        "best": policies.index(study.best.policy),
        "note": best_words(study),
    }


def can_show(trace: Trace) -> bool:
    """Whether the trace holds what the view of single prompts shows."""
    return trace.draft_tokens is not None


def viewer(studies: Sequence[Study], shown: int) -> Markup:
    """The frame around the ``shown`` prompts; the script fills it in."""
    total = sum(each.trace.prompts for each in studies)
    chosen = f"{shown:,} of {total:,} prompts, evenly spaced (a page shows at most {MAX_PROMPTS})"
    note = "The page holds these texts: mind who may read them."
    hidden = [each.name for each in studies if not can_show(each.trace)]
    if hidden:
        note += f" Prompts of {', '.join(hidden)} are not shown: these traces hold no draft tokens."
    numbered = [each.name for each in studies if each.source.decode is None]
    if numbered:
        note += f" Tokens of {', '.join(numbered)} are shown by number, because no tokenizer was at hand."
    return fill("viewer.html", which=f"All {total:,} prompts" if shown == total else chosen, note=note)
