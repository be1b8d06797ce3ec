"""Collecting a trace: which prompts make up which part, going on after an interrupted run, progress, and a summary."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.drafts.kinds import PromptLookup
from oracle.models.checks import check_pair, expect_pair
from oracle.models.identity import describe
from oracle.models.pair import Pair
from oracle.progress import bar
from oracle.prompts.chat import Chat
from oracle.prompts.encode import Encoded, digest, encode, longest_text
from oracle.prompts.facts import PromptFacts, expect_some, form_meta, look, of_texts, settled_chat, warn_of
from oracle.records.spread import standard_deviation
from oracle.records.trace import FOLDER, Trace, to_table
from oracle.records.typed import whole
from oracle.records.writing import Writing, writing

if TYPE_CHECKING:
    from oracle.prompts.sets import PromptSet

BATCH_SIZES = {"cpu": 16}  # by kind of device, where none is asked for
_OTHER_BATCH_SIZE = 32
REFERENCES = ("plain", "assisted")  # how the text comes about: see ``oracle.record``
_PACKAGES = ("torch", "transformers", "numpy", "pyarrow")
# What decides the contents of the parts, so that resuming with anything else would mix two traces.  The size of a batch
# does: float32 rounds by what is computed together, in the last digits of the signals and at near-ties of the choice.
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
    "decoder_start_token_id",
    "max_new_tokens",
    "max_overrun",
    "top_k",
    "batch_size",
    "chat",
    "system",
    "template_args",
    "template_date",
    "decoding",
    "reference",
    "prompts_planned",
    "prompts_sha256",  # of the token ids and limits, so it comes last: most of the above change it too
)


@dataclass(frozen=True)
class Collected:
    """What a trace holds, in a few numbers."""

    prompts: int
    tokens: int
    agreement: float  # share of positions where the first token drafted is the target's
    accepted_mean: float  # oracle SL over the oracle's iterations: tokens accepted
    accepted_sd: float  # n - 1 in the denominator; NaN for one iteration
    detect_mean: float  # the same with the draft pass that disagrees counted too: accepted + 1
    detect_sd: float
    censored: float  # share of these iterations that the end of a text cut short
    skipped: int
    seconds: float = 0.0  # of the run, reading and writing included; 0 for a trace that was there
    tokens_per_second: float = 0.0  # target tokens recorded by the run, over its seconds
    facts: PromptFacts | None = None  # what the models read; None for a trace that was there


def collect(
    pair: Pair,
    prompts: PromptSet | Iterable[str] | Iterable[Sequence[int]],
    out: str | Path,
    *,
    max_new_tokens: int = 128,
    max_overrun: int = 32,
    top_k: int = 0,
    batch_size: int | None = None,
    chat: bool | Chat = False,
    reference: str = "plain",
    resume: bool = False,
    force: bool = False,
    progress: bool = False,
) -> Collected:
    """Record the oracle of a pair on prompts as a trace in the directory ``out``, one part a batch of prompts.

    ``prompts`` are strings, sequences of token ids or what ``load_prompts`` gives; ``chat`` puts texts into the
    tokenizer's chat template (``oracle.Chat`` says how: system message, the template's arguments, its date).  What the
    models then read is looked at: the ``facts`` of what is returned say it, and a warning each what is odd about it.
    ``reference`` says whose text it is: "plain" greedy decoding of the target, or that of an "assisted" run with a
    constant lookahead of 5 (in half precision the two may part).  ``resume`` goes on after the finished parts of an
    earlier run with the same settings, whose date its prompts keep, or begins; ``force`` replaces a trace that is
    there.  ``top_k`` records that many of the draft's largest probabilities at each token too, for what is trained on
    them.  ``progress`` shows a bar on stderr where that is a terminal.

    Raises ValueError for arguments that make no sense, RuntimeError for a run that failed (finished parts are kept).
    """
    expect_pair(pair)
    started = time.perf_counter()
    batch_size = BATCH_SIZES.get(pair.target.device.type, _OTHER_BATCH_SIZE) if batch_size is None else batch_size
    settings = {
        "max_new_tokens": whole("max_new_tokens", max_new_tokens),
        "max_overrun": whole("max_overrun", max_overrun, 0),
        "batch_size": whole("batch_size", batch_size),
    }
    if top_k := whole("top_k", top_k, 0):
        settings["top_k"] = top_k
    max_new_tokens = settings["max_new_tokens"]
    if reference not in REFERENCES:
        raise ValueError(f"reference is {reference!r}; legal: {', '.join(REFERENCES)}")
    check_pair(pair)
    settings |= _rounds(pair, settings)
    template = settled_chat(chat, FOLDER, out, resume=resume)
    encoded, skipped = encode(pair, prompts, max_new_tokens, template or False)
    source = getattr(prompts, "source", {"dataset": "given in memory"})
    expect_some(encoded, skipped, source, "to collect")
    facts = look(pair, encoded, skipped, source, template)
    warn_of(facts)
    said = {"reference": reference, "prompts": source, "skipped": skipped}
    meta = settings | said | form_meta(template, facts) | _facts(pair, encoded)
    with writing(FOLDER, out, meta, _binding, resume=resume, force=force) as folder:
        tokens = _run(pair, encoded, folder, progress)
        trace = Trace.load(out)
    seconds = time.perf_counter() - started
    facts = of_texts(facts, trace, pair.contradicting)
    warn_of(facts, ("ended",))
    return replace(summarize(trace), seconds=seconds, tokens_per_second=tokens / seconds, facts=facts)


def summarize(trace: Trace) -> Collected:
    """The numbers of a trace."""
    found = trace.outcomes
    accepted = found.accepted[found.starts]
    spread = standard_deviation(accepted)
    return Collected(
        prompts=trace.prompts,
        tokens=trace.tokens,
        agreement=float((found.run > 0).mean()),
        accepted_mean=float(accepted.mean()),
        accepted_sd=spread,
        detect_mean=float(accepted.mean() + 1),
        detect_sd=spread,
        censored=float(found.censored[found.starts].mean()),
        skipped=len(trace.meta.get("skipped", ())),
    )


def _rounds(pair: Pair, settings: dict[str, Any]) -> dict[str, Any]:
    """What the meta says of the rounds of a lookup.  Raises ValueError for a draft that cannot be recorded."""
    if reason := pair.drafting.unrecordable():
        raise ValueError(f"the draft ({pair.drafting.name(pair)}) cannot be recorded: {reason}")
    if not isinstance(pair.drafting, PromptLookup):
        return {}
    if "top_k" in settings:
        raise ValueError(f"top_k={settings['top_k']}: {pair.drafting} gives no probabilities; leave top_k out")
    del settings["max_overrun"]
    return {"draft_kind": "round", "round_limit": pair.drafting.tokens, "round_ends": True, "round_clipped": False}


def _run(pair: Pair, encoded: Sequence[Encoded], folder: Writing, progress: bool) -> int:
    """Collect and write what is missing, one part a batch; returns the target's tokens in it."""
    from oracle.models.decoding import neutral
    from oracle.record import record_batch, way

    meta = folder.meta
    batches = _missing(encoded, meta["batch_size"], folder.units)
    left = sum(map(len, batches))
    started, tokens = time.perf_counter(), 0
    with (
        neutral(pair),
        bar("collecting", "prompts", len(encoded), len(encoded) - left, progress and left > 0) as advance,
    ):
        if not left:
            return 0
        how = way(pair, longest_text(pair, encoded))
        FOLDER.write_meta(folder.path, meta | {"reading": how.facts()})
        for batch in batches:
            with _memory_errors(meta["batch_size"]):
                records = record_batch(
                    pair, batch, meta.get("max_overrun", 0), how, meta["reference"], meta.get("top_k", 0)
                )
            folder.add(batch[0].index, to_table(records))
            tokens += sum(len(record.target_tokens) for record in records)
            advance(len(batch), f"{tokens / (time.perf_counter() - started):.0f} tokens/s")
    return tokens


