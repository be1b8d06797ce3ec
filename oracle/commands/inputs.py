"""What the words of a command name: traces, and the text of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.commands.notes import note

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from analysis.cost import CostModel
    from oracle.records.runs import Runs
    from oracle.records.trace import Trace

_ON_DISK = {"local_files_only": True}  # what collecting used is on this machine; a picture is no reason to fetch it


def load_trace(path: Path | None) -> Trace:
    """The trace at ``path``; without one, the sample that comes with the toolkit."""
    from oracle.records.trace import Trace
    from oracle.shipped import data_path

    trace = Trace.load(data_path("sample") if path is None else path)
    if path is None:
        note(f"No trace given: using the shipped sample ({describe(trace)}).")
    say_unfinished(path, trace)
    if trace.censored.all():
        note(
            f"Note: {trace.dataset}: the end of its text cuts every oracle iteration short, so nothing is known of how "
            "long they would be; collect longer texts (--max-new-tokens)."
        )
    return trace


def load_runs(path: Path) -> Runs:
    """The measured runs at ``path``."""
    from oracle.records.runs import Runs

    runs = Runs.load(path)
    say_unfinished(path, runs)
    return runs


def say_unfinished(path: Path | None, found: Trace | Runs) -> None:
    """Say of a run that has not ended how much of it is there."""
    if found.unfinished:
        note(f"Note: {path}: {found.unfinished}.")


def check_together(trace: Trace, runs: Runs | None = None, cost: CostModel | None = None) -> None:
    """Refuse what is known not to belong together (ValueError), and say what is not known."""
    from analysis.belonging import together

    say_notes(together(trace, [] if runs is None else [runs], cost).expect().notes)


def say_notes(notes: Sequence[str]) -> None:
    """Remarks on whether things belong together."""
    for each in notes:
        note(f"Note: {each}.")


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
    """Token ids to one string each, by the tokenizer named, or that of the trace's target in the hub's cache.

    None where neither is to be had.  A trace comes from anywhere, so a path in it is never opened.
    """
    found = _named_tokenizer(tokenizer) if tokenizer else _target_tokenizer(trace)
    if found is None:
        return None

    def text(token: int) -> str:
        alone = str(found.decode([token]))
        # SentencePiece drops the space before a word when the word stands alone.
        spaced = str(found.convert_ids_to_tokens(token)).startswith("▁") and not alone.startswith(" ")
        return " " + alone if spaced else alone

    return lambda ids: [text(token) for token in ids]


def _named_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer in the folder of that name or of the cached model of that name."""
    from oracle.models.loading import cached_folder, load_tokenizer

    folder = name if Path(name).expanduser().is_dir() else cached_folder(name)
    found = load_tokenizer(folder, _ON_DISK) if folder else None
    if found is None:
        raise ValueError(f"--tokenizer {name!r}: no tokenizer in that folder or in the cache of models")
    return found


def _target_tokenizer(trace: Trace) -> PreTrainedTokenizerBase | None:
    """The tokenizer of the trace's target from the hub's cache or this package; None, with a note, if in neither."""
    from oracle.models.loading import cached_folder, load_tokenizer
    from oracle.models.pairs import SHIPPED
    from oracle.shipped import data_path

    shipped = SHIPPED.get(str(trace.meta.get("pair")).partition(" + ")[0])
    name = str((trace.meta.get("target") or {}).get("model"))
    folder = str(data_path(shipped) / "target") if shipped else cached_folder(name)
    try:
        if folder:
            return load_tokenizer(folder, _ON_DISK)
        problem = f"no tokenizer of {name!r} is in the cache of models"
    except ValueError as error:
        problem = str(error)
    note(f"Token numbers instead of text: {problem} (--tokenizer FOLDER names one).")
    return None
