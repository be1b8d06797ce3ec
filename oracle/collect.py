"""Collecting a trace: which prompts make up which part, going on after an interrupted run, progress, and a summary."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oracle.encode import Encoded, encode
from oracle.pairs import Pair, check_pair, describe
from oracle.trace import Record, Trace, oracle_positions, part_files, read_meta, write_meta, write_part

if TYPE_CHECKING:
    from oracle.prompts import PromptSet

BATCH_SIZE = {"cpu": 16, "cuda": 32}
# What must not change between a run and its resumption: other parts of meta.json may (versions, time of creation).
_BINDING = (
    "target", "draft", "prompts", "prompts_planned", "eos_token_ids", "max_new_tokens", "max_overrun",
    "batch_size", "chat", "decoding", "reference", "dtype",
)  # fmt: skip
_PACKAGES = ("torch", "transformers", "numpy", "pyarrow")


@dataclass(frozen=True)
class Summary:
    """What a trace holds, in a few numbers."""

    prompts: int
    tokens: int
    agreement: float  # share of positions where the draft's choice is the target's token
    accepted_mean: float  # oracle SL over the oracle's iterations, accepted tokens
    accepted_sd: float
    detect_mean: float  # the same, the draft pass that disagrees counted too: accepted + 1
    detect_sd: float
    censored: float  # share of these iterations that the end of a text cut short
    skipped: int
    seconds: float = 0.0  # of this run, reading and writing included; 0 for a loaded trace
    tokens_per_second: float = 0.0  # of this run


def collect(
    pair: Pair,
    prompts: PromptSet | Iterable[str] | Iterable[Sequence[int]],
    out: str | Path,
    *,
    max_new_tokens: int = 128,
    max_overrun: int = 32,
    batch_size: int | None = None,
    chat: bool = False,
    resume: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Summary:
    """Record the oracle of a pair on prompts as a trace in the directory ``out``, one part a batch.

    Raises ValueError for arguments that make no sense and RuntimeError for a run that failed; finished parts stay, and
    ``resume`` goes on after them.
    """
    for name, value, least in (("max_new_tokens", max_new_tokens, 1), ("max_overrun", max_overrun, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
    check_pair(pair)
    started = time.perf_counter()
    batch_size = batch_size or BATCH_SIZE.get(pair.target.device.type, 16)
    encoded, skipped = encode(pair, prompts, max_new_tokens, chat)
    if not encoded:
        raise ValueError(f"no prompt is left to collect: {len(skipped)} skipped, the first because {skipped[0]['reason']}")
    meta = _meta(pair, prompts, encoded, skipped) | {
        "max_new_tokens": max_new_tokens,
        "max_overrun": max_overrun,
        "batch_size": batch_size,
        "chat": chat,
    }
    out = Path(out)
    with _disk_errors(out):
        first = _prepare(out, meta, resume, force)
    new_tokens = _run(pair, encoded, out, meta, first, progress)
    seconds = time.perf_counter() - started
    summary = asdict(summarize(Trace.load(out)))
    return Summary(**summary | {"seconds": seconds, "tokens_per_second": new_tokens / seconds})


def summarize(trace: Trace) -> Summary:
    """The numbers of a trace; standard deviations are of the sample (divided by n)."""
    at = oracle_positions(trace)
    accepted = trace.accepted_run[at]
    return Summary(
        prompts=trace.prompts,
        tokens=trace.tokens,
        agreement=float(trace.agrees.mean()),
        accepted_mean=float(accepted.mean()),
        accepted_sd=float(accepted.std()),
        detect_mean=float(accepted.mean() + 1),
        detect_sd=float(accepted.std()),
        censored=float(trace.censored[at].mean()),
        skipped=len(trace.meta.get("skipped", ())),
    )


def _run(pair: Pair, encoded: Sequence[Encoded], out: Path, meta: dict, first: int, progress: bool) -> int:
    """Collect and write the parts from number ``first`` on; returns the tokens of the target recorded by it."""
    from oracle.decoding import neutral
    from oracle.record import can_share, record_batch

    size = meta["batch_size"]
    tokens = 0
    with neutral(pair), _progress(len(encoded), first * size, progress) as advance:
        shared = can_share(pair.draft, encoded[0].tokens)
        for number in range(first, -(-len(encoded) // size)):
            batch = encoded[number * size : (number + 1) * size]
            records = record_batch(pair, batch, meta["max_overrun"], shared)
            with _disk_errors(out):
                write_part(out, number, records)
            tokens += _tokens(records)
            advance(len(batch), tokens)
    return tokens


def _tokens(records: Sequence[Record]) -> int:
    return sum(len(record.target_tokens) for record in records)


def _meta(pair: Pair, prompts: object, encoded: Sequence[Encoded], skipped: list[dict]) -> dict:
    from oracle.decoding import eos_token_ids

    return {
        "pair": pair.name,
        "target": describe(pair.target) | pair.info.get("target", {}),
        "draft": describe(pair.draft) | pair.info.get("draft", {}),
        "dtype": str(pair.target.dtype).removeprefix("torch."),
        "device": str(pair.target.device),
        "prompts": getattr(prompts, "source", {"dataset": "given in memory"}),
        "prompts_planned": len(encoded),
        "skipped": skipped,
        "eos_token_ids": list(eos_token_ids(pair)),
        "decoding": "greedy",
        "reference": "plain",
        "seed": None,
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _prepare(out: Path, meta: dict, resume: bool, force: bool) -> int:
    """Make ``out`` ready for writing; returns the number of the first part to collect."""
    if resume and force:
        raise ValueError("resume goes on with the trace and force starts it again: give one of them")
    exists = (out / "meta.json").is_file()
    if resume and exists:
        before = read_meta(out)
        for name in _BINDING:
            if before.get(name) != meta[name]:
                raise ValueError(f"{out} was begun with {name} {before.get(name)!r}, not {meta[name]!r}; collect elsewhere")
        return len(part_files(out))
    if exists and not force:
        raise ValueError(f"{out} holds a trace already; resume goes on with it, force starts it again (--resume, --force)")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; a trace is a directory")
    out.mkdir(parents=True, exist_ok=True)
    for part in sorted(out.glob("part-*.parquet"), reverse=True):
        part.unlink()
    write_meta(out, meta)
    return 0


@contextlib.contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuntimeError(f"{out}: cannot write the trace ({error}); finished parts are kept, resume goes on") from error


@contextlib.contextmanager
def _progress(total: int, done: int, wanted: bool):
    """A bar on stderr, where that is a terminal; yields a function of (prompts just finished, tokens so far)."""
    if not wanted or not sys.stderr.isatty():
        yield lambda prompts, tokens: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("collecting"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    started = time.perf_counter()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("collecting", total=total, completed=min(done, total), rate="")

        def advance(prompts: int, tokens: int) -> None:
            rate = tokens / (time.perf_counter() - started)
            bar.update(task, advance=prompts, rate=f"{rate:.0f} tokens/s")

        yield advance
