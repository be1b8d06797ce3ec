"""The section that says what the traces hold."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.examine import Examined
from analysis.report.markup import Markup, join, table, tag
from analysis.report.traces import model_name, short_revision
from oracle.records.trace import Trace


def collected(subjects: Sequence[Examined]) -> Markup:
    """Facts of every trace side by side, and what was skipped."""
    facts = [_facts(subject) for subject in subjects]
    names = list(dict.fromkeys(name for known in facts for name in known))
    rows = [(name, *(known.get(name, "–") for known in facts)) for name in names]
    head = ("", *(subject.name for subject in subjects))
    columns = range(1, len(subjects) + 1)
    skipped = join(filter(None, map(_skipped, subjects)))
    return join([table(head, rows, caption="What the traces hold", text_columns=columns), skipped])


def _facts(subject: Examined) -> dict[str, str]:
    trace, meta = subject.trace, subject.trace.meta
    prompts = meta.get("prompts") or {}
    origin = {
        "split": prompts.get("split"),
        "revision": short_revision(prompts.get("revision")),
        "file": prompts.get("file"),
        "seed": prompts.get("seed"),
    }
    ended = int((trace.finish == "eos").sum())
    facts = {
        "Target": model_name(meta.get("target")),
        "Draft": model_name(meta.get("draft")),
        "Data set": ", ".join(
            [trace.dataset, *(f"{key} {value}" for key, value in origin.items() if value is not None)]
        ),
        "Not recorded": ", ".join(trace.lacks),
        "Prompts": f"{trace.prompts:,}",
        "Skipped prompts": f"{len(meta.get('skipped') or ()):,}",
        "Tokens of the target": f"{trace.tokens:,}",
        "Texts that the target ended": f"{ended:,} of {trace.prompts:,}; the others met the length limit",
        "Texts that repeat themselves to the end": f"{len(subject.description.loops):,}",
        "Decoding": ", ".join(str(part) for part in _decoding(meta) if part),
        "Limits": f"{int(trace.max_new_tokens.max()):,} new tokens; {_extent(trace)}",
        "Number format, device": ", ".join(str(meta[key]) for key in ("dtype", "device") if meta.get(key)),
        "Versions": ", ".join(f"{name} {version}" for name, version in (meta.get("versions") or {}).items()),
        "Collected": str(meta.get("created") or ""),
    }
    return {name: value for name, value in facts.items() if value}


def _extent(trace: Trace) -> str:
    """How far the draft's own text was recorded."""
    if trace.rounds is not None:
        return f"{trace.rounds.limit:,} tokens of a round recorded"
    return f"{trace.max_overrun:,} tokens of overrun recorded"


def _decoding(meta: dict) -> tuple:
    reference = meta.get("reference")
    return (
        meta.get("decoding"),
        reference and f"text of a {reference} run",
        meta.get("chat") and "chat template applied",
    )


def _skipped(subject: Examined) -> Markup | None:
    skipped = subject.trace.meta.get("skipped") or []
    if not skipped:
        return None
    reasons: dict[str, int] = {}
    for entry in skipped:
        reason = str(entry.get("reason", "no reason recorded")) if isinstance(entry, dict) else str(entry)
        reasons[reason] = reasons.get(reason, 0) + 1
    items = [
        tag("li", f"{count:,}: {reason}") for reason, count in sorted(reasons.items(), key=lambda pair: -pair[1])[:10]
    ]
    return join([tag("p", f"Skipped in {subject.name}:"), tag("ul", *items)])
