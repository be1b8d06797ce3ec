"""Small traces written by hand."""

import dataclasses

import numpy as np

from oracle.records.trace import Record, Trace

EOS = 0


def record(target, draft, *, confidence=None, overruns=None, limit=None, index=0, prompt=(7, 8, 9)):
    """A record; ``overruns`` maps a position of disagreement to [(token, confidence), ...] (default: nothing)."""
    target, draft = np.array(target, np.int32), np.array(draft, np.int32)
    size = len(target)
    confidence = np.full(size, 0.9, np.float32) if confidence is None else np.array(confidence, np.float32)
    missed = np.flatnonzero(target != draft).astype(np.int32)
    branches = [(overruns or {}).get(int(at), []) for at in missed]
    return Record(
        id=f"p{index}",
        index=index,
        finish="eos" if target[-1] == EOS else "length",
        max_new_tokens=size if limit is None else limit,
        prompt_tokens=np.array(prompt, np.int32),
        target_tokens=target,
        draft_tokens=draft,
        confidence=confidence,
        entropy=(1 - confidence).astype(np.float32),
        margin=confidence / 2,
        target_margin=np.ones(size, np.float32),
        overrun_position=missed,
        overrun_tokens=[np.array([token for token, _ in branch], np.int32) for branch in branches],
        overrun_confidence=[np.array([value for _, value in branch], np.float32) for branch in branches],
        overrun_entropy=[np.array([1 - value for _, value in branch], np.float32) for branch in branches],
        overrun_margin=[np.array([value / 2 for _, value in branch], np.float32) for branch in branches],
    )


def named_apart(records):
    """The records, renamed p0, p1, ... where two have the same id."""
    if len({each.id for each in records}) == len(records):
        return list(records)
    return [dataclasses.replace(each, id=f"p{number}") for number, each in enumerate(records)]


def trace(*records, max_overrun=4, **meta):
    return Trace.from_records(named_apart(records), {"eos_token_ids": [EOS], "max_overrun": max_overrun, **meta})


def pattern(flags, *, index=0, **options):
    """A record from a string of hits and misses, such as "++-+": target tokens 10, 11, ...; a miss drafts 1.

    Under a ``limit`` that the text does not reach its last token is EOS.
    """
    target = np.arange(10, 10 + len(flags))
    if (options.get("limit") or 0) > len(flags):
        target[-1] = EOS
    draft = np.where([flag == "+" for flag in flags], target, 1)
    return record(target, draft, index=index, **options)
