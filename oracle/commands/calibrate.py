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
            "--fit",
            help="Policies to fit on, of drawn or constant lengths; default: lookaheads drawn anew for each iteration; "
            "of stored runs that have none, constant ones.",
        ),
        Once(),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit what a draft step, a verification and an iteration cost on this machine, from short measured runs.

    What is measured stays in a folder beside OUT (cost.json: cost-runs), so that an interrupted run can go on.
    """
    from analysis.measured.calibrate import FIT, check_policies
    from oracle.workflows.questions import calibrate as fit_cost

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
    """The prices with their standard errors, the range that they were measured in, and how well they fit."""
    from analysis.measured.disturbances import LIMIT
    from analysis.price_errors import standard_errors

    cost = calibration.cost
    milli = 1000 if cost.unit == "s" else 1
    errors = standard_errors(cost)

    def row(what: str, price: float, name: str, times: float = 1.0, digits: int = 2) -> tuple[str, str, str]:
        error = f"{errors[name] * times * milli:.{digits}f}" if name in errors else ""
        return what, f"{price * times * milli:.{digits}f}", error

    first = cost.draft if cost.draft_first is None else cost.draft_first
    start = [row("first draft step of a round", first, "draft" if cost.draft_first is None else "draft_first")]
    phases = [row(f"drafting {tokens}", price, f"draft_phase.{tokens}") for tokens, price in cost.draft_phase]
    context = "per 100 tokens of context: "
    rows = [
        row("plain decoding step", float(cost.step(0)), "verify.1" if cost.plain is None else "plain"),
        row("draft step, on average" if phases else "draft step", cost.draft, "draft"),
        *(phases or start),
        *(row(f"verification of {tokens}", price, f"verify.{tokens}") for tokens, price in cost.verify),
        row("constant per iteration", cost.iteration, "iteration"),
        row(f"{context}draft step", cost.draft_context, "draft_context", 100, 3),
        row(f"{context}target pass", cost.verify_context, "verify_context", 100, 3),
    ]
    ranges = ", ".join(f"{name} {low}-{high}" for name, (low, high) in cost.measured_range.items())
    title = f"{out}: cost model at context length 0, fitted on {', '.join(calibration.policies)}"
    show_table(title, ["", f"m{cost.unit}" if milli > 1 else cost.unit, "standard\nerror"], rows)
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
