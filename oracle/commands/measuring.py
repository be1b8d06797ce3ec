"""``oracle measure``, ``calibrate`` and ``validate``: the real generator, its prices, and how far simulation is from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oracle.commands import options as opt
from oracle.commands.tables import policy_text, short_count, show_json, show_table

if TYPE_CHECKING:
    from analysis.calibrate import Calibration
    from analysis.validate import Validation
    from oracle.pairs import Pair
    from oracle.runs import Runs

DEFAULT_MEASURED = ("constant:tokens=5", "heuristic", "dynamic")
DEFAULT_VALIDATED = (
    "constant:tokens=2",
    "constant:tokens=5",
    "heuristic",
    "dynamic",
    "dynamic:threshold=0.6,tokens=10",
    "heuristic_transient:tokens=5,threshold=0.4",
)

NewTokens = Annotated[int, typer.Option("--max-new-tokens", help="Length limit of each text.")]
Repeats = Annotated[int, typer.Option("--repeats", help="How often each call is made.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on after the finished calls of an interrupted run.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Datasets = Annotated[list[str] | None, typer.Option("--dataset", help="As for collect; several may be given.", show_default=False)]


def register(app: typer.Typer) -> None:
    app.command()(measure)
    app.command()(calibrate)
    app.command()(validate)


def measure(
    out: Annotated[Path, typer.Argument(help="Folder of the runs.")] = Path("runs/measured"),
    pair: opt.PairName = None,
    target: opt.Target = None,
    draft: opt.Draft = None,
    dataset: opt.Dataset = "demo-code",
    split: opt.Split = None,
    limit: opt.Limit = 10,
    seed: opt.Seed = None,
    chat: opt.Chat = False,
    policy: opt.Policies = None,
    repeats: Repeats = 3,
    max_new_tokens: NewTokens = 128,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    resume: Resume = False,
    force: Force = False,
    progress: opt.Progress = True,
    as_json: opt.Json = False,
) -> None:
    """Run transformers' own assisted generation and plain decoding side by side, and clock every iteration."""
    import oracle

    prompts = oracle.load_prompts(dataset, split=split, limit=limit, seed=seed)
    loaded = opt.load_pair(pair, target, draft, dtype, device, draft_device)
    runs = oracle.measure(
        loaded,
        prompts,
        policy or DEFAULT_MEASURED,
        out,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        chat=chat,
        resume=resume,
        force=force,
        progress=progress,
    )
    show_measured(runs, out, as_json)


def show_measured(runs: Runs, out: Path, as_json: bool) -> None:
    """Measured speedups with their intervals, and the texts that are not plain decoding's."""
    import dataclasses

    from analysis.speedups import summary

    found = summary(runs)
    if as_json:
        show_json([dataclasses.asdict(each) for each in found])
        return
    rows = [
        [
            policy_text(each.policy) + ("" if each.generator == "library" else "\n (own loop)"),
            short_count(each.iterations),
            short_count(each.drafted),
            short_count(each.accepted),
            f"{each.seconds_per_token * 1000:.1f}",
            ratio(each.total),
            ratio(each.decoding),
        ]
        for each in found
    ]
    columns = ["policy", "iter.", "drafted", "accepted", "ms per\ntoken", "speedup\n[95 %]", "decoding only\n[95 %]"]
    show_table(f"{out}: {found[0].prompts} prompts, {found[0].repeats} repeats", columns, rows)
    for each in found:
        if each.different_texts:
            opt.note(f"Note: {each.policy}: {each.different_texts} texts are not those of plain decoding (`oracle validate` says why).")


