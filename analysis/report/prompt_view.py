"""Data of the interactive view of single prompts: each text, and what every policy did to it, iteration by iteration.

The view is plain JSON.  Token strings are stored once, in ``words``, and everything else refers to them by number; a
draft's overrun is kept only as far as some shown policy really drafted it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.examine import Decode
from analysis.replay.simulate import SimulationResult
from oracle.records.trace import Trace

MAX_PROMPTS = 40  # shown in a page, all traces together
MAX_PROMPT_TOKENS = 1000  # of the prompt itself; what comes before its last so many tokens is left out


def decoded_ids(ids: list[int]) -> list[str]:
    """Stand-in for a tokenizer: shows each token's number."""
    return [f" {token}" for token in ids]


def share_out(sizes: Sequence[int], limit: int = MAX_PROMPTS) -> list[np.ndarray]:
    """Which prompts of each trace to show, int64 arrays: about as many of each, evenly spaced, ``limit`` in all."""
    counts = [0] * len(sizes)
    left = limit
    # Smallest traces first, so that what they cannot use goes to the others.
    for done, number in enumerate(sorted(range(len(sizes)), key=lambda number: sizes[number])):
        counts[number] = min(sizes[number], left // (len(sizes) - done))
        left -= counts[number]
    return [np.arange(count) * size // max(count, 1) for size, count in zip(sizes, counts, strict=True)]


def enter_words(decode: Decode | None, ids: np.ndarray, table: dict[str, int]) -> dict[int, int]:
    """Enter the strings of all ``ids`` (int array) in ``table`` (string -> number); returns each id's number there.

    Raises ValueError where ``decode`` does not give one string for each id.
    """
    unique = np.unique(ids).tolist()
    strings = (decode or decoded_ids)(unique)
    if len(strings) != len(unique):
        raise ValueError(f"decode gave {len(strings)} strings for {len(unique)} token ids; it must give one for each")
    return {token: table.setdefault(str(text), len(table)) for token, text in zip(unique, strings, strict=True)}


def view_prompts(
    source: int,
    trace: Trace,
    results: Sequence[SimulationResult],
    chosen: np.ndarray,
    decode: Decode | None,
    table: dict[str, int],
) -> list[dict]:
    """The chosen prompts (int64 array of numbers) of ``trace`` under ``results``, as JSON types.

    Raises ValueError for a trace without draft tokens.  ``source`` is the trace's number in the page; new token strings
    are entered in ``table`` (string -> number).
    """
    pieces = [_pieces(trace, results, prompt) for prompt in chosen.tolist()]
    ids = [
        array
        for piece in pieces
        for array in (*piece["tokens"].values(), *(over[0] for over in piece["over"].values()))
    ]
    number = enter_words(decode, np.concatenate([np.zeros(0, np.int64), *ids]), table)

    def words(tokens: np.ndarray) -> list[int]:
        return [number[token] for token in tokens.tolist()]

    return [
        {
            "source": source,
            "id": trace.ids[prompt],
            "finish": str(trace.finish[prompt]),
            "cut": piece["cut"],
            **{name: words(tokens) for name, tokens in piece["tokens"].items()},
            "confidence": _rounded(piece["confidence"]),
            "overruns": {str(at): [words(tokens), _rounded(values)] for at, (tokens, values) in piece["over"].items()},
            "rounds": [rows.ravel().tolist() for rows in piece["rounds"]],
            "speedups": piece["speedups"],
        }
        for prompt, piece in zip(chosen.tolist(), pieces, strict=True)
    ]


def _pieces(trace: Trace, results: Sequence[SimulationResult], prompt: int) -> dict:
    text = slice(trace.offsets[prompt], trace.offsets[prompt + 1])
    rounds = [_rounds(result, prompt) for result in results]
    question = trace.prompt_tokens[trace.prompt_offsets[prompt] : trace.prompt_offsets[prompt + 1]]
    return {
        "tokens": {
            "prompt": question[-MAX_PROMPT_TOKENS:],
            "target": trace.target_tokens[text],
            "draft": trace.need("draft_tokens", for_="the view of single prompts")[text],
        },
        "cut": max(len(question) - MAX_PROMPT_TOKENS, 0),
        "confidence": np.zeros(0) if trace.confidence is None else trace.confidence[text],
        "over": _overruns(trace, prompt, np.concatenate([np.zeros((0, 3), np.int64), *rounds])),
        "rounds": rounds,
        "speedups": [round(float(r.plain_seconds[prompt] / r.prompt_seconds[prompt]), 3) for r in results],
    }


def _rounds(result: SimulationResult, prompt: int) -> np.ndarray:
    """(position, drafted, accepted) of the prompt's iterations, int64 [I, 3]."""
    first, last = np.searchsorted(result.prompt, [prompt, prompt + 1])
    columns = (result.position, result.drafted, result.accepted)
    return np.stack([column[first:last] for column in columns], axis=1)


def _overruns(trace: Trace, prompt: int, rounds: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """For each position where a shown draft went wrong: its recorded overrun (tokens, confidence) as far as drafted."""
    position, drafted, accepted = rounds.T
    over = trace.overruns
    if over is None or over.tokens is None or over.confidence is None:
        return {}
    beyond = drafted - accepted - 1  # tokens drafted after the first wrong one
    start = int(trace.offsets[prompt])
    found = {}
    for at in np.unique((position + accepted)[beyond > 0]).tolist():
        row = int(trace.overrun_of[start + at])
        if row < 0:  # an end-of-text token that the draft proposed too: nothing follows it
            continue
        longest = int(beyond[position + accepted == at].max())
        first = int(over.offsets[row])
        piece = slice(first, min(first + longest, int(over.offsets[row + 1])))
        found[at] = (over.tokens[piece], over.confidence[piece])
    return found


def _rounded(values: np.ndarray) -> list[float]:
    return [round(value, 3) for value in values.astype(float).tolist()]
