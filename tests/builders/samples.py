"""Many small traces from one large one: a replay of the whole costs less than one of each part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from analysis.cost import CostModel
from analysis.replay.result import Totals
from analysis.replay.simulate import simulate_totals
from analysis.tune.grid import settings_of
from analysis.tune.result import Tuned
from analysis.tune.tuning import choose
from oracle.records.trace import Trace


def tuned_in_parts(trace: Trace, cost: CostModel, families: Sequence[str], prompts: int) -> Iterator[Tuned]:
    """What `tune` says of each ``prompts`` prompts in a row, as of a trace of their own.

    No policy may carry a memory from one prompt to the next.
    """
    family_of = settings_of(families)
    texts = list(family_of)
    whole = {texts[number]: each for number, each in simulate_totals(trace, texts, cost) if isinstance(each, Totals)}
    for begin in range(0, trace.prompts - prompts + 1, prompts):
        part = np.arange(begin, begin + prompts)
        yield choose([_of(whole[text], part) for text in texts], family_of)


def _of(found: Totals, part: np.ndarray) -> Totals:
    return dataclasses.replace(
        found,
        plain_seconds=found.plain_seconds[part],
        prefill_seconds=found.prefill_seconds[part],
        prompt_seconds=found.prompt_seconds[part],
    )
