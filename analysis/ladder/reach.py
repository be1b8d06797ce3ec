"""What a model reaches that sees every recorded signal: of acceptance, it drives the expected-gain rule.

No bound: a rule that reads fewer signals may be faster, and so may another model.  Each part of the prompts is
drafted by models that were fitted to the other parts alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.replay.drafts import Book
from analysis.train.fitting import network
from analysis.train.samples import Samples, samples
from oracle.policies.gains import growth, pays_no_more, worth_drafting
from oracle.policies.heads import Acceptance, inputs
from oracle.records.trace import Trace

NEED = "the model on all recorded signals"
LONGEST = 20  # tokens of a draft
FITTED = 20_000  # tokens that the models are fitted to, about
_RECENT = 8  # tokens
_BLOCK = 10_000  # positions at once
_SURE = 1e-3  # a probability is kept as far from 0 and 1 as this before its log odds are taken


def longest_draft(trace: Trace) -> int:
    """Most tokens of a draft whose signals are recorded wherever it begins, at most `LONGEST`."""
    return min(LONGEST, trace.max_overrun + 1)


def reach(trace: Trace, cost: CostModel, part: np.ndarray) -> np.ndarray:
    """Tokens that the rule drafts from each position, int64 [N]; ``part`` int64 [P] is the part of each prompt.

    The rule drafts on while the next token is expected to pay at the prices of ``cost``
    (``oracle.policies.gains.pays_no_more``).  Two logistic regressions tell it the chance of the token that it drafted
    and that of the one after it, from confidence, entropy, margin, the place in the draft, the largest probabilities
    where they were recorded, and how often the draft agreed so far with the text, in all and lately: the draft reads
    all of the text, so it can know that.  Raises ValueError where the trace lacks signals, or has too little in it;
    `NotRecorded` where the rule would read more than was recorded.
    """
    tokens = longest_draft(trace)
    with_top = "draft_top" in trace.extra
    found = samples(trace, tokens, NEED, with_top=with_top, most=FITTED)
    trace.need("overruns", for_=NEED)
    length = np.zeros(trace.tokens, np.int64)
    for number in np.unique(part):
        taught = part[found.prompt] != number
        history = _history(trace, found.accepted[taught])
        models = _Models.of(found, _values(found, history), taught)
        at = np.flatnonzero(part[trace.prompt_of] == number)
        for block in np.array_split(at, max(1, len(at) // _BLOCK)):
            length[block] = _lengths(trace, block, tokens, models, history, cost)
    book = Book.of(trace)
    length = np.minimum(length, book.unstopped)
    book.require(np.arange(trace.tokens), length)
    return length


@dataclass(frozen=True)
class _Models:
    drafted: Acceptance  # chance of the token that was drafted last, where those before it were accepted
    following: Acceptance  # chance of the one after it, where it was accepted too

    @staticmethod
    def of(found: Samples, values: np.ndarray, taught: np.ndarray) -> _Models:
        """Fitted to the samples that ``taught`` (bool [S]) marks; ``values`` float [inputs, S]."""
        then = np.append(found.position[1:] == found.position[:-1] + 1, False)  # the next one is judged too
        next_accepted = np.append(found.accepted[1:], False)
        before = taught & then
        if not before.any():
            raise ValueError("too few draft tokens to fit a model of acceptance to; collect more or longer texts")
        return _Models(
            network(values[:, taught], found.accepted[taught], units=0),
            network(values[:, before], next_accepted[before], units=0),
        )


def _lengths(
    trace: Trace, at: np.ndarray, tokens: int, models: _Models, history: list[np.ndarray], cost: CostModel
) -> np.ndarray:
    """Tokens until the rule stops, at most ``tokens``, from the positions ``at``; int64 like them."""
    signals = Book.of(trace).signals(NEED, at, tokens)
    size = int(trace.meta.get("top_k", 0)) if "draft_top" in trace.extra else 0
    values = [
        *inputs(signals.confidence, signals.entropy, signals.margin, np.arange(tokens)),
        *(np.moveaxis(signals.top(size).astype(np.float64), -1, 0) if size else ()),
        *(np.broadcast_to(each[at][:, None], signals.shape) for each in history),
    ]
    grows = growth(cost, tokens, 1)
    # What is not recorded is NaN, stops nothing, and lies beyond the room for a draft.
    stops = pays_no_more(models.drafted.of(values), grows, models.following.of(values))
    ends = np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, tokens)
    return np.minimum(ends, worth_drafting(tokens, grows))


def _values(found: Samples, history: list[np.ndarray]) -> np.ndarray:
    """The inputs of the models, float64 [inputs, S]."""
    assert found.start is not None  # `samples` knows it
    own = inputs(found.confidence, found.entropy, found.margin, found.position)
    top = [] if found.top is None else list(found.top.T.astype(np.float64))
    return np.stack([*own, *top, *(each[found.start] for each in history)])


def _history(trace: Trace, taught: np.ndarray) -> list[np.ndarray]:
    """Log odds of the draft's agreement with the text before each position: in all of it, and lately; float64 [N].

    A few tokens of the rate of the samples ``taught`` (bool [S]) stand before each text.
    """
    agrees = trace.agrees
    hits, here = np.append(0, np.cumsum(agrees)), np.arange(trace.tokens)
    first, rate = trace.offsets[trace.prompt_of], float(taught.mean()) if len(taught) else 0.5
    found = []
    for since, weight in ((first, 4.0), (np.maximum(here - _RECENT, first), 2.0)):
        share = (hits[here] - hits[since] + weight * rate) / (here - since + weight)
        share = np.clip(share, _SURE, 1 - _SURE)
        found.append(np.log(share / (1 - share)))
    return found
