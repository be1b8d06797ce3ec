"""What the words of a command name: traces, and the text of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.commands.notes import note

if TYPE_CHECKING:
    from oracle.records.trace import Trace


def load_trace(path: Path | None) -> Trace:
    """The trace at ``path``; without one, the sample that comes with the toolkit."""
    from oracle.records.trace import Trace
    from oracle.shipped import data_path

    trace = Trace.load(data_path("sample") if path is None else path)
    if path is None:
        note(f"No trace given: using the shipped sample ({describe(trace)}).")
    if trace.censored.all():
        note(
            f"Note: {trace.dataset}: the end of its text cuts every oracle iteration short, so nothing is known of how "
            "long they would be; collect longer texts (--max-new-tokens)."
        )
    return trace


def load_traces(paths: Sequence[Path] | None) -> dict[str, Trace]:
    """Traces by the name of their data set, or by folder where two have the same; the sample where none is given."""
    traces = [load_trace(path) for path in paths or [None]]
    names = [trace.dataset for trace in traces]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths or ()]
    if len(set(names)) < len(names):
        raise ValueError(f"the same trace is given twice: {', '.join(names)}")
    return dict(zip(names, traces, strict=True))


def describe(trace: Trace) -> str:
    """One line: which models, which data, how much."""
    models = (str((trace.meta.get(role) or {}).get("model", "?")).rstrip("/") for role in ("target", "draft"))
    names = " + ".join("/".join(model.split("/")[-2:]) for model in models)
    return f"{names}; {trace.dataset}; {trace.prompts} prompts, {trace.tokens:,} tokens"


def decoder(trace: Trace, tokenizer: str | None) -> Callable[[list[int]], list[str]] | None:
    """Token ids to one string each, by the tokenizer named, or that of the trace's target; None where there is none."""
    from transformers import AutoTokenizer

    source = tokenizer or trace.meta.get("target", {}).get("model")
    try:
        # What collecting used is on this machine; a picture is no reason to go to the network.
        found = AutoTokenizer.from_pretrained(str(source), local_files_only=True)
    except (OSError, ValueError):
        if tokenizer:
            raise ValueError(
                f"--tokenizer {tokenizer!r}: no tokenizer in that folder or in the cache of models"
            ) from None
        note(
            f"The tokenizer of {source} is not on this machine: token numbers instead of text (--tokenizer names one)."
        )
        return None

    def text(token: int) -> str:
        alone = found.decode([token])
        # SentencePiece drops the space before a word when the word stands alone.
        spaced = str(found.convert_ids_to_tokens(token)).startswith("▁") and not alone.startswith(" ")
        return " " + alone if spaced else alone

    return lambda ids: [text(token) for token in ids]
