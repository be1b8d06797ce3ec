"""The three oracles.  They are handed the trace, so they know what no drafter can know."""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from oracle.records.trace import Trace

_FEW = 64  # texts: as many are worth walking side by side


def detect(trace: Trace, cost: CostModel) -> np.ndarray:
    """Draft until the draft disagrees: run length + 1 draft passes where the budget allows it, int64 [N].

    The oracle of the published analysis (Mamou et al., arXiv 2405.04304): the pass that disagrees is paid.
    """
    return np.minimum(trace.accepted_run + 1, trace.budget)


def clairvoyant(trace: Trace, cost: CostModel) -> np.ndarray:
    """Draft exactly what will be accepted, int64 [N]."""
    return trace.accepted_run


def optimal(trace: Trace, cost: CostModel) -> np.ndarray:
    """The cheapest way to produce each text under ``cost``, int64 [N]; 0 is a plain step.  No policy is cheaper.

    Dynamic programme over positions, from the end: V(t) = min(`plain_step` + V(t + 1), min over 1 <= k <= run(t) of
    round(k) + V(t + k + 1)).  Drafting past the run only adds cost, since costs never fall with tokens.  Drafting k
    tokens is the difference of a running total at t + k and at t, so only the verification ties t to k; where its curve
    has become a straight line, the least of all longer drafts is kept up as t moves, and the rest is a short window.
    """
    run = trace.accepted_run
    inside = np.arange(1, trace.tokens) < trace.end[:-1]
    chained = np.all((run[:-1] == 0) | (run[:-1] == run[1:] + 1) | ~inside)
    prices = _Prices.of(trace, cost)
    if chained and trace.prompts > _FEW:
        return _side_by_side(trace, prices)
    pieces = [slice(*ends) for ends in itertools.pairwise(trace.offsets.tolist())]
    return np.concatenate([_one_text(run[piece], prices, piece) for piece in pieces])


def plain_step(cost: CostModel, context: np.ndarray) -> np.ndarray:
    """What `optimal` pays for a token that is not drafted: a step without a draft, or a round of none if less."""
    return np.minimum(cost.step(context), cost.round(np.zeros(len(context), np.int64), context))


@dataclass(frozen=True)
class _Prices:
    """A round from position t to t + n (n >= 2 tokens verified) costs fixed[t] + total[t + n - 1] + apart(n).

    ``total`` runs on by a further draft step a token; apart(n) is the verification, and what drafting n - 1 tokens from
    an empty context costs apart from as many further steps.
    """

    plain: np.ndarray  # float [N], a token that is not drafted
    fixed: np.ndarray  # float [N]
    total: np.ndarray  # float [N], of drafting from the start of the text up to the position
    near: np.ndarray  # float [m - 2], apart(2), ..., apart(m - 1)
    far: int  # m >= 2: apart(n) = level + slope * (n - m) from there on
    level: float
    slope: float

    @staticmethod
    def of(trace: Trace, cost: CostModel) -> _Prices:
        context, first = trace.context, trace.offsets[trace.prompt_of]
        steps = np.arange(trace.tokens) - first
        total = cost.draft * steps + cost.draft_context * steps * (context[first] + (steps - 1) / 2)
        far = max(2, cost.verify[-1][0], 1 + cost.draft_phase[-1][0] if cost.draft_phase else 2)
        tokens = np.arange(2, far + 2)
        curve = cost.verification(tokens) + cost.phase(tokens - 1) - cost.draft * (tokens - 1)
        return _Prices(
            plain=plain_step(cost, context),
            fixed=cost.iteration + cost.verify_context * context - total,
            total=total,
            near=curve[:-2],
            far=far,
            level=float(curve[-2]),
            slope=float(curve[-1] - curve[-2]),
        )


