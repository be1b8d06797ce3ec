"""Records what a draft model would propose at every position of a target model's text, for exact replay."""

from oracle.collect import collect
from oracle.measure import measure
from oracle.models.pairs import Pair, load_pair
from oracle.prompts.sets import load_prompts
from oracle.records.trace import Trace

__all__ = ["Pair", "Trace", "collect", "load_pair", "load_prompts", "measure"]
