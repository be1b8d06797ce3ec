"""How fast a pair is, from a few calls: what a plan is made from."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from analysis.measured.calibrate import FIT
from oracle.models.pair import Pair
from oracle.prompts.encode import Encoded
from oracle.workflows.diagnose.plan import Speed

SHARE = 0.06  # of the budget, about
_MOST, _TOKENS = 4, 64  # prompts, and tokens of a text


def probe(pair: Pair, prompts: Sequence[Encoded], length: int, budget: float) -> Speed:
    """Some calls with and without a draft; at least one of each, then as many as fit a share of the ``budget`` (s).

    Raises ValueError where the texts end at once.
    """
    from oracle.timing import clock_for

    clock, started = clock_for(pair), time.monotonic()
    first = _calls(pair, prompts[0], 4, clock)  # warms up, and says how long a text may be here
    pace = max(1e-6, sum(each.total_seconds for each in first) / sum(max(1, len(each.tokens)) for each in first))
    tokens = int(np.clip(SHARE * budget / 2 / pace, 16, min(_TOKENS, max(16, length))))
    found = []
    for prompt in prompts[:_MOST]:
        begun = time.monotonic()
        found.append(_calls(pair, prompt, min(tokens, prompt.max_new_tokens), clock))
        now = time.monotonic()
        if now - started + (now - begun) > SHARE * budget:  # another like this one would be too much
            break
    return _speed(found, tokens)


def _calls(pair: Pair, prompt: Encoded, tokens: int, clock):
    from oracle.generate import assisted, plain
    from oracle.policies import parse
    from oracle.policies.library import settings_of

    settings = settings_of(parse(FIT[0]))
    assert settings is not None
    options = {"max_new_tokens": tokens, "clock": clock}
    return plain(pair, prompt.tokens, **options), assisted(pair, prompt.tokens, settings, **options)


def _speed(found, tokens: int) -> Speed:
    texts = tuple((len(without.tokens), len(without.tokens) < tokens) for without, _ in found)
    if max(size for size, _ in texts) < 2:
        raise ValueError(
            f"the target ends its text after one token on {len(texts)} of {len(texts)} prompts that were tried: there "
            "is nothing to draft; give other prompts, or --chat for a model that is made to answer"
        )
    later = sum(size - 1 for size, _ in texts)
    step = sum(without.total_seconds - without.prefill_seconds for without, _ in found) / later
    prefill = float(np.mean([without.prefill_seconds for without, _ in found]))
    longer = sum(max(0, len(both.tokens) - 1) for _, both in found)
    drawn = sum(max(0.0, both.total_seconds - prefill) for _, both in found) / max(1, longer)
    return Speed(prefill, step, drawn, texts)