def _missing(encoded: Sequence[Encoded], size: int, done: set[str | int]) -> list[list[Encoded]]:
    """Batches of the prompts that are not there yet.

    Cut as in an undisturbed run, whichever are there, so that each prompt meets the neighbours that it would have met.
    """
    batches = (encoded[start : start + size] for start in range(0, len(encoded), size))
    left = ([item for item in batch if item.id not in done] for batch in batches)
    return [batch for batch in left if batch]


def _facts(pair: Pair, encoded: Sequence[Encoded]) -> dict[str, Any]:
    from oracle.models.checks import remarks
    from oracle.models.configs import eos_token_ids, start_token_id

    start = start_token_id(pair)
    return {
        "pair": pair.name,
        **pair.info,
        "target": describe(pair.target),
        "draft": pair.drafting.facts(pair),
        "dtype": str(pair.target.dtype).removeprefix("torch."),
        "device": str(pair.target.device),
        "prompts_planned": len(encoded),
        "prompts_sha256": digest(encoded),
        "eos_token_ids": list(eos_token_ids(pair)),
        **({} if start is None else {"decoder_start_token_id": start}),
        "decoding": "greedy",
        **({"remarks": list(said)} if (said := remarks(pair)) else {}),
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _binding(meta: dict) -> dict[str, Any]:
    """What must not change between a run and its resumption."""
    return {name: _value(meta, name) for name in _BINDING}


def _value(meta: dict, name: str) -> Any:
    """The value at a dotted name, None where there is none."""
    found: Any = meta
    for key in name.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


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
