"""Options that several commands share, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from analysis.cost import CostModel
    from oracle.models.pairs import Pair
    from oracle.records.runs import Runs
    from oracle.records.trace import Trace

PairName = Annotated[
    str | None, typer.Option("--pair", help="A named pair: demo, pythia, opt, codegen, llama, starcoder, vicuna.")
]
Target = Annotated[str | None, typer.Option("--target", help="Target model: hub name or local directory.")]
Draft = Annotated[str | None, typer.Option("--draft", help="Draft model: hub name or local directory.")]
Dtype = Annotated[str, typer.Option("--dtype", help="auto (the checkpoint's), float32, bfloat16 or float16.")]
Device = Annotated[str | None, typer.Option("--device", help="Where the models run; default: the GPU if there is one.")]
DraftDevice = Annotated[str | None, typer.Option("--draft-device", help="Where the draft runs, if elsewhere.")]
Dataset = Annotated[
    str,
    typer.Option(
        "--dataset",
        help="mbpp, alpaca, humaneval, cnn_dailymail, demo-code, demo-text, or a .jsonl/.json/.parquet file.",
    ),
]
Split = Annotated[
    str | None, typer.Option("--split", help="Split of a hub data set; default: test, or train where there is none.")
]
Limit = Annotated[int | None, typer.Option("--limit", help="Use that many prompts; collect takes all by default.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Draw the prompts at random with this seed; default: the first ones.")
]
Chat = Annotated[bool, typer.Option("--chat", help="Apply the tokenizer's chat template (instruct models).")]
Progress = Annotated[bool, typer.Option("--progress/--no-progress", help="Show a progress bar on a terminal.")]
Traces = Annotated[
    list[Path] | None, typer.Argument(metavar="[TRACE]...", help="Trace folders; default: the sample trace.")
]
OneTrace = Annotated[Path | None, typer.Argument(metavar="[TRACE]", help="A trace folder; default: the sample trace.")]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", help="name or name:key=value,...; give it several times.", show_default=False),
]
DraftCost = Annotated[
    float | None, typer.Option("--draft-cost", help="Time of a draft step over time of a target step; default 0.1.")
]
CostFile = Annotated[Path | None, typer.Option("--cost", help="A cost model that `oracle calibrate` measured.")]
NewTokens = Annotated[int, typer.Option("--max-new-tokens", help="Length limit of each text.")]
Overrun = Annotated[int, typer.Option("--max-overrun", help="Draft tokens to record after each disagreement.")]
Repeats = Annotated[int, typer.Option("--repeats", help="How often each call is made.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", help="Processor threads; default: torch's, often one a core. Small models run best on one."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on after what an interrupted run has finished.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Datasets = Annotated[
    list[str] | None, typer.Option("--dataset", help="As for collect; several may be given.", show_default=False)
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", help="Its folder, or a model in the cache of Hugging Face; default: the trace's target."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def note(text: str) -> None:
    """A remark for people; on stderr, so that stdout holds only the answer."""
    typer.echo(text, err=True)


def load_pair(
    name: str | None,
    target: str | None,
    draft: str | None,
    dtype: str,
    device: str | None,
    draft_device: str | None,
    threads: int | None = None,
) -> Pair:
    """The pair that the options name (the embedded one where they name none), on that many processor threads."""
    from oracle.models.decoding import switched_off
    from oracle.models.pairs import load_pair as load

    if name is None and target is None and draft is None:
        name = "demo"
    if name == "demo":
        note("Using the embedded pair: a toy that shows the mechanics, not anyone's speedup.")
    if threads is not None:
        import torch

        if threads < 1:
            raise ValueError(f"--threads is {threads}; it must be at least 1")
        torch.set_num_threads(threads)
    found = load(name, target=target, draft=draft, dtype=dtype, device=device, draft_device=draft_device)
    for role, model in (("target", found.target), ("draft", found.draft)):
        if left_out := switched_off(model):
            settings = ", ".join(f"{key}={value}" for key, value in left_out.items())
            note(f"Note: decoding is greedy; the {role}'s own generation settings are switched off: {settings}.")
    return found


def load_trace(path: Path | None) -> Trace:
    """The trace at ``path``; without one, the sample that comes with the toolkit."""
    from oracle.records.trace import Trace
    from oracle.shipped import data_path

    if path is not None:
        return Trace.load(path)
    trace = Trace.load(data_path("sample"))
    note(f"No trace given: using the shipped sample ({describe(trace)}).")
    return trace


def load_traces(paths: list[Path] | None) -> dict[str, Trace]:
    """Traces by the name of their data set, or by folder where two have the same; the sample where none is given."""
    traces = [load_trace(path) for path in paths or [None]]
    names = [trace.dataset for trace in traces]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths or ()]
    if len(set(names)) < len(names):
        raise ValueError(f"the same trace is given twice: {', '.join(names)}")
    return dict(zip(names, traces, strict=True))


def load_runs(path: Path) -> Runs:
    from oracle.records.runs import Runs

    return Runs.load(path)


def describe(trace: Trace) -> str:
    """One line: which models, which data, how much."""
    models = (str(trace.meta.get(role, {}).get("model", "?")).rstrip("/") for role in ("target", "draft"))
    names = " + ".join("/".join(model.split("/")[-2:]) for model in models)
    return f"{names}; {trace.dataset}; {trace.prompts} prompts, {trace.tokens:,} tokens"


def decoder(trace: Trace, tokenizer: str | None) -> Callable[[list[int]], list[str]] | None:
    """Token ids to one string each, by the tokenizer named, or the one of the trace's target; None where it cannot be had."""
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


def load_cost(draft_cost: float | None, file: Path | None) -> CostModel:
    """The cost model that the options name; without any, a draft step of a tenth of a target step, and a note."""
    from analysis.cost import DEFAULT_DRAFT, CostModel

    if draft_cost is not None and file is not None:
        raise ValueError("--draft-cost and --cost exclude each other: give one of them")
    if file is not None:
        return CostModel.load(file)
    if draft_cost is None:
        note(
            f"Assuming a draft step of {DEFAULT_DRAFT} target steps (--draft-cost, or --cost from `oracle calibrate`)."
        )
    return CostModel(draft=DEFAULT_DRAFT if draft_cost is None else draft_cost)
