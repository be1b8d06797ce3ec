"""``oracle calibrate``: what the passes of a pair cost on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.bounds import Once
from oracle.commands.destinations import check_file
from oracle.commands.groups import takes
from oracle.commands.inputs import load_runs, say_notes
from oracle.commands.measure import clocked
from oracle.commands.notes import note, note_next
from oracle.commands.options import Json, OutputOptions, PairOptions, PromptOptions, RunOptions
from oracle.commands.programs import show_json
from oracle.commands.tables import show_table

if TYPE_CHECKING:
    from analysis.measured.calibrate import Calibration


def register(app: typer.Typer) -> None:
    app.command()(calibrate)


@takes(limit=6, max_new_tokens=64)
def calibrate(
    pair: PairOptions,
    prompts: PromptOptions,
    run: RunOptions,
    output: OutputOptions,
    out: Annotated[Path, typer.Argument(help="The cost model to write.")] = Path("cost.json"),
    runs: Annotated[
        list[Path] | None, typer.Option("--runs", help="Runs to fit; default: measure some now."), Once()
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            "--fit", help="Constant policies to fit on; default: tokens=1, 3, 8 and 20, as far as they ran, else all."
        ),
        Once(),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit what a draft step, a verification and an iteration cost on this machine, from short measured runs.

    What is measured stays in a folder beside OUT (cost.json: cost-runs), so that an interrupted run can go on.
    """
    from analysis.measured.calibrate import FIT, check_policies
    from oracle.workflows.study import calibrate as fit_cost

    check_policies(list(fit or FIT))
    _expect_free(out, output.resume, output.force)
    measured = [load_runs(path) for path in runs or ()]
    calibration = fit_cost(measured or clocked(pair, prompts, run, output, list(fit or FIT), _beside(out)), fit)
    calibration.cost.save(out)
    say_notes(calibration.notes)
    if as_json:
        show_json({"cost": str(out), "residuals": calibration.residuals})
        return
    show_calibration(calibration, out)
    note_next(("oracle", "simulate", "TRACE", "--cost", out))


def _expect_free(out: Path, resume: bool, force: bool) -> None:
    """Refuse what must not be replaced, before anything is measured.  Raises ValueError."""
    from analysis.cost import CostModel

    check_file(out)
    if force or not out.is_file():
        return
    try:
        CostModel.load(out)
    except ValueError:
        raise ValueError(f"{out} is there and is no cost model; --force replaces it, or name another file") from None
    if not resume:
        raise ValueError(f"{out} is a cost model already; --force replaces it, --resume goes on with its runs")


def _beside(out: Path) -> Path:
    """Folder of the runs that the cost model ``out`` is fitted on."""
    return out.with_name(f"{out.stem}-runs")


def show_calibration(calibration: Calibration, out: Path) -> None:
    """The prices, the range that they were measured in, and how well they fit."""
    from analysis.measured.disturbances import LIMIT

    cost = calibration.cost
    milli = 1000 if cost.unit == "s" else 1
    first = cost.draft if cost.draft_first is None else cost.draft_first
    rows = [
        ("plain decoding step", f"{float(cost.step(0)) * milli:.2f}"),
        ("draft step", f"{cost.draft * milli:.2f}"),
        ("first draft step of a round", f"{first * milli:.2f}"),
        *((f"verification of {tokens}", f"{price * milli:.2f}") for tokens, price in cost.verify),
        ("constant per iteration", f"{cost.iteration * milli:.2f}"),
        ("per 100 tokens of context: draft step", f"{cost.draft_context * 100 * milli:.3f}"),
        ("per 100 tokens of context: verification", f"{cost.verify_context * 100 * milli:.3f}"),
    ]
    ranges = ", ".join(f"{name} {low}-{high}" for name, (low, high) in cost.measured_range.items())
    title = f"{out}: cost model at context length 0, fitted on {', '.join(calibration.policies)}"
    show_table(title, ["", f"m{cost.unit}" if milli > 1 else cost.unit], rows)
    show_table(
        f"Residuals (range: {ranges})",
        ["part", "tokens", "rows", "measured ms", "fitted ms", "error", "scatter"],
        [
            [
                each.part,
                each.tokens,
                each.rows,
                f"{each.measured * milli:.2f}",
                f"{each.fitted * milli:.2f}",
                f"{each.error:+.1%}",
                f"{each.scatter:.1%}",
            ]
            for each in calibration.residuals
        ],
    )
    if calibration.disturbed:
        note(
            f"Note: {calibration.disturbed} of {calibration.calls} calls were slow alone (over {LIMIT} times the "
            "median of their repeats) and are left out of the fit."
        )
