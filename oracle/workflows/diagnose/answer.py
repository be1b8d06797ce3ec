"""From tuned drafts to the answer: which is the best, the measured check, the conclusion, the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.diagnosis.causes import causes
from analysis.diagnosis.check import check, over_all
from analysis.diagnosis.drafts import judge, rivals
from analysis.diagnosis.found import Found, outcome, settled
from analysis.diagnosis.whatif import what_if
from analysis.examine import Source
from analysis.verdict import NO_DRAFT
from oracle.models.identity import name_of
from oracle.models.pair import Pair
from oracle.policies import parse
from oracle.policies.library import what_runs
from oracle.records.runs import PLAIN, Runs
from oracle.records.trace import Trace
from oracle.settings import settings
from oracle.workflows.diagnose.job import Job
from oracle.workflows.diagnose.plan import check_plan, check_row, check_warm_up
from oracle.workflows.diagnose.result import Diagnosis
from oracle.workflows.diagnose.stages import CONSTANT, DRAWN, Tuned, as_run_here, library_default, part, run_check
from oracle.workflows.questions import report

_REPORT = 14.0  # seconds, about, that what follows the check takes
DEFAULT, ADVISED, FIXED = "library's default", "recommended", "best fixed length"


def conclude(job: Job, tuned: Mapping[str, Tuned], failed: Mapping[str, str]) -> Diagnosis:
    """Check the best draft's setting on the prompts that were kept apart, and say everything."""
    best, others = rivals([judge(name, each.trace, each.cost) for name, each in tuned.items()])
    one = tuned[best]
    default = library_default(one.pair)
    roles, judged = roles_of(one.tuning.policy, one.tuning.constant, default, one.pair)
    job, trace, runs = _checked(job, one, list(roles))
    job.tell("Writing the report ...")
    now, clocked = over_all([one.runs, runs], default)
    checked = check(trace, runs, one.cost, roles, judged)
    found = Found(
        draft=best,
        default=default,
        now=now,
        now_prompts=clocked,
        causes=causes(one.trace, default, one.cost),
        tuning=one.tuning,
        ran_as=judged,
        check=checked,
        what_if=what_if(one.trace, one.cost),
        cut=float(np.mean(one.trace.finish == "length")),
        max_new_tokens=job.kept.plan.max_new_tokens,
        budget=job.budget,
        rivals=others,
        failed=dict(failed),
        exhausted=job.kept.plan.recorded + checked.prompts >= len(job.prompts),
        parted=len({call.prompt for call in runs.calls if not call.equal}),
    )
    return _result(job, one, found, _page(job, one, found))


def roles_of(policy: str, constant: str, default: str, pair: Pair) -> tuple[dict[str, str], str]:
    """The policies of the check and what they are there for, the default first; and the one whose replay is judged.

    That is the recommended one, as it runs here; the best constant where no draft is recommended.
    """
    roles = {default: DEFAULT}

    def place(text: str, role: str) -> str:
        same = next((each for each in roles if what_runs(parse(each)) == what_runs(parse(text))), text)
        roles.setdefault(same, role)
        return same

    judged = None if policy == NO_DRAFT else place(as_run_here(policy, pair), ADVISED)
    fixed = place(constant, FIXED)
    return roles, judged or fixed


def _checked(job: Job, one: Tuned, policies: list[str]) -> tuple[Job, Trace, Runs]:
    """Plan the check from what is left of the budget, once, and run it."""
    if not job.kept.check:
        calls = {name: float(np.mean([call.total_seconds for call in one.runs.of(name)])) for name in one.runs.policies}
        each = max(calls[library_default(one.pair)], calls[CONSTANT])
        row = check_row(calls[PLAIN], each, len(policies), "assisted" if job.assisted else "plain")
        warm = check_warm_up(calls[PLAIN], each, len(policies), job.kept.plan.max_new_tokens)
        left = job.budget - job.spent - _REPORT - warm
        prompts, repeats = check_plan(left, row, job.kept.plan.kept)
        job = job.saved(prompts=prompts, repeats=repeats)
    prompts, repeats = job.kept.check["prompts"], job.kept.check["repeats"]
    job.tell(f"Checking {', '.join(policies)} on {prompts} other prompts ...")
    begin = job.kept.plan.recorded
    chosen = part(job.prompts, begin, begin + prompts)
    trace, runs = run_check(one.pair, chosen, policies, job.out / "check", job.work, repeats)
    return job.saved(), trace, runs


def _page(job: Job, one: Tuned, found: Found) -> Path:
    """The report of the trace, which opens with the answer, beside what was clocked on the same prompts."""
    calls = tuple(call for call in one.runs.calls if call.policy not in DRAWN)
    tokenizer = one.pair.tokenizer
    decode = None if tokenizer is None else lambda ids: [str(tokenizer.decode([each])) for each in ids]
    source = Source(one.trace, cost=one.cost, runs=replace(one.runs, calls=calls), decode=decode, diagnosis=found)
    return report(source, job.out / "report.html")


def _result(job: Job, one: Tuned, found: Found, page: Path) -> Diagnosis:
    use = settled(found)
    return Diagnosis(
        target=name_of(one.pair.target),
        draft=found.draft,
        data=one.trace.dataset,
        machine=_machine(one),
        answer=outcome(found),
        policy=use,
        settings=settings(use, one.trace.meta.get("draft")),
        found=found,
        plan=job.kept.plan,
        seconds=job.spent,
        folder=str(job.out),
        report=str(page),
    )


def _machine(one: Tuned) -> dict[str, Any]:
    return dict(one.runs.meta.get("machine") or {})
