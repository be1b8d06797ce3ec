"""Traces whose tokens stand in another order, or whose texts are cut in two: replayed by the same code as any other."""

from __future__ import annotations

import dataclasses

import numpy as np

from oracle.records.trace import Overruns, Trace


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
    out.  Lengths, limits and contexts stay with the place.
    """
    copies, moved = len(orders), orders.ravel()
    return Trace(
        meta=trace.meta,
        ids=tuple(map(str, range(copies * trace.prompts))),
        index=np.arange(copies * trace.prompts),
        finish=np.tile(trace.finish, copies),
        max_new_tokens=np.tile(trace.max_new_tokens, copies),
        prompt_offsets=_offsets(np.tile(np.diff(trace.prompt_offsets), copies)),
        prompt_tokens=np.zeros(0, np.int32),
        offsets=_offsets(np.tile(np.diff(trace.offsets), copies)),
        target_tokens=trace.target_tokens[moved],
        draft_tokens=trace.need("draft_tokens", for_="shuffling tokens")[moved],
        overruns=None if trace.overruns is None else _moved_overruns(trace, trace.overruns, moved),
    )


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
    rows = rows[position]
    sizes = np.diff(over.offsets)[rows]
    offsets = _offsets(sizes)
    entries = np.repeat(over.offsets[:-1][rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
    tokens = None if over.tokens is None else over.tokens[entries]
    return Overruns(position, offsets, tokens, None, None, None)


def _tokens_only(over: Overruns) -> Overruns:
    return dataclasses.replace(over, confidence=None, entropy=None, margin=None)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)])


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.stack([first, second], axis=1).ravel()
