"""What a trace says of acceptance: drafted tokens that the target judged, with all that a drafter knew of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.records.trace import Trace

MOST = 250_000  # tokens that are fitted to: more change nothing but the time that it takes


@dataclass(frozen=True)
class Samples:
    """Tokens of drafts that began anywhere in a text, each as far as the target judges them; S of them."""

    position: np.ndarray  # int64 [S], place in the draft, from 0
    confidence: np.ndarray  # float32 [S]
    entropy: np.ndarray  # float32 [S]
    margin: np.ndarray  # float32 [S]
    accepted: np.ndarray  # bool [S], given that those before it were
    prompt: np.ndarray  # int64 [S]
    top: np.ndarray | None = None  # float32 [S, top_k]
    start: np.ndarray | None = None  # int64 [S], flat position where its draft began; None: not known

    def __len__(self) -> int:
        return len(self.position)

    def of(self, chosen: np.ndarray) -> Samples:
        """Those that ``chosen`` (bool [S]) marks."""
        return Samples(**{name: values[chosen] for name, values in vars(self).items() if values is not None})


def samples(trace: Trace, tokens: int, need: str, *, with_top: bool = False, most: int = MOST) -> Samples:
    """Of drafts of up to ``tokens`` tokens from every position of a trace, or from every n-th: ``most`` of them, about.

    Raises ValueError, with ``need`` as what asks, where the trace lacks a signal or has drafts of kind round.
    """
    if trace.draft_kind != "chain":
        raise ValueError(f"{need} is trained on drafts of kind chain; this trace has {trace.draft_kind}s")
    signals = {name: trace.need(name, for_=need) for name in ("confidence", "entropy", "margin")}
    if with_top:
        signals["top"] = trace.need("draft_top", for_=need).values.reshape(trace.tokens, -1)
    room = np.minimum(trace.end - np.arange(trace.tokens) - 1, tokens)  # the last token is the target's own
    judged = np.minimum(trace.run + 1, np.maximum(room, 0))
    starts = np.arange(0, trace.tokens, 1 + int(judged.sum()) // most)
    count = judged[starts]
    first = np.repeat(np.cumsum(count) - count, count)
    position = np.arange(int(count.sum())) - first
    start = np.repeat(starts, count)
    at = start + position
    return Samples(
        position=position,
        accepted=trace.agrees[at],
        prompt=trace.prompt_of[at],
        start=start,
        **{name: values[at] for name, values in signals.items()},
    )
