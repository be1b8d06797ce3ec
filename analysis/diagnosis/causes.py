"""Where the time of a policy goes, and where it stops drafting too early or too late."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from analysis.cost import CostModel
from analysis.describe.signals import accepted_first
from analysis.gains.loss import Iteration, iteration
from analysis.intervals import Estimate
from analysis.replay.oracles import OPTIMAL
from analysis.replay.result import SimulationResult
from analysis.replay.simulate import simulate
from oracle.records.trace import Trace


@dataclass(frozen=True)
class Stops:
    """How often drafting ended at the wrong place; shares are of all iterations."""

    early: float  # all of the draft was accepted, and the next token would have been too
    missed: float  # mean tokens that would have been accepted besides, in those; 0 where there are none
    late: float  # something of the draft was refused
    wasted: float  # mean tokens refused, in those; 0 where there are none


@dataclass(frozen=True)
class Causes:
    """What a policy's speedup is made of, on the recorded texts at the measured prices."""

    iteration: Iteration  # the average one
    stops: Stops
    acceptance: float  # share of the text's tokens that the draft would have chosen too
    accepted_share: float  # of what was drafted
    speedup: Estimate  # of the policy, replayed
    ceiling: Estimate  # of the cheapest way to produce the same texts with this draft, which knows them


def causes(trace: Trace, policy: str, cost: CostModel) -> Causes:
    """Replay ``policy`` and take its time apart.  Raises `NotRecorded` where the record is too short for it."""
    trace = dataclasses.replace(trace)  # a copy, so that what is derived of the trace goes when this is done
    found = simulate(trace, policy, cost)
    return Causes(
        iteration=iteration(trace, found),
        stops=stops(trace, found),
        acceptance=float(accepted_first(trace).mean()),
        accepted_share=found.accepted_share,
        speedup=found.speedup_estimate(),
        ceiling=simulate(trace, OPTIMAL, cost).speedup_estimate(),
    )


def stops(trace: Trace, found: SimulationResult) -> Stops:
    """Where each draft of a replay ended, beside where the last token that would be accepted stood."""
    more = trace.accepted_run[trace.offsets[found.prompt] + found.position] - found.accepted  # int [I]
    refused = found.drafted - found.accepted
    early, late = (refused == 0) & (more > 0), refused > 0
    return Stops(
        early=float(early.mean()),
        missed=_mean(more[early]),
        late=float(late.mean()),
        wasted=_mean(refused[late]),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
