"""``oracle simulate``: what policies would have done on a recorded trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from oracle.commands import options as opt
from oracle.commands.tables import interval_text, policy_text, short_count, show_json, show_table

if TYPE_CHECKING:
    from analysis.replay.simulate import SimulationResult


def register(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    trace: opt.OneTrace = None,
    policy: opt.Policies = None,
    draft_cost: opt.DraftCost = None,
    cost: opt.CostFile = None,
    as_json: opt.Json = False,
) -> None:
    """Replay policies over a trace, exactly, and price them.

    Policies: none, constant, heuristic, heuristic_transient, dynamic, roc, max-confidence, kangaroo, svip, survival,
    adaedl, p-min, staircase, oracle:detect, oracle:clairvoyant, oracle:optimal, or one of your own as
    path/to/file.py:Name, which runs that file.  Example: --policy dynamic:threshold=0.4,tokens=20
    """
    from analysis.replay.simulate import USUAL
    from analysis.replay.simulate import simulate as replay

    loaded = opt.load_trace(trace)
    prices = opt.load_cost(draft_cost, cost)
    results = [replay(loaded, text, prices) for text in policy or USUAL]
    show_results(results, opt.describe(loaded), as_json)
    for result in results:
        if outside := prices.outside_range(
            result.drafted, loaded.context[loaded.offsets[result.prompt] + result.position]
        ):
            opt.note(f"Warning: {result.policy}: {outside}; prices there are extrapolated.")


def show_results(results: list[SimulationResult], title: str, as_json: bool = False) -> None:
    """One row a policy; a speedup never stands without its interval."""
    from analysis.intervals import Estimate

    rows = [result_row(result) for result in results]
    if as_json:
        show_json(rows)
        return
    columns = ["policy", "iter.", "drafted", "accepted", "wasted", "acc.\nshare", "tokens\n/pass", "speedup [95 %]"]
    cells = [
        [
            policy_text(row["policy"]),
            *(short_count(row[key]) for key in ("iterations", "drafted", "accepted", "wasted")),
            f"{row['accepted'] / row['drafted']:.0%}" if row["drafted"] else "-",
            f"{row['tokens_per_iteration']:.2f}",
            interval_text(Estimate(row["speedup"], row["speedup_low"], row["speedup_high"])),
        ]
        for row in rows
    ]
    show_table(title, columns, cells)
    for result in results:
        if result.unrecorded:
            opt.note(
                f"Note: {result.policy}: {result.unrecorded} drafts are longer than the record; their length is an upper "
                "bound (an EOS there would end them), everything else is exact."
            )


def result_row(result: SimulationResult) -> dict[str, Any]:
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