def ratio(value: Any) -> str:
    """A speedup never stands without its interval."""
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def calibrate(
    out: Annotated[Path, typer.Argument(help="The cost model to write.")] = Path("cost.json"),
    runs: Annotated[list[Path] | None, typer.Option("--runs", help="Runs to fit; default: measure some now.")] = None,
    fit: Annotated[list[str] | None, typer.Option("--fit", help="Constant policies to fit on; default: those that ran.")] = None,
    pair: opt.PairName = None,
    target: opt.Target = None,
    draft: opt.Draft = None,
    dataset: opt.Dataset = "demo-code",
    limit: opt.Limit = 6,
    seed: opt.Seed = None,
    chat: opt.Chat = False,
    repeats: Repeats = 3,
    max_new_tokens: NewTokens = 64,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    progress: opt.Progress = True,
    as_json: opt.Json = False,
) -> None:
    """Fit what a draft step, a verification and an iteration cost on this machine, from short measured runs."""
    import oracle
    from analysis.calibrate import FIT
    from analysis.calibrate import calibrate as fit_cost

    if runs:
        measured = [opt.load_runs(path) for path in runs]
    else:
        prompts = oracle.load_prompts(dataset, limit=limit, seed=seed)
        loaded = opt.load_pair(pair, target, draft, dtype, device, draft_device)
        policies = list(fit or FIT)
        measured = [oracle.measure(loaded, prompts, policies, None, max_new_tokens=max_new_tokens, repeats=repeats, chat=chat, progress=progress)]
    calibration = fit_cost(measured, fit)
    calibration.cost.save(out)
    if as_json:
        import dataclasses

        show_json({"cost": str(out), "residuals": [dataclasses.asdict(each) for each in calibration.residuals]})
        return
    show_calibration(calibration, out)


def show_calibration(calibration: Calibration, out: Path) -> None:
    """The prices, the range that they were measured in, and how well they fit."""
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
    show_table(f"{out}: cost model at context length 0, fitted on {', '.join(calibration.policies)}", ["", f"m{cost.unit}" if milli > 1 else cost.unit], rows)
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
    opt.note(f"Next: oracle simulate TRACE --cost {out}")


def validate(
    runs: Annotated[list[Path] | None, typer.Option("--runs", help="Runs that `oracle measure` recorded.")] = None,
    trace: Annotated[list[Path] | None, typer.Option("--trace", help="The trace of the same prompts, one for each --runs.")] = None,
    cost: Annotated[Path | None, typer.Option("--cost", help="Cost model; default: fitted on the constant policies among the runs.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for traces, runs and cost where a pair is given.")] = Path("runs/validation"),
    pair: opt.PairName = None,
    target: opt.Target = None,
    draft: opt.Draft = None,
    dataset: Datasets = None,
    limit: opt.Limit = 8,
    seed: opt.Seed = None,
    chat: opt.Chat = False,
    policy: opt.Policies = None,
    repeats: Repeats = 3,
    max_new_tokens: NewTokens = 128,
    dtype: opt.Dtype = "auto",
    device: opt.Device = None,
    draft_device: opt.DraftDevice = None,
    resume: Resume = False,
    force: Force = False,
    counts: Annotated[float, typer.Option(help="Budget: share of identical iterations in float32.")] = 1.0,
    median: Annotated[float, typer.Option(help="Budget: median error of the speedups.")] = 0.03,
    worst: Annotated[float, typer.Option(help="Budget: worst error of a speedup.")] = 0.08,
    plot: Annotated[Path | None, typer.Option(help="Draw simulated against measured into this file.")] = None,
    progress: opt.Progress = True,
    as_json: opt.Json = False,
) -> None:
    """Compare simulation with the real generator: iteration by iteration, and second by second.

    Give --runs and --trace; or a pair and data sets, and it collects, measures, calibrates and compares in one go
    (without anything: the embedded pair on both demo sets).  Exit status 1 where the budget is not kept.
    """
    from analysis.validate import Budget

    if runs or trace:
        if len(runs or ()) != len(trace or ()):
            raise ValueError(f"{len(runs or ())} --runs and {len(trace or ())} --trace: give one trace for each of the runs")
        pairs = list(zip(trace, runs, strict=True))
    else:
        loaded = opt.load_pair(pair, target, draft, dtype, device, draft_device)
        settings = {"max_new_tokens": max_new_tokens, "chat": chat, "resume": resume, "force": force, "progress": progress}
        pairs = [
            _collect_and_measure(loaded, name, limit, seed, policy or DEFAULT_VALIDATED, repeats, out, settings)
            for name in dataset or ("demo-code", "demo-text")
        ]
    validation, calibration = _validate(pairs, cost, policy, Budget(counts=counts, median=median, worst=worst))
    if calibration is not None:
        file = (out if not runs else runs[0]) / "cost.json"
        calibration.cost.save(file)
        if not as_json:
            show_calibration(calibration, file)
    _draw(validation, plot)
    show_validation(validation, as_json)
    if not validation.passed:
        raise typer.Exit(1)


