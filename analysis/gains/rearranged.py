"""Traces whose tokens stand in another order, or whose texts are cut in two: replayed by the same code as any other."""

from __future__ import annotations

import dataclasses

import numpy as np

from oracle.records.flat import Flat
from oracle.records.trace import SIGNALS, Overruns, Trace


def movable(trace: Trace) -> np.ndarray:
    """Tokens that may change places, bool [N]: all but the last of each text, which is always the target's own."""
    free = np.ones(trace.tokens, bool)
    free[trace.offsets[1:] - 1] = False
    return free


def whole_orders(trace: Trace, shuffles: int, rng: np.random.Generator) -> np.ndarray:
    """Orders of the tokens shuffled over all texts, int64 [shuffles, N]."""
    free = np.flatnonzero(movable(trace))
    orders = np.tile(np.arange(trace.tokens), (shuffles, 1))
    for order in orders:
        order[free] = rng.permutation(free)
    return orders


def within_orders(trace: Trace, shuffles: int, rng: np.random.Generator) -> np.ndarray:
    """Orders of the tokens shuffled within each text, int64 [shuffles, N]."""
    free = np.flatnonzero(movable(trace))
    text = np.repeat(np.arange(trace.prompts), np.diff(trace.offsets))[free]
    orders = np.tile(np.arange(trace.tokens), (shuffles, 1))
    for order in orders:
        order[free] = free[np.lexsort((rng.random(len(free)), text))]
    return orders


def coin_orders(trace: Trace, rates: np.ndarray, shuffles: int, rng: np.random.Generator) -> np.ndarray:
    """Orders drawn with replacement so that a token agrees with probability ``rates`` (float [J]), [J, shuffles, N].

    The same random numbers for each rate, so that their results differ by little but the rate.
    """
    free, agrees = np.flatnonzero(movable(trace)), trace.agrees
    right, wrong = free[agrees[free]], free[~agrees[free]]
    coin, pick = rng.random((2, shuffles, len(free)))
    orders = np.tile(np.arange(trace.tokens), (len(rates), shuffles, 1))
    for order, rate in zip(orders, rates, strict=True):
        order[:, free] = np.where(
            coin < rate, right[(pick * len(right)).astype(np.int64)], wrong[(pick * len(wrong)).astype(np.int64)]
        )
    return orders


def rearranged(trace: Trace, orders: np.ndarray) -> Trace:
    """The texts of a chain draft once for each order, R * P of them: token ``orders[r, t]`` stands at place t.

    ``orders`` int64 [R, N].  A token takes along the draft's choice and what the draft said after it; signals are left
    out (`with_signals` keeps them).  Lengths, limits and contexts stay with the place.
    """
    copies, moved = len(orders), orders.ravel()
    return Trace(
        meta=trace.meta,
        ids=tuple(map(str, range(copies * trace.prompts))),
        index=np.arange(copies * trace.prompts),
        finish=np.tile(trace.finish, copies),
        max_new_tokens=np.tile(trace.max_new_tokens, copies),
        prompt_offsets=_offsets(np.tile(np.diff(trace.prompt_offsets), copies)),
        prompt_tokens=np.tile(trace.prompt_tokens, copies),
        offsets=_offsets(np.tile(np.diff(trace.offsets), copies)),
        target_tokens=trace.target_tokens[moved],
        draft_tokens=trace.need("draft_tokens", for_="shuffling tokens")[moved],
        overruns=None if trace.overruns is None else _moved_overruns(trace, trace.overruns, moved),
    )


def with_signals(trace: Trace, order: np.ndarray, rng: np.random.Generator) -> Trace:
    """The texts of a chain draft in one order (int64 [N]): `rearranged`, and the signals go with their tokens.

    What the draft said after a disagreement was recorded as far as its text had room.  Where that is less room than
    there is at its new place, what it said after another disagreement stands in, drawn from those that were recorded
    to the full: of the same text if there is one, else of any.  A signal that the trace lacks stays lacking; raises
    ValueError where it lacks overruns.
    """
    over = trace.need("overruns", for_="shuffling tokens with their signals")
    signals = {name: getattr(trace, name) for name in SIGNALS}
    rows = trace.overrun_of[order]
    position = np.flatnonzero(rows >= 0)
    rows = _with_room(trace, over, rows[position], trace.budget[position] - 1, rng)
    entries, offsets = _entries(over, rows)
    after = {name: getattr(over, name) for name in ("tokens", *SIGNALS)}
    moved = {name: None if values is None else values[entries] for name, values in after.items()}
    return dataclasses.replace(
        rearranged(trace, order[None]),
        overruns=Overruns(position, offsets, **moved),
        extra=_moved_tops(trace, order, position, entries, offsets),
        **{name: None if values is None else values[order] for name, values in signals.items()},
    )


