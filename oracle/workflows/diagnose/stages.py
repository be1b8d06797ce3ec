"""The steps for one draft, and the check: each writes into a folder of its own, and does not repeat what is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.cost import CostModel
from analysis.diagnosis.found import Tuning
from analysis.intervals import Estimate
from analysis.measured.calibrate import FIT, calibrate
from analysis.tune import tune
from oracle.collect import collect
from oracle.measure import measure
from oracle.models.pair import Pair
from oracle.policies import parse
from oracle.policies.learning import Roc
from oracle.policies.library import has_scikit_learn
from oracle.policies.semantics import default_policy, under
from oracle.policies.thresholds import Dynamic
from oracle.prompts.chat import Chat
from oracle.prompts.sets import PromptSet
from oracle.records.runs import Runs
from oracle.records.trace import Trace
from oracle.records.typed import read_json
from oracle.records.whole import write_whole
from oracle.workflows.diagnose.plan import Plan

CONSTANT = "constant:tokens=5"
DRAWN = FIT[:2]  # more prompts say more of prices than more draws on the same ones
_ESTIMATES = ("speedup", "over_constant")


@dataclass(frozen=True)
class Work:
    """What every step needs to know."""

    plan: Plan
    chat: bool | Chat
    progress: bool

    @property
    def options(self) -> dict[str, Any]:
        """For `measure` and `collect`: the folder is held by this run, so what is there is gone on with."""
        return {
            "max_new_tokens": self.plan.max_new_tokens,
            "chat": self.chat,
            "resume": True,
            "progress": self.progress,
        }


@dataclass(frozen=True)
class Tuned:
    """One draft on the tuning prompts."""

    pair: Pair
    runs: Runs  # plain, the library's default, one constant, and what prices were fitted on
    trace: Trace
    cost: CostModel
    tuning: Tuning


def library_default() -> str:
    """What transformers does where nothing is set: it moves its threshold where scikit-learn is installed."""
    return default_policy(has_scikit_learn())


def as_run_here(policy: str) -> str:
    """What the pasted settings of ``policy`` do on this machine."""
    rule = parse(policy)
    if type(rule) is Dynamic and rule.threshold > 0 and has_scikit_learn():
        refitted = Roc(threshold=rule.threshold, tokens=rule.tokens)
        return policy if type(under(refitted)) is Dynamic else str(refitted)
    return policy


def reference(pair: Pair) -> str:
    """Whose text is recorded: in half precision that of a run with a draft, whose passes round differently."""
    return "plain" if pair.target.dtype.itemsize >= 4 else "assisted"


def tune_draft(pair: Pair, prompts: PromptSet | Sequence, folder: Path, work: Work) -> Tuned:
    """Clock the first prompts, fit prices, record all, and tune.  Raises ValueError or RuntimeError where one fails."""
    plan = work.plan
    policies = [library_default(), CONSTANT, *DRAWN]
    runs = measure(
        pair, part(prompts, 0, plan.measured), policies, folder / "runs", repeats=plan.repeats, **work.options
    )
    cost = calibrate(runs, DRAWN).cost
    cost.save(folder / "cost.json")
    kept = part(prompts, 0, plan.recorded)
    collect(pair, kept, folder / "trace", reference=reference(pair), **work.options)
    trace = Trace.load(folder / "trace")
    return Tuned(pair, runs, trace, cost, _tuning(trace, runs, cost, folder / "tuned.json"))


def run_check(
    pair: Pair, prompts: PromptSet | Sequence, policies: Sequence[str], folder: Path, work: Work, repeats: int
) -> tuple[Trace, Runs]:
    """Record and clock the prompts that were kept apart."""
    collect(pair, prompts, folder / "trace", reference=reference(pair), **work.options)
    runs = measure(pair, prompts, policies, folder / "runs", repeats=repeats, **work.options)
    return Trace.load(folder / "trace"), runs


def part(prompts: PromptSet | Sequence, begin: int, end: int) -> Any:
    """Some of the prompts, of the same kind."""
    if not isinstance(prompts, PromptSet):
        return list(prompts)[begin:end]
    return PromptSet(prompts.name, prompts.prompts[begin:end], prompts.source)


def _tuning(trace: Trace, runs: Runs, cost: CostModel, file: Path) -> Tuning:
    """From the file where it was tuned on these very records, else anew."""
    origin = {"trace": trace.meta.get("run_id"), "runs": runs.meta.get("run_id"), "prompts": trace.prompts}
    if (before := _stored(file, origin)) is not None:
        return before
    found = tune(trace, cost)
    names = [name for name in Tuning.__dataclass_fields__]
    tuning = Tuning(**{name: getattr(found, name) for name in names})
    text = json.dumps({"of": origin, **_finite(asdict(tuning))}, indent=1, allow_nan=False)
    write_whole(file, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))
    return tuning


def _stored(file: Path, origin: dict[str, Any]) -> Tuning | None:
    """What is in the file; None where it is not of these records, or cannot be read: it is made again then."""
    try:
        stored = read_json(file)
        if stored.pop("of", None) != origin:
            return None
        for name in _ESTIMATES:
            stored[name] = Estimate(**{end: _number(value) for end, value in stored[name].items()})
        stored |= {name: tuple(stored[name]) for name in ("group", "sentences")}
        stored["optimism"] = _number(stored["optimism"])
        return Tuning(**stored)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _finite(value: Any) -> Any:
    """Numbers that JSON lacks as null."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