def _collect_and_measure(
    pair: Pair, name: str, limit: int | None, seed: int | None, policies, repeats: int, out: Path, settings: dict
) -> tuple[Path, Path]:
    import oracle
    from analysis.calibrate import FIT

    prompts = oracle.load_prompts(name, limit=limit, seed=seed)
    trace, runs = out / f"trace-{prompts.name}", out / f"runs-{prompts.name}"
    opt.note(f"{prompts.name}: collecting {len(prompts)} prompts, then measuring {repeats} repeats ...")
    oracle.collect(pair, prompts, trace, **settings)
    oracle.measure(pair, prompts, [*FIT, *policies], runs, repeats=repeats, **settings)
    return trace, runs


def _validate(pairs, cost: Path | None, policy, budget) -> tuple[Validation, Calibration | None]:
    from analysis.calibrate import calibrate as fit_cost
    from analysis.cost import CostModel
    from analysis.validate import combine
    from analysis.validate import validate as compare
    from oracle.trace import Trace

    traces = [Trace.load(trace) for trace, _ in pairs]
    runs = [opt.load_runs(path) for _, path in pairs]
    calibration = None if cost is not None else fit_cost(runs)
    prices = CostModel.load(cost) if calibration is None else calibration.cost
    found = [compare(trace, run, prices, policies=policy, budget=budget) for trace, run in zip(traces, runs, strict=True)]
    return combine(found), calibration


def _draw(validation: Validation, file: Path | None) -> None:
    from analysis.figures import save
    from analysis.plots_policies import Comparison, plot_simulated_vs_measured

    if file is not None:
        points = [Comparison(f"{row.policy}, {row.dataset}", row.simulated, row.measured) for row in validation.rows]
        opt.note(f"Picture: {save(plot_simulated_vs_measured(points).figure, file)}")


def show_validation(validation: Validation, as_json: bool) -> None:
    """A row a policy and data set, where the error comes from, and the verdict."""
    import dataclasses

    import numpy as np

    if as_json:
        rows = [{**dataclasses.asdict(row), "error": row.error} for row in validation.rows]
        show_json({"passed": validation.passed, "failures": validation.failures, "rows": rows})
        return
    rows = [
        [
            policy_text(row.policy),
            row.dataset,
            f"{row.identical:.2%}",
            ratio(row.simulated),
            ratio(row.measured),
            f"{row.error:+.1%}",
        ]
        for row in validation.rows
    ]
    show_table("Decoding speedup, simulated and measured", ["policy", "data", "same\niter.", "simulated [95 %]", "measured [95 %]", "error"], rows)
    names = list(validation.rows[0].parts)
    split = [[policy_text(row.policy), row.dataset, *(f"{row.parts[name]:+.1%}" for name in names)] for row in validation.rows]
    show_table("Where the error comes from (the parts add up)", ["policy", "data", *names], split)
    for row in validation.rows:
        if row.difference is not None:
            opt.note(f"{row.policy}, {row.dataset}: first difference: {row.difference}")
        if row.different_texts:
            opt.note(f"{row.policy}, {row.dataset}: {row.different_texts} of {row.prompts} texts are not the trace's")
    errors = validation.errors
    if len(errors):
        typer.echo(f"Error of the speedups: median {np.median(errors):.1%}, worst {errors.max():.1%}.")
    typer.echo("Within the budget." if validation.passed else "Not within the budget:\n  " + "\n  ".join(validation.failures))
