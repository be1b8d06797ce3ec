"""Fit what a policy may learn from a trace, and write it where the policy finds it."""

from __future__ import annotations

from pathlib import Path

from analysis.train.fitting import Trained
from analysis.train.fitting import train as fit
from oracle.records.trace import Trace
from oracle.workflows.inputs import as_trace


def train(policy: str, trace: Trace | str | Path, out: str | Path, tokens: int | None = None) -> Trained:
    """Fit the head of ``policy`` (specdec++, margin, disco) to a trace and write it to ``out``, a JSON file.

    The policy is then ``POLICY:file=OUT``, and refused on the prompts of the trace.  ``tokens`` is the longest draft
    that it is fitted for.  Raises ValueError for a policy that is not trained, or a trace with too little in it.
    """
    found = fit(as_trace(trace), policy, tokens)
    found.head.save(out)
    return found
