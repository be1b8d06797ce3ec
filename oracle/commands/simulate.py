"""``oracle simulate``: what policies would have done on a recorded trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, describe, load_traces
from oracle.commands.ladder import show_ladder
from oracle.commands.notes import note
from oracle.commands.numbers import gain_text, interval_text, policy_text, share_text, short_count
from oracle.commands.options import Baseline, Format, InSample, Json, Policies, PriceOptions, Semantics, Traces
from oracle.commands.programs import plain, show_json
from oracle.commands.tables import check_form, printed_as, show_table, tell

if TYPE_CHECKING:
    from analysis.cost import CostModel
    from analysis.replay.result import Totals
    from analysis.replay.simulate import SimulationResult
    from analysis.replay.sweep import Baseline as ComparedWith
    from oracle.records.trace import Trace


def register(app: typer.Typer) -> None:
    app.command()(simulate)


@takes()
def simulate(
    prices: PriceOptions,
    traces: Traces = None,
    policy: Policies = None,
    baseline: Baseline = None,
    in_sample: InSample = False,
    semantics: Semantics = None,
    ladder: Annotated[
        bool,
        typer.Option("--ladder", help="From no draft to the best there could be: nine rungs, each held out."),
    ] = False,
    form: Format = "terminal",
    as_json: Json = False,
) -> None:
    """Replay policies over a trace, exactly, and price them.

    `oracle policies` lists them; beside those oracle:detect, oracle:clairvoyant, oracle:optimal, or one of your own
    as path/to/file.py:Name, which runs that file.  Example: --policy dynamic:threshold=0.4,tokens=20
    """
    from oracle.policies.names import taken_in_sample

    check_form(form, as_json)
    if ladder and (policy or baseline is not None or in_sample or semantics is not None):
        raise ValueError(
            "--ladder has rungs and a baseline of its own; leave out --policy, --baseline, "
            "--allow-in-sample and --semantics"
        )
    if in_sample:
        policy = [taken_in_sample(text) for text in policy or ()]
    loaded = load_traces(traces)
    costs = prices.each(loaded.values())
    for trace, cost in zip(loaded.values(), costs, strict=True):
        check_together(trace, cost=cost)
    answer: list[dict[str, Any]] = []
    with printed_as(form):
        for (name, trace), cost in zip(loaded.items(), costs, strict=True):
            known = {"trace": name, "prices": plain(cost)}
            if ladder:
                found = _climb(trace, cost, show=not as_json)
            else:
                found = _replay(trace, cost, policy, baseline, semantics, show=not as_json)
            answer += [known | each for each in found]
    if as_json:
        show_json(answer[0] if ladder and len(answer) == 1 else answer)


def _replay(
    trace: Trace, cost: CostModel, policy: list[str] | None, baseline: str | None, semantics: str | None, show: bool
) -> list[dict[str, Any]]:
    """Replay the policies, the usual ones where none is named, and show them; a row each for programs."""
    from analysis.replay.oracles import is_oracle
    from analysis.replay.simulate import simulate as replay
    from analysis.replay.sweep import baseline as compared_with
    from oracle.policies import as_policy
    from oracle.policies.semantics import caveats, in_force

    rules = in_force(semantics)
    results = (
        [replay(trace, text, cost, semantics=semantics) for text in policy]
        if policy
        else _usual(trace, cost, semantics)
    )
    compared = compared_with(trace, cost, baseline)
    if show:
        show_results(results, compared, describe(trace))
        if semantics is not None:
            tell(f"Policies of transformers follow the rules of {rules} ({rules.evidence}).")
    if semantics is not None:
        asked = [as_policy(each.policy) for each in results if not is_oracle(each.policy)]
        for text in caveats(asked, semantics):
            note(f"Note: {text}.")
    for result in results:
        context = trace.context[trace.offsets[result.prompt] + result.position]
        if outside := cost.outside_range(result.drafted, context):
            note(f"Warning: {result.policy}: {outside}; prices there are extrapolated.")
    return [result_row(result, compared.totals) | {"semantics": str(rules)} for result in results]


def _climb(trace: Trace, cost: CostModel, show: bool) -> list[dict[str, Any]]:
    from analysis.ladder.ladder import ladder as climb
    from analysis.ladder.words import headroom_sentence, remarks

    found = climb(trace, cost)
    if show:
        show_ladder(found, describe(trace))
    return [{"ladder": found, "headroom": headroom_sentence(found), "notes": remarks(found)}]


def _usual(trace: Trace, cost: CostModel, semantics: str | None) -> Sequence[SimulationResult]:
    """The usual policies, but those that read more than the trace holds, which are named."""
    from analysis.replay.simulate import USUAL, replay_all

    results, left_out = replay_all(trace, dict(zip(USUAL, USUAL, strict=True)), cost, semantics)
    for name, reason in left_out.items():
        note(f"Note: {name} is left out: {reason}")
    return results


def show_results(results: Sequence[SimulationResult], baseline: ComparedWith, title: str) -> None:
    """One row a policy; a speedup never stands without its interval, nor without what it gains over the baseline.

    The last lines say what the baseline is, and how many prompts are enough.
    """
    from analysis.replay.oracles import is_oracle
    from analysis.replay.paired import paired

    columns = [
        "policy", "iter.", "drafted\n(wasted)", "accepted\n(share)", "tokens\n/pass", "speedup\n[95 %]",
        "% over the\nbaseline\n[95 %]",
    ]  # fmt: skip
    cells = [
        [
            policy_text(result.policy),
            short_count(result.iterations),
            f"{short_count(result.draft_tokens)}\n({short_count(result.wasted)})",
            f"{short_count(result.accepted_tokens)}\n({share_text(result.accepted_tokens, result.draft_tokens)})",
            f"{result.tokens_per_iteration:.2f}",
            interval_text(result.speedup_estimate()).replace(" ", "\n", 1),
            "baseline" if result.policy == baseline.policy else gain_text(paired(baseline.totals, result)),
        ]
        for result in results
    ]
    show_table(title, columns, cells)
    tell(
        "Intervals are over prompts and the prices' standard errors."
        if baseline.totals.prices_vary
        else "Intervals are over prompts; the prices have no standard errors, count as exact."
    )
    tell(baseline_words(baseline))
    tried = [result for result in results if not is_oracle(result.policy) and result.policy != "none"]
    if tried and max(each.speedup for each in [*tried, baseline.totals]) < 1:
        tell("Each of these policies is slower than the target alone: a loss. `oracle stats` at these prices says why.")
    tell(enough_words(results, baseline.totals))
    if all(result.draft_tokens == 0 for result in results):
        note(
            "Note: nothing was drafted: no text leaves room for a draft, whose last token is the target's own; "
            "collect longer texts (--max-new-tokens)."
            if any(result.policy != "none" for result in results)
            else "Note: nothing was drafted: `none` is the target alone."
        )
    for result in results:
        if result.unrecorded:
            note(
                f"Note: {result.policy}: {result.unrecorded} drafts are longer than the record; their length is an "
                "upper bound (an EOS there would end them), everything else is exact."
            )


def baseline_words(baseline: ComparedWith) -> str:
    """What the policies were compared with, how it was chosen, and what that choice is worth on other prompts."""
    from analysis.replay.paired import FEWEST

    speedup = f"Baseline: {baseline.policy}, speedup {interval_text(baseline.totals.speedup_estimate())}"
    if baseline.tried == 0:
        return f"{speedup}."
    picked = f"{speedup}, the best of {baseline.tried} constant lengths on these prompts"
    if baseline.held_out is None:
        return f"{picked}; what it is worth on others cannot be told from fewer than {FEWEST} of them."
    return (
        f"{picked}; judged on prompts that did not choose it, the best has {interval_text(baseline.held_out.speedup)}."
    )


def enough_words(results: Sequence[SimulationResult], baseline: Totals) -> str:
    """How many prompts are enough to tell the fastest of ``results`` that is no oracle, else the baseline."""
    from analysis.replay.enough import enough
    from analysis.replay.oracles import is_oracle

    real = [result for result in results if not is_oracle(result.policy) and result.policy != "none"]
    return enough(max(real, key=lambda result: result.speedup) if real else baseline, baseline).sentence


def result_row(result: SimulationResult, baseline: Totals) -> dict[str, Any]:
    """A result for programs; ``baseline_ratio`` is the baseline's seconds over the policy's, paired by prompt."""
    from analysis.replay.paired import paired

    speedup, ratio = result.speedup_estimate(), paired(baseline, result)
    return {
        "policy": result.policy,
        "iterations": result.iterations,
        "drafted": result.draft_tokens,
        "passes": result.draft_passes,
        "accepted": result.accepted_tokens,
        "wasted": result.wasted,
        "tokens": result.tokens,
        "tokens_per_iteration": result.tokens_per_iteration,
        "speedup": asdict(speedup),
        "baseline": baseline.policy,
        "baseline_ratio": asdict(ratio),
    }
