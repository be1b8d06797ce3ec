"""``oracle simulate``: what policies would have done on a recorded trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, describe, load_trace
from oracle.commands.notes import note
from oracle.commands.numbers import interval_text, policy_text, share_text, short_count
from oracle.commands.options import InSample, Json, OneTrace, Policies, PriceOptions
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.replay.simulate import SimulationResult


def register(app: typer.Typer) -> None:
    app.command()(simulate)


@takes()
def simulate(
    prices: PriceOptions,
    trace: OneTrace = None,
    policy: Policies = None,
    in_sample: InSample = False,
    as_json: Json = False,
) -> None:
    """Replay policies over a trace, exactly, and price them.

    `oracle policies` lists them; beside those oracle:detect, oracle:clairvoyant, oracle:optimal, or one of your own
    as path/to/file.py:Name, which runs that file.  Example: --policy dynamic:threshold=0.4,tokens=20
    """
    from analysis.replay.simulate import USUAL
    from analysis.replay.simulate import simulate as replay
    from oracle.policies.names import taken_in_sample

    if in_sample:
        policy = [taken_in_sample(text) for text in policy or ()]
    loaded = load_trace(trace)
    cost = prices.load()
    check_together(loaded, cost=cost)
    results = [replay(loaded, text, cost) for text in policy or USUAL]
    if as_json:
        show_json([result_row(result) for result in results])
    else:
        show_results(results, describe(loaded))
    for result in results:
        context = loaded.context[loaded.offsets[result.prompt] + result.position]
        if outside := cost.outside_range(result.drafted, context):
            note(f"Warning: {result.policy}: {outside}; prices there are extrapolated.")


def show_results(results: Sequence[SimulationResult], title: str) -> None:
    """One row a policy; a speedup never stands without its interval."""
    from analysis.intervals import Estimate

    columns = ["policy", "iter.", "drafted", "accepted", "wasted", "acc.\nshare", "tokens\n/pass", "speedup [95 %]"]
    cells = [
        [
            policy_text(result.policy),
            *map(short_count, (result.iterations, result.draft_tokens, result.accepted_tokens, result.wasted)),
            share_text(result.accepted_tokens, result.draft_tokens),
            f"{result.tokens_per_iteration:.2f}",
            interval_text(Estimate(result.speedup, *result.speedup_interval())),
        ]
        for result in results
    ]
    show_table(title, columns, cells)
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


def result_row(result: SimulationResult) -> dict[str, Any]:
    """A result for programs."""
    low, high = result.speedup_interval()
    return {
        "policy": result.policy,
        "iterations": result.iterations,
        "drafted": result.draft_tokens,
        "passes": result.draft_passes,
        "accepted": result.accepted_tokens,
        "wasted": result.wasted,
        "tokens": result.tokens,
        "tokens_per_iteration": result.tokens_per_iteration,
        "speedup": result.speedup,
        "speedup_low": low,
        "speedup_high": high,
    }
