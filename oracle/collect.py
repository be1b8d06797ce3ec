"""Collecting a trace: which prompts make up which part, going on after an interrupted run, progress, and a summary."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.models.checks import check_pair
from oracle.models.identity import describe
from oracle.models.pair import Pair
from oracle.prompts.encode import Encoded, digest, encode
from oracle.records.trace import Trace, oracle_positions, part_files, read_meta, write_meta, write_part

if TYPE_CHECKING:
    from oracle.prompts.sets import PromptSet

BATCH_SIZES = {"cpu": 16}  # by kind of device, where none is asked for
_OTHER_BATCH_SIZE = 32
REFERENCES = ("plain", "assisted")  # how the text comes about: see ``oracle.record``
_PACKAGES = ("torch", "transformers", "numpy", "pyarrow")
# What decides the contents of the parts, so that resuming with anything else would mix two traces.
_BINDING = (
    "target.model",
    "target.revision",
    "target.weights_sample_sha256",
    "draft.model",
    "draft.revision",
    "draft.weights_sample_sha256",
    "dtype",
    "draft.dtype",
    "eos_token_ids",
    "max_new_tokens",
    "max_overrun",
    "batch_size",
    "chat",
    "decoding",
    "reference",
    "prompts_planned",
    "prompts_sha256",  # of the token ids and limits, so it comes last: most of the above change it too
)


@dataclass(frozen=True)
class Summary:
    """What a trace holds, in a few numbers."""

    prompts: int
    tokens: int
    agreement: float  # share of positions where the draft's choice is the target's token
    accepted_mean: float  # oracle SL over the oracle's iterations: tokens accepted
    accepted_sd: float
    detect_mean: float  # the same with the draft pass that disagrees counted too: accepted + 1
    detect_sd: float
    censored: float  # share of these iterations that the end of a text cut short
    skipped: int
    seconds: float = 0.0  # of the run, reading and writing included; 0 for a trace that was there
    tokens_per_second: float = 0.0  # target tokens recorded by the run, over its seconds


def collect(
    pair: Pair,
    prompts: PromptSet | Iterable[str] | Iterable[Sequence[int]],
    out: str | Path,
    *,
    max_new_tokens: int = 128,
    max_overrun: int = 32,
    batch_size: int | None = None,
    chat: bool = False,
    reference: str = "plain",
    resume: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Summary:
    """Record the oracle of a pair on prompts as a trace in the directory ``out``, one part a batch of prompts.

    ``prompts`` are strings, sequences of token ids or what ``load_prompts`` gives; ``chat`` puts texts into the
    tokenizer's chat template.  ``reference`` says whose text it is: "plain" greedy decoding of the target, or that of an
    "assisted" run with a constant lookahead of 5 (in half precision the two may part).  ``resume`` goes on after the finished parts of an earlier run with the same settings, or
    begins; ``force`` replaces a trace that is there.  ``progress`` shows a bar on stderr where that is a terminal.

    Raises ValueError for arguments that make no sense, RuntimeError for a run that failed (finished parts are kept).
    """
    started = time.perf_counter()
    batch_size = BATCH_SIZES.get(pair.target.device.type, _OTHER_BATCH_SIZE) if batch_size is None else batch_size
    settings = {"max_new_tokens": max_new_tokens, "max_overrun": max_overrun, "batch_size": batch_size}
    for name, value in settings.items():
        least = 0 if name == "max_overrun" else 1
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}; it must be a whole number from {least} on")
    if reference not in REFERENCES:
        raise ValueError(f"reference is {reference!r}; legal: {', '.join(REFERENCES)}")
    check_pair(pair)
    encoded, skipped = encode(pair, prompts, max_new_tokens, chat)
    if not encoded:
        first = f" ({len(skipped)} left out, the first one for: {skipped[0]['reason']})" if skipped else ""
        raise ValueError(f"there is no prompt to collect{first}")
    source = getattr(prompts, "source", {"dataset": "given in memory"})
    meta = (
        settings | {"chat": chat, "reference": reference, "prompts": source, "skipped": skipped} | _facts(pair, encoded)
    )
    out = Path(out)
    with _disk_errors(out):
        done = _open(out, meta, resume, force)
    tokens = _run(pair, encoded, out, done, meta, progress)
    summary = asdict(summarize(Trace.load(out)))
    seconds = time.perf_counter() - started
    return Summary(**summary | {"seconds": seconds, "tokens_per_second": tokens / seconds})


def summarize(trace: Trace) -> Summary:
    """The numbers of a trace; standard deviations are divided by n."""
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


def _run(pair: Pair, encoded: Sequence[Encoded], out: Path, done: int, meta: dict, progress: bool) -> int:
    """Collect and write the parts after the ``done`` first ones; returns the target's tokens in them."""
    from oracle.models.decoding import neutral
    from oracle.record import record_batch, way

    size = meta["batch_size"]
    starts = range(done * size, len(encoded), size)
    tokens = 0
    with neutral(pair), _bar(len(encoded), done * size, progress and len(starts) > 0) as advance:
        longest = max(len(item.tokens) + item.max_new_tokens for item in encoded)
        how = way(pair, longest) if len(starts) else None
        for start in starts:
            batch = encoded[start : start + size]
            with _memory_errors(size):
                records = record_batch(pair, batch, meta["max_overrun"], how, meta["reference"])
            with _disk_errors(out):
                write_part(out, start // size, records)
            tokens += sum(len(record.target_tokens) for record in records)
            advance(len(batch), tokens)
    return tokens


def _facts(pair: Pair, encoded: Sequence[Encoded]) -> dict[str, Any]:
    from oracle.models.configs import eos_token_ids

    return {
        "pair": pair.name,
        **pair.info,
        "target": describe(pair.target),
        "draft": describe(pair.draft),
        "dtype": str(pair.target.dtype).removeprefix("torch."),
        "device": str(pair.target.device),
        "prompts_planned": len(encoded),
        "prompts_sha256": digest(encoded),
        "eos_token_ids": list(eos_token_ids(pair)),
        "decoding": "greedy",
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _open(out: Path, meta: dict, resume: bool, force: bool) -> int:
    """Make ``out`` ready for writing; returns the number of parts that are finished already."""
    if resume and force:
        raise ValueError("resume goes on with a trace and force replaces it; give one of them")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; a trace is a directory")
    parts = sorted(out.glob("part-*.parquet"))
    described = (out / "meta.json").is_file()
    if resume and described:
        _expect_same(out, read_meta(out), meta)
        return len(part_files(out))
    if (described or parts) and not force:
        advice = "force replaces it" + (", resume goes on with it" if described else "")
        raise ValueError(f"{out} holds a trace already; {advice}, or choose another directory")
    out.mkdir(parents=True, exist_ok=True)
    for part in reversed(parts):  # so that whoever is interrupted here leaves a whole, shorter trace
        part.unlink()
    write_meta(out, meta)
    return 0


def _expect_same(out: Path, before: dict, now: dict) -> None:
    for name in _BINDING:
        old, new = _value(before, name), _value(now, name)
        if old != new:
            raise ValueError(
                f"{out} was collected with {name} {old!r}, this run has {new!r}; "
                "use the same settings to go on with it, force to replace it, or another directory"
            )


def _value(meta: dict, name: str) -> Any:
    """The value at a dotted name, None where there is none."""
    found: Any = meta
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


@contextlib.contextmanager
def _disk_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = error.strerror or error
        raise RuntimeError(f"{out}: cannot be written ({problem}); finished parts are kept, resume goes on") from error


@contextlib.contextmanager
def _memory_errors(batch_size: int) -> Iterator[None]:
    from torch import OutOfMemoryError

    try:
        yield
    except OutOfMemoryError as error:
        raise RuntimeError(
            f"{batch_size} prompts at once do not fit into the device's memory; start again with a smaller batch_size "
            "(it decides what a part is, so this trace cannot be resumed with it)"
        ) from error


@contextlib.contextmanager
def _bar(total: int, done: int, wanted: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr if that is a terminal; yields a function of (prompts just finished, tokens so far)."""
    if not wanted or not sys.stderr.isatty():
        yield lambda prompts, tokens: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("collecting"), BarColumn(), MofNCompleteColumn(), TextColumn("prompts  {task.fields[rate]}"))
    started = time.perf_counter()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done, rate="")

        def advance(prompts: int, tokens: int) -> None:
            rate = tokens / (time.perf_counter() - started)
            bar.update(task, advance=prompts, rate=f"{rate:.0f} tokens/s")

        yield advance
