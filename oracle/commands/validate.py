"""``oracle validate``: how far simulation is from the real generator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands import options as opt
from oracle.commands.calibrate import show_calibration
from oracle.commands.tables import interval_text, percent_text, policy_text, show_json, show_table

if TYPE_CHECKING:
    from analysis.measured.calibrate import Calibration
    from analysis.validation.validate import Budget, Row, Validation
    from oracle.models.pairs import Pair
    from oracle.prompts.sets import PromptSet

DEFAULT_VALIDATED = (
    "constant:tokens=2",
    "constant:tokens=5",
    "heuristic",
    "dynamic",
    "dynamic:threshold=0.6,tokens=10",
    "heuristic_transient:tokens=5,threshold=0.4",
)


def register(app: typer.Typer) -> None:
    app.command()(validate)


def validate(
    runs: Annotated[list[Path] | None, typer.Option("--runs", help="Runs that `oracle measure` recorded.")] = None,
    trace: Annotated[
        list[Path] | None, typer.Option("--trace", help="The trace of the same prompts, one for each --runs.")
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            "--cost", help="Cost model; default: for each of the runs one fitted on its own constant policies."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for traces, runs and cost where a pair is given.")] = Path(
        "runs/validation"
    ),
    pair: opt.PairName = None,
    target: opt.Target = None,
    draft: opt.Draft = None,
    dataset: opt.Datasets = None,
    split: opt.Split = None,
    limit: opt.Limit = 6,
    seed: opt.Seed = None,
    chat: opt.Chat = False,
    policy: opt.Policies = None,
    repeats: opt.Repeats = 5,
    max_new_tokens: opt.NewTokens = 96,
    max_overrun: opt.Overrun = 32,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    threads: opt.Threads = None,
    resume: opt.Resume = False,
    force: opt.Force = False,
    counts: Annotated[float, typer.Option(help="Budget: share of identical iterations in float32.")] = 1.0,
    median: Annotated[float, typer.Option(help="Budget: median error of the speedups; 0.03 is 3 %.")] = 0.03,
    worst: Annotated[float, typer.Option(help="Budget: worst error of a speedup.")] = 0.08,
    plot: Annotated[Path | None, typer.Option(help="Draw simulated against measured into this file.")] = None,
    progress: opt.Progress = True,
    as_json: opt.Json = False,
) -> None:
    """Compare simulation with the real generator: iteration by iteration, and second by second.

    Give --runs and --trace; or a pair and data sets, and it collects, measures, calibrates and compares in one go
    (without anything: the embedded pair on both demo sets).  In half precision the trace then holds the text of an
    assisted run.  Exit status 1 where the budget is not kept.
    """
    import oracle
    from analysis.validation.validate import Budget

    if runs or trace:
        if len(runs or ()) != len(trace or ()):
            raise ValueError(
                f"{len(runs or ())} --runs and {len(trace or ())} --trace: give one trace for each of the runs"
            )
        pairs = list(zip(trace, runs, strict=True))
    else:
        chosen = _to_validate(policy or DEFAULT_VALIDATED)
        sets = [
            oracle.load_prompts(name, split=split, limit=limit, seed=seed)
            for name in dataset or ("demo-code", "demo-text")
        ]
        loaded = opt.load_pair(pair, target, draft, dtype, device, draft_device, threads)
        settings = {
            "max_new_tokens": max_new_tokens,
            "chat": chat,
            "resume": resume,
            "force": force,
            "progress": progress,
        }
        pairs = [_collect_and_measure(loaded, prompts, chosen, repeats, max_overrun, out, settings) for prompts in sets]
    validation, fitted = _validate(pairs, cost, policy, Budget(counts=counts, median=median, worst=worst))
    for (_, folder), calibration in zip(pairs, fitted, strict=False):
        file = folder / "cost.json"
        calibration.cost.save(file)
        if not as_json:
            show_calibration(calibration, file)
    _draw(validation, plot)
    show_validation(validation, as_json)
    if not validation.passed:
        raise typer.Exit(1)


def _to_validate(policies: Sequence[str]) -> list[str]:
    """The policies, checked before anything is run."""
    from analysis.measured.calibrate import FIT
    from analysis.validation.validate import what_runs

    for policy in policies:
        if what_runs(policy) in map(what_runs, FIT):
            raise ValueError(f"policy {policy!r} is one that the prices are fitted on ({', '.join(FIT)}); name another")
    return list(policies)


def _collect_and_measure(
    pair: Pair,
    prompts: PromptSet,
    policies: Sequence[str],
    repeats: int,
    max_overrun: int,
    out: Path,
    settings: dict,
) -> tuple[Path, Path]:
    """Folders of the trace and of the runs."""
    import oracle
    from analysis.measured.calibrate import FIT

    trace, runs = out / f"trace-{prompts.name}", out / f"runs-{prompts.name}"
    opt.note(f"{prompts.name}: collecting {len(prompts)} prompts, then measuring {repeats} repeats ...")
    # Every pass of a run with a draft reads several tokens, and half precision rounds by how many.
    reference = "plain" if pair.target.dtype.itemsize >= 4 else "assisted"
    oracle.collect(pair, prompts, trace, reference=reference, max_overrun=max_overrun, **settings)
    oracle.measure(pair, prompts, [*FIT, *policies], runs, repeats=repeats, **settings)
    return trace, runs


def _validate(
    pairs: Sequence[tuple[Path, Path]], cost: Path | None, policy: Sequence[str] | None, budget: Budget
) -> tuple[Validation, list[Calibration]]:
    """The comparison, and the cost models that it fitted: one for each of the runs, none where ``cost`` is given.

    No machine is as fast in one hour as in the next, so prices are taken from arms that ran beside those they judge.
    """
    from analysis.cost import CostModel
    from analysis.measured.calibrate import calibrate as fit_cost
    from analysis.validation.validate import combine
    from analysis.validation.validate import validate as compare
    from oracle.records.trace import Trace

    runs = [opt.load_runs(path) for _, path in pairs]
    fitted = [fit_cost(one) for one in runs] if cost is None else []
    prices = [each.cost for each in fitted] or [CostModel.load(cost)] * len(runs)
    found = [
        compare(Trace.load(trace), one, price, policies=policy, budget=budget)
        for (trace, _), one, price in zip(pairs, runs, prices, strict=True)
    ]
    return combine(found), fitted


def _draw(validation: Validation, file: Path | None) -> None:
    from analysis.plots.canvas import save
    from analysis.plots.validation import Comparison, simulated_vs_measured_panels

    if file is not None and validation.rows:
        points = [Comparison(row.policy, row.simulated, row.measured, row.dataset) for row in validation.rows]
        opt.note(f"Picture: {save(simulated_vs_measured_panels(points), file)}")


def show_validation(validation: Validation, as_json: bool) -> None:
    """For each data set a row a policy, then where the errors come from; what differs and why; the verdict."""
    import dataclasses

    import numpy as np

    if as_json:
        rows = [dataclasses.asdict(row) for row in validation.rows]
        show_json({"passed": validation.passed, "failures": validation.failures, "rows": rows})
        return
    for name in dict.fromkeys(row.dataset for row in validation.rows):
        _show_data_set(name, [row for row in validation.rows if row.dataset == name])
    _show_divergences(validation)
    for row in validation.rows:
        place = f"{row.policy}, {row.dataset}"
        if row.difference is not None:
            opt.note(f"{place}: first difference: {row.difference}")
        if row.different_texts:
            opt.note(f"{place}: {row.different_texts} of {row.prompts} texts are not the trace's")
        if row.outside:
            opt.note(f"Warning: {place}: {row.outside}; prices there are extrapolated.")
    errors, spreads = validation.errors, [row.spread for row in validation.rows if np.isfinite(row.spread)]
    if len(errors):
        typer.echo(f"Error of the speedups: median {np.median(errors):.1%}, worst {errors.max():.1%}.")
    if spreads:
        typer.echo(
            f"Between repeats a measured speedup varies by {np.median(spreads):.1%} (standard deviation, median)."
        )
    typer.echo(
        "Within the budget." if validation.passed else "Not within the budget:\n  " + "\n  ".join(validation.failures)
    )


def _show_data_set(name: str, rows: Sequence[Row]) -> None:
    cells = [
        [
            policy_text(row.policy) + ("" if row.comparable else "\n (own loop,\n not judged)"),
            f"{row.identical:.2%}",
            interval_text(row.simulated),
            interval_text(row.measured),
            f"{row.error.value:+.1%}",
        ]
        for row in rows
    ]
    columns = ["policy", "same\niter.", "simulated [95 %]", "measured [95 %]", "error"]
    show_table(f"{name}: speedup of decoding, simulated and measured ({rows[0].prompts} prompts)", columns, cells)
    parts = [[policy_text(row.policy), *map(percent_text, (row.error, *row.parts.values()))] for row in rows]
    show_table(
        "Where the error comes from, % [95 %]; the parts add up to it", ["policy", "error", *rows[0].parts], parts
    )


def _show_divergences(validation: Validation) -> None:
    """Texts that are not plain decoding's, and how sure the target was where they leave it; nothing where all are."""
    import numpy as np

    rows = [
        [
            policy_text(row.policy),
            row.dataset.rpartition("/")[2],
            f"{len(row.divergences)} of {row.prompts}\n({len(row.divergences) / row.prompts:.0%})",
            sum(each.near_tie for each in row.divergences),
            f"{np.median([each.token for each in row.divergences]):.0f}",
            f"{np.median([each.margin for each in row.divergences]):.2g}",
            f"{max(each.margin for each in row.divergences):.2g}",
        ]
        for row in validation.rows
        if row.divergences
    ]
    if rows:
        columns = [
            "policy",
            "data",
            "texts",
            "near-\nties",
            "at token\n(median)",
            "lead there\n(median)",
            "largest\nlead",
        ]
        show_table("Texts that leave plain decoding's, and the target's lead there in logits", columns, rows)
