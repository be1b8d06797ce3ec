"""A pair whose passes take a known time on a clock of its own: real library code, no waiting."""

import copy

import numpy as np

from builders.pairs import tiny_pair
from oracle.models.compat import cache_of
from oracle.models.pair import Pair
from oracle.timing import Clock

PROMPTS = [np.random.default_rng(size).integers(2, 97, size).tolist() for size in (6, 9, 4)]


class Virtual:
    """Time passes in forward passes only: ``draft(tokens, context)`` and ``target(tokens, context)`` say how much."""

    def __init__(self, pair, draft, target):
        self.time = 0.0
        self.pair = pair
        self.clock = Clock(lambda: self.time)
        for model, price in ((pair.draft, draft), (pair.target, target)):
            model.register_forward_hook(self._charge(price), with_kwargs=True)

    def _charge(self, price):
        def charge(module, args, kwargs, output):
            tokens = (args[0] if args else kwargs["input_ids"]).shape[1]
            self.time += price(tokens, cache_of(output).get_seq_length() - tokens)

        return charge


def same_models():
    """A draft that always agrees, as an object of its own."""
    target = tiny_pair().target
    return Pair(target, copy.deepcopy(target), None, name="same")
