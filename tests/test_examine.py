"""What is found of a trace: the same by parts as at once, and with less than a page needs."""

import dataclasses

import numpy as np
import pytest
from builders.runs import some_trace

from analysis.cost import CostModel
from analysis.describe.signals import auc
from analysis.describe.statistics import Sample, plain
from analysis.examine import Source, examine, findings
from oracle.records import selection
from oracle.records.trace import Trace


def test_findings_are_those_of_the_page():
    trace, cost = some_trace(), CostModel(draft=0.2)
    found, page = findings(trace, cost), examine(Source(trace, cost=cost), "a", ["constant:tokens=2"])
    for name in ("description", "signals"):
        assert plain(getattr(found, name)) == plain(getattr(page, name))
    # The page tunes more finely, so that only what is said of settings may differ.
    assert found.verdict.iid_rejected == page.verdict.iid_rejected
    assert found.evidence.held_out.tried < page.tuned.tried == page.findings.evidence.held_out.tried
    assert page.advice == page.verdict.advice == page.tuned.policy


def test_findings_do_not_depend_on_the_parts(monkeypatch):
    whole = findings(some_trace())
    monkeypatch.setattr(selection.parts, "__defaults__", (100,))
    assert plain(findings(some_trace())) == plain(whole)


def test_findings_keep_nothing_of_the_size_of_the_trace(monkeypatch):
    monkeypatch.setattr(selection.parts, "__defaults__", (100,))
    trace = some_trace()
    findings(trace)
    fields = {field.name for field in dataclasses.fields(Trace)}
    kept = {name: value for name, value in vars(trace).items() if name not in fields}
    assert sum(value.nbytes for value in kept.values()) <= trace.tokens  # a flag a token at most


def test_a_sample_without_prompts_is_that_of_the_others():
    trace, keep = some_trace(prompts=4), np.array([True, False, True, True])
    some, other = Sample.of(trace).of_prompts(keep), Sample.of(selection.select_prompts(trace, keep))
    for name in ("prompt", "accepted", "censored", "lengths", "over_positions"):
        assert np.array_equal(getattr(some, name), getattr(other, name)), name


def test_the_area_counts_ties_half_and_knows_no_rank_of_nan():
    values, outcome = np.array([0.2, 0.5, 0.5, 0.9]), np.array([False, True, False, True])
    prompt = np.array([0, 0, 1, 1])
    found = auc(values, outcome, prompt)
    assert found.value == (1.5 + 2) / 4  # of 4 pairs one is tied
    # Influence of the positions: refused 0.2 (1 - 0.875) / 2, refused 0.5 (0.75 - 0.875) / 2, accepted the same.
    by_prompt = np.array([(1 - 0.875) / 2 + (0.75 - 0.875) / 2, (0.75 - 0.875) / 2 + (1 - 0.875) / 2])
    half = 1.959963984540054 * np.sqrt((by_prompt**2).sum() * 2)
    assert found.low == pytest.approx(0.875 - half) and found.high == pytest.approx(min(0.875 + half, 1))
    assert np.isnan(auc(np.array([0.2, np.nan, 0.5, 0.9]), outcome, prompt).value)
