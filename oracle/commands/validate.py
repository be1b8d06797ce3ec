"""``oracle validate``: how far simulation is from the real generator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.bounds import Once
from oracle.commands.calibrate import show_calibration
from oracle.commands.destinations import PICTURE, check_file, check_folder
from oracle.commands.groups import takes
from oracle.commands.inputs import load_runs, load_trace, say_notes
from oracle.commands.notes import note, warnings_as_notes
from oracle.commands.numbers import interval_text, percent_text, policy_text
from oracle.commands.options import (
    AnyCost,
    Error,
    Format,
    Json,
    OutputOptions,
    Overrun,
    PairOptions,
    Policies,
    PromptSetsOptions,
    RunOptions,
    Share,
    check_any_cost,
    load_cost,
)
from oracle.commands.programs import show_json
from oracle.commands.tables import check_form, printed_as, show_table, tell

if TYPE_CHECKING:
    from analysis.validation.validate import Budget, Row, Validation
    from oracle.workflows.validate import Validated


def register(app: typer.Typer) -> None:
    app.command()(validate)


@takes(limit=6, repeats=5, max_new_tokens=96)
def validate(
    pair: PairOptions,
    prompts: PromptSetsOptions,
    run: RunOptions,
    output: OutputOptions,
    runs: Annotated[
        list[Path] | None, typer.Option("--runs", help="Runs that `oracle measure` recorded."), Once()
    ] = None,
    trace: Annotated[
        list[Path] | None, typer.Option("--trace", help="The trace of the same prompts, one for each --runs.")
    ] = None,
    cost: Annotated[
        Path | None,
        typer.Option(
            "--cost", help="Cost model; default: fitted on the runs themselves, on other repeats than those judged."
        ),
    ] = None,
    any_cost: AnyCost = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for traces, runs and cost models; default: runs/validation where a pair is given; with --runs "
            "nothing is written without it.",
        ),
    ] = None,
    policy: Policies = None,
    max_overrun: Overrun = 32,
    counts: Annotated[float, typer.Option(help="Budget: share of identical iterations in float32."), Share] = 1.0,
    median: Annotated[float, typer.Option(help="Budget: median error of the speedups; 0.03 is 3 %."), Error] = 0.03,
    worst: Annotated[float, typer.Option(help="Budget: worst error of a speedup."), Error] = 0.08,
    plot: Annotated[Path | None, typer.Option(help="Draw simulated against measured into this file.")] = None,
    form: Format = "terminal",
    as_json: Json = False,
) -> None:
    """Compare simulation with the real generator: iteration by iteration, and second by second.

    Give --runs and --trace; or a pair and data sets, and it collects, measures, calibrates and compares in one go
    (without anything: the embedded pair on both demo sets).  In half precision the trace then holds the text of an
    assisted run.  Prices are fitted on other repeats than those that are judged with them.  Exit status 1 where the
    budget is broken; 0 where it is kept, or where the runs cannot tell, which the last lines then say.
    """
    from analysis.plots.canvas import FORMATS
    from analysis.validation.validate import Budget
    from oracle.workflows import validate as workflow

    check_form(form, as_json)
    budget = Budget(counts=counts, median=median, worst=worst)
    if plot is not None:
        check_file(plot, FORMATS, made=PICTURE, force=output.force)
    check_any_cost(any_cost, cost)
    prices = load_cost(cost, any_cost) if cost is not None else None
    if runs or trace:
        if len(runs or ()) != len(trace or ()):
            raise ValueError(
                f"{len(runs or ())} --runs and {len(trace or ())} --trace: give one trace for each of the runs"
            )
        files = _cost_files(out, len(runs or ()), output.force) if out is not None and prices is None else []
        recorded = [load_trace(path) for path in trace or ()]
        found = workflow.compare(
            recorded, [load_runs(path) for path in runs or ()], prices, policies=policy, budget=budget
        )
    else:
        policies = workflow.to_validate(policy or (workflow.LOOKED_UP if pair.looks_up else workflow.POLICIES))
        out = out or Path("runs/validation")
        check_folder(out)
        sets = prompts.load()
        with warnings_as_notes():
            loaded = pair.load()
            found = workflow.validate(
                loaded,
                sets,
                policies,
                out,
                cost=prices,
                budget=budget,
                repeats=run.repeats,
                max_new_tokens=run.max_new_tokens,
                max_overrun=max_overrun,
                chat=prompts.chat,
                resume=output.resume,
                force=output.force,
                progress=output.progress,
                tell=note,
            )
        files = [folder / "cost.json" for folder in found.folders]
    say_notes(found.notes)
    with printed_as(form):
        _keep_prices(found, files, found.folders or runs or (), show=not as_json)
        _draw(found.validation, plot)
        if not as_json:
            show_validation(found.validation)
    if as_json:
        show_json({name: getattr(found.validation, name) for name in ("passed", "verdict", "failures", "open", "rows")})
    if found.failed:
        raise typer.Exit(1)


def _cost_files(out: Path, runs: int, force: bool) -> list[Path]:
    """Where the cost models of stored runs go.  Raises ValueError where one is there and may not be replaced."""
    check_folder(out)
    files = [out / ("cost.json" if runs == 1 else f"cost-{number + 1}.json") for number in range(runs)]
    for file in files:
        if file.exists() and not force:
            raise ValueError(f"{file} is there; --force replaces it, or name another --out")
    return files


def _keep_prices(found: Validated, files: Sequence[Path], titles: Sequence[Path], show: bool) -> None:
    """Save each fitted cost model where there is a file for it, and show it."""
    for number, calibration in enumerate(found.calibrations):
        if files:
            calibration.cost.save(files[number])
        if show:
            show_calibration(calibration, files[number] if files else titles[number])


def _draw(validation: Validation, file: Path | None) -> None:
    from analysis.plots.canvas import save
    from analysis.plots.validation import Comparison, simulated_vs_measured_panels

    if file is not None and validation.rows:
        points = [
            Comparison(row.policy, row.simulated, row.measured, row.dataset, row.error) for row in validation.rows
        ]
        note(f"Picture: {save(simulated_vs_measured_panels(points, validation.budget.worst), file)}")


def show_validation(validation: Validation) -> None:
    """For each data set a row a policy, then where the errors come from; what differs and why; the verdict."""
    import numpy as np

    for name in dict.fromkeys(row.dataset for row in validation.rows):
        _show_data_set(name, [row for row in validation.rows if row.dataset == name], validation.budget)
    _show_divergences(validation)
    for row in validation.rows:
        place = f"{row.policy}, {row.dataset}"
        if row.difference is not None:
            note(f"{place}: first difference: {row.difference}")
        if row.different_texts:
            note(f"{place}: {row.different_texts} of {row.prompts} texts are not the trace's")
        if row.outside:
            note(f"Warning: {place}: {row.outside}; prices there are extrapolated.")
    errors, spreads = validation.errors, [row.spread for row in validation.rows if np.isfinite(row.spread)]
    if len(errors):
        tell(f"Error of the speedups: median {np.median(errors):.1%}, worst {errors.max():.1%}.")
    if spreads:
        tell(f"Between repeats a measured speedup varies by {np.median(spreads):.1%} (standard deviation, median).")
    floors = [row.floor for row in validation.rows if row.comparable and np.isfinite(row.floor)]
    if floors:
        tell(f"Noise floor: a perfect simulator's error would be below {np.median(floors):.1%} 19 times in 20")
        tell(f"(median of the policies; worst {max(floors):.1%}); more repeats and prompts lower it.")
    if validation.failures:
        tell("Not within the budget:")
    elif validation.open:
        tell("Undecided: nothing breaks the budget, but the runs cannot show that it is kept:")
    else:
        tell("Within the budget.")
    for line in (*validation.failures, *validation.open):
        tell(f"  {line}")


def _show_data_set(name: str, rows: Sequence[Row], budget: Budget) -> None:
    cells = [
        [
            policy_text(row.policy) + ("" if row.comparable else "\n (own loop;\n not judged)"),
            f"{row.identical:.2%}",
            interval_text(row.simulated),
            interval_text(row.measured),
            percent_text(row.error),
            row.verdict(budget) or "not judged",
        ]
        for row in rows
    ]
    columns = ["policy", "same\niter.", "simulated [95 %]", "measured [95 %]", "error, %\n[95 %]", "verdict"]
    prices = "given prices" if rows[0].fitted == "given" else f"prices fitted on {rows[0].fitted}"
    title = f"{name}: speedup of decoding, simulated ({prices}) and measured ({rows[0].prompts} prompts)"
    show_table(title, columns, cells)
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
