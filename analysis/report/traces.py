"""A part of the page for each of its traces, and how a trace is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

from analysis.examine import Examined
from analysis.report.markup import Markup, join, tag
from oracle.records.trace import Trace


def per_trace(subjects: Sequence[Examined], build: Callable[[Examined], Markup]) -> Markup:
    """``build`` for every trace, under the trace's name where there are several."""
    if len(subjects) == 1:
        return build(subjects[0])
    return join(join([tag("h3", subject.name), build(subject)]) for subject in subjects)


def prompt_address(subject: Examined, prompt: int) -> str:
    """The address that opens a prompt in the view of single prompts; the page's script reads it (and writes the same).

    Half a surrogate pair, from a damaged file, has no place in an address.
    """
    prompt_id, name = (re.sub("[\ud800-\udfff]", "\ufffd", text) for text in (subject.trace.ids[prompt], subject.name))
    return f"#prompt={quote(prompt_id, safe='')}&trace={quote(name, safe='')}"


def pair_name(trace: Trace) -> str:
    """Names of the two models."""
    return " / ".join(
        model_name(trace.meta.get(role), name_only=True) or f"unnamed {role}" for role in ("target", "draft")
    )


def model_name(described: object, name_only: bool = False) -> str:
    """A model as a trace's meta describes it: its name, and unless ``name_only`` its size and revision."""
    if not isinstance(described, dict):
        return str(described or "")
    name = str(described.get("name") or described.get("model") or "")
    # Where a local folder lies says nothing to the reader of a page.
    if name.startswith(("/", "~")) or "\\" in name:
        name = "/".join(name.replace("\\", "/").rstrip("/").split("/")[-2:])
    if name_only:
        return name
    size = described.get("parameters")
    extra = [_size(size) if size else "", short_revision(described.get("revision")) or ""]
    return ", ".join(filter(None, [name, *extra]))


def _size(parameters: int) -> str:
    return f"{parameters / 1e9:.2f} B parameters" if parameters >= 1e9 else f"{parameters / 1e6:.1f} M parameters"


def short_revision(revision: object) -> str | None:
    """As much of a revision as tells it from others."""
    return str(revision)[:12] if revision else None