def _with_room(
    trace: Trace, over: Overruns, rows: np.ndarray, room: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """``rows`` (int64 [U]) of overruns, those that are too short for their ``room`` (int64 [U]) replaced."""
    size = np.diff(over.offsets)
    ended = np.zeros(len(size), bool)
    some = size > 0
    ended[some] = trace.overrun_ends[over.offsets[1:][some] - 1]
    ended |= trace.draft_ends[over.position]  # nothing is said after an EOS
    full = np.flatnonzero(ended | (size >= trace.max_overrun))
    short = np.flatnonzero(~ended[rows] & (size[rows] < np.minimum(room, trace.max_overrun)))
    if not len(full) or not len(short):
        return rows
    text, wanted = trace.prompt_of[over.position[full]], trace.prompt_of[over.position[rows[short]]]
    low, high = np.searchsorted(text, wanted), np.searchsorted(text, wanted, side="right")
    low, high = np.where(high > low, low, 0), np.where(high > low, high, len(full))
    found = rows.copy()
    found[short] = full[low + (rng.random(len(short)) * (high - low)).astype(np.int64)]
    return found


def _moved_tops(
    trace: Trace, order: np.ndarray, position: np.ndarray, entries: np.ndarray, offsets: np.ndarray
) -> dict[str, Flat]:
    """The largest probabilities of the tokens, and of what was said after them; none where none were recorded."""
    top, after = (trace.extra.get(name) for name in ("draft_top", "draft_top_after"))
    if top is None or after is None:
        return {}
    size = int(trace.meta["top_k"])
    outer = np.searchsorted(position, trace.offsets)
    return {
        "draft_top": Flat(top.values.reshape(-1, size)[order].ravel(), top.offsets),
        "draft_top_after": Flat(after.values.reshape(-1, size)[entries].ravel(), (outer, offsets * size)),
    }


def halves(trace: Trace) -> Trace:
    """Each text cut in two after half of its tokens, 2 * P texts; the first half is context of the second.

    Every text needs two tokens.  Signals are left out.
    """
    sizes = np.diff(trace.offsets)
    first = sizes // 2
    read = np.diff(trace.prompt_offsets)
    return Trace(
        meta=trace.meta,
        ids=tuple(map(str, range(2 * trace.prompts))),
        index=np.arange(2 * trace.prompts),
        finish=np.repeat(trace.finish, 2),
        max_new_tokens=_pairs(first, trace.max_new_tokens - first),
        prompt_offsets=_offsets(_pairs(read, read + first)),
        prompt_tokens=np.zeros(0, np.int32),
        offsets=_offsets(_pairs(first, sizes - first)),
        target_tokens=trace.target_tokens,
        draft_tokens=trace.draft_tokens,
        overruns=None if trace.overruns is None else _tokens_only(trace.overruns),
    )


def _moved_overruns(trace: Trace, over: Overruns, moved: np.ndarray) -> Overruns:
    rows = trace.overrun_of[moved]
    position = np.flatnonzero(rows >= 0)
    entries, offsets = _entries(over, rows[position])
    tokens = None if over.tokens is None else over.tokens[entries]
    return Overruns(position, offsets, tokens, None, None, None)


def _entries(over: Overruns, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Flat entries of the overruns of these ``rows``, one after the other, and their new offsets."""
    sizes = np.diff(over.offsets)[rows]
    offsets = _offsets(sizes)
    return np.repeat(over.offsets[:-1][rows] - offsets[:-1], sizes) + np.arange(offsets[-1]), offsets


def _tokens_only(over: Overruns) -> Overruns:
    return dataclasses.replace(over, confidence=None, entropy=None, margin=None)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=1).ravel()