def _one_text(run: np.ndarray, prices: _Prices, piece: slice) -> np.ndarray:
    """The drafts of one text, int64 [T], position by position from its end; any run lengths."""
    size, far, level, slope = len(run), prices.far, prices.level, prices.slope
    plain, fixed, total = (getattr(prices, name)[piece].tolist() for name in ("plain", "fixed", "total"))
    runs = run.tolist()
    value = [0.0] * (size + 1)
    sums = np.zeros(size + 1)  # value + total drafted up to the token before: what `near` is added to
    sums[size] = total[size - 1]
    # Ends of long drafts, the nearest one last, each cheaper than all that are nearer; negative, so that they ascend.
    ends: list[int] = []
    prices_at: list[float] = []
    drafts = [0] * size
    for at in range(size - 1, -1, -1):
        if (end := at + far) <= size:
            price = value[end] + total[end - 1] + slope * end
            while prices_at and prices_at[-1] >= price:
                prices_at.pop()
                ends.pop()
            prices_at.append(price)
            ends.append(-end)
        most = at + 1 + runs[at]
        least, best = plain[at] + value[at + 1], 0
        if runs[at]:
            if len(prices.near):
                near = sums[at + 2 : min(most + 1, at + far)]
                near = near + prices.near[: len(near)]
                choice = int(near.argmin())
                if fixed[at] + near[choice] < least:
                    least, best = fixed[at] + float(near[choice]), choice + 1
            place = bisect.bisect_left(ends, -most)
            if place < len(ends):
                price = fixed[at] + prices_at[place] + level - slope * (at + far)
                if price < least:
                    least, best = price, -ends[place] - at - 1
        drafts[at] = best
        value[at] = least
        if at:
            sums[at] = least + total[at - 1]
    return np.array(drafts, dtype=np.int64)


def _side_by_side(trace: Trace, prices: _Prices) -> np.ndarray:
    """The same for many texts at once, int64 [N], where run(t) is 0 or run(t + 1) + 1: ends of drafts only join."""
    run, far, slope = trace.accepted_run, prices.far, prices.slope
    order = np.argsort(-np.diff(trace.offsets), kind="stable")  # the longest first: those that are left are a slice
    sizes, starts, ends = (values[order] for values in (np.diff(trace.offsets), trace.offsets[:-1], trace.offsets[1:]))
    sums = np.full(trace.tokens + trace.prompts + far, np.inf)  # an entry more than tokens for each text: after its end
    extra = np.arange(trace.prompts)[order]  # so many entries more come before
    value = np.zeros(trace.prompts)  # of the position after the one at hand
    sums[ends + extra] = prices.total[ends - 1]
    far_price, far_end = np.full(trace.prompts, np.inf), np.zeros(trace.prompts, np.int64)
    drafts = np.zeros(trace.tokens, np.int64)
    reach = np.arange(2, far)
    for back in range(1, int(sizes[0]) + 1):
        left = int(np.searchsorted(-sizes, -back, side="right"))
        at, shift = ends[:left] - back, extra[:left]
        runs = run[at]
        price, end = far_price[:left], far_end[:left]  # views: what is kept from step to step
        price[runs == 0] = np.inf
        joins = np.flatnonzero(runs >= far - 1)
        new = at[joins] + far
        new_price = sums[new + shift[joins]] + slope * (new - starts[joins])
        better = new_price <= price[joins]
        price[joins[better]], end[joins[better]] = new_price[better], new[better]
        best = np.zeros(left, np.int64)
        least = prices.plain[at] + value[:left]
        if len(reach):
            drafting = np.flatnonzero(runs)
            near = sums[(at + shift)[drafting, None] + reach] + prices.near
            near = np.where(reach <= runs[drafting, None] + 1, near, np.inf)
            choice = near.argmin(axis=1)
            cost = prices.fixed[at[drafting]] + near[np.arange(len(drafting)), choice]
            chosen = drafting[cost < least[drafting]]
            best[chosen] = (choice + 1)[cost < least[drafting]]
            least[chosen] = cost[cost < least[drafting]]
        cost = prices.fixed[at] + price + prices.level - slope * (at + far - starts[:left])
        longer = cost < least
        best[longer], least[longer] = (end - at - 1)[longer], cost[longer]
        drafts[at], value[:left] = best, least
        inner = at > starts[:left]
        sums[(at + shift)[inner]] = (least + prices.total[at - 1])[inner]
    return drafts


OPTIMAL = "oracle:optimal"
ORACLES = {"oracle:detect": detect, "oracle:clairvoyant": clairvoyant, OPTIMAL: optimal}


def is_oracle(text: str) -> bool:
    """Whether a policy's text means an oracle, known or not; a user's function or file may begin with that word."""
    return text.partition(":")[0].strip() == "oracle"
