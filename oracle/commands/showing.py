"""``oracle fit``, ``stats``, ``plot`` and ``report``: what a trace says, in numbers, pictures and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands import options as opt
from oracle.commands.tables import number_text, show_json, show_table

SINGLE = ("heatmap",)  # pictures of one prompt's text
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="Its folder, or a model in the cache of Hugging Face; default: the trace's target, if it is in that cache.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(fit)
    app.command()(stats)
    app.command()(plot)
    app.command()(report)


def fit(
    traces: opt.Traces = None,
    draws: Annotated[int, typer.Option(help="Draws of the goodness-of-fit test.")] = 200,
    as_json: opt.Json = False,
) -> None:
    """Fit distributions to the oracle SL, runs cut short by a text's end counted as "at least this long".

    Families: geometric (independent acceptance), zero-inflated and mixed geometric, beta-geometric, negative binomial,
    discrete Weibull.  Lengths are accepted tokens r, from 0.
    """
    import dataclasses

    from analysis.distributions import Counts, fit_all, goodness_of_fit
    from oracle.trace import oracle_positions

    answer = []
    for name, trace in opt.load_traces(traces).items():
        at = oracle_positions(trace)
        counts = Counts.from_samples(trace.accepted_run[at], trace.censored[at])
        fits = fit_all(counts)
        tests = [goodness_of_fit(counts, each, draws) for each in fits]
        answer += [
            {"trace": name, **dataclasses.asdict(each), "goodness": dataclasses.asdict(test)}
            for each, test in zip(fits, tests, strict=True)
        ]
        if not as_json:
            _show_fits(name, counts.n, int(counts.censored.sum()), fits, tests)
    if as_json:
        show_json(answer)


def _show_fits(name: str, runs: int, censored: int, fits, tests) -> None:
    title = f"{name}: {runs:,} oracle iterations, {censored:,} cut short; accepted tokens r"
    columns = ["family", "log-lik.", "ΔAIC", "fit p", "mean", "parameters [95 %]"]
    rows = []
    for each, test in zip(fits, tests, strict=True):
        parameters = "\n".join(
            f"{key} {number_text(value.value)} [{number_text(value.low)}, {number_text(value.high)}]"
            for key, value in each.parameters.items()
        )
        p = "-" if test.p != test.p else f"{test.p:.3f}"
        row = [f"{each.log_likelihood:,.1f}", f"{each.delta_aic:,.1f}", p, number_text(each.mean), parameters]
        rows.append(["-\n".join(each.family.rsplit("-", 1)), *row])
    show_table(title, columns, rows)
    for each in fits:
        if each.status != "ok" or each.note:
            opt.note(
                f"  {each.family}: {'; '.join(text for text in (each.status, each.note) if text != 'ok' and text)}"
            )
    meanings: dict[tuple[str, str], list[str]] = {}
    for each in fits:
        for key, meaning in each.meanings.items():
            meanings.setdefault((key, meaning), []).append(each.family)
    names = [key for key, _ in meanings]
    for (key, meaning), families in meanings.items():
        where = f" ({', '.join(families)})" if names.count(key) > 1 else ""
        opt.note(f"  {key}{where}: {meaning}")


def stats(
    traces: opt.Traces = None,
    draft_cost: opt.DraftCost = None,
    cost: opt.CostFile = None,
    as_json: opt.Json = False,
) -> None:
    """Describe the oracle SL: its spread, where it comes from, and what predicts it; then the verdict in words."""
    from analysis.report_study import Source, study
    from analysis.statistics import plain

    prices = opt.load_cost(draft_cost, cost)
    answer = []
    for name, trace in opt.load_traces(traces).items():
        found = study(Source(trace, name, prices), name, ())
        answer.append(
            {
                "trace": name,
                "statistics": plain(found.description),
                "signals": plain(found.signals),
                "verdict": plain(found.verdict),
            }
        )
        if not as_json:
            _show_statistics(name, found)
    if as_json:
        show_json(answer)


def _show_statistics(name: str, found) -> None:
    whole, some = found.description.everything, found.description.without_loops
    columns = ["", "all texts [95 %]"] + (["without loops"] if some else [])
    rows = []
    for label, pick in _STATISTICS:
        rows.append([label, _interval(pick(whole)), *([_interval(pick(some))] if some else [])])
    show_table(
        f"{name}: {whole.accepted.iterations:,} oracle iterations of {whole.accepted.prompts} prompts", columns, rows
    )
    signal_rows = [
        [each.signal, _interval(each.auc), _interval(each.calibration_error), _interval(each.brier)]
        for each in found.signals
    ]
    show_table(
        f"Signals as predictors of acceptance, {found.signals[0].positions}",
        ["signal", "AUC", "calibration error", "Brier score"],
        signal_rows,
    )
    for sentence in found.verdict.sentences:
        typer.echo(sentence)
    typer.echo()


_STATISTICS = (
    ("mean accepted (r)", lambda s: s.accepted.mean),
    ("mean detect (r + 1)", lambda s: s.detect.mean),
    ("SD", lambda s: s.accepted.sd),
    ("median accepted", lambda s: s.accepted.median),
    ("trimmed mean accepted (10 % off either end)", lambda s: s.accepted.trimmed_mean),
    ("largest accepted", lambda s: s.accepted.largest),
    ("mean accepted over all positions", lambda s: s.averages.over_positions),
    ("variance over a geometric's of the same mean", lambda s: s.accepted.dispersion),
    ("  the same for i.i.d. texts of these lengths", lambda s: s.iid_dispersion),
    ("acceptance rate (censoring counted)", lambda s: s.acceptance_rate),
    ("iterations cut short", lambda s: s.censoring.iterations),
    ("accepted tokens in the longest 1 %", lambda s: s.longest_share),
    ("variance between prompts (intra-class corr.)", lambda s: s.heterogeneity.icc),
    ("design effect", lambda s: s.heterogeneity.design_effect),
    ("lag-1 autocorrelation within prompts", lambda s: s.heterogeneity.lag1),
)


def _interval(value) -> str:
    if not hasattr(value, "low"):
        return number_text(value)
    return f"{number_text(value.value)} [{number_text(value.low)}, {number_text(value.high)}]"


def plot(
    words: Annotated[
        list[str], typer.Argument(metavar="[TRACE]... KIND", help="Trace folders (default: the sample), then the kind.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File: .png, .svg or .pdf; default: KIND.png.")
    ] = None,
    policy: opt.Policies = None,
    prompt: Annotated[
        int,
        typer.Option(
            help="Place of the prompt in the trace, from 0, for iterations and heatmap; the title shows its id."
        ),
    ] = 0,
    tokenizer: Tokenizer = None,
) -> None:
    """Draw a picture: histogram, variance, position, iterations, hazard, survival, calibration, roc or heatmap.

    Several traces give one panel each.
    """
    from analysis.figures import save
    from analysis.plots import PANELS
    from analysis.simulate import USUAL

    kinds = [*PANELS, "variance", *SINGLE]
    *paths, kind = words
    if kind not in kinds:
        raise ValueError(f"{kind!r} is no kind of plot; the last word must be one of {', '.join(kinds)}")
    traces = opt.load_traces([Path(path) for path in paths])
    figure = _draw(traces, kind, policy or USUAL[:3], prompt, tokenizer)
    written = save(figure, output or Path(f"{kind}.png"))
    typer.echo(f"Picture: {written}")


def _draw(traces, kind: str, policies, prompt: int, tokenizer: str | None):
    from analysis.plots import panel
    from analysis.plots_heatmap import plot_heatmap
    from analysis.plots_policies import plot_iterations
    from analysis.simulate import simulate

    if kind not in ("iterations", *SINGLE):
        return panel(traces, kind)
    if len(traces) > 1:
        raise ValueError(f"{kind} shows one prompt of one trace; {len(traces)} traces are given")
    trace = next(iter(traces.values()))
    if kind == "iterations":
        return plot_iterations(trace, results=[simulate(trace, text) for text in policies], prompt=prompt).figure
    if not 0 <= prompt < trace.prompts:
        raise ValueError(f"prompt {prompt} is not in the trace; legal: 0 to {trace.prompts - 1}")
    ids = trace.target_tokens[trace.offsets[prompt] : trace.offsets[prompt + 1]].tolist()
    decode = opt.decoder(trace, tokenizer)
    return plot_heatmap(trace, decode(ids) if decode else [f"{token} " for token in ids], prompt=prompt).figure


def report(
    traces: opt.Traces = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Runs that `oracle measure` recorded, for one trace.")
    ] = None,
    policy: opt.Policies = None,
    draft_cost: opt.DraftCost = None,
    cost: opt.CostFile = None,
    tokenizer: Tokenizer = None,
) -> None:
    """Write one self-contained page: what was collected, the verdict, figures, tables, and single prompts to look into."""
    from analysis.report import Source
    from analysis.report import report as write_report
    from analysis.simulate import USUAL

    prices = opt.load_cost(draft_cost, cost)
    loaded = opt.load_traces(traces)
    if runs is not None and len(loaded) > 1:
        raise ValueError(f"--runs belongs to one trace, {len(loaded)} are given; write a report for each")
    measured = opt.load_runs(runs) if runs is not None else None
    sources = [Source(trace, name, prices, measured, opt.decoder(trace, tokenizer)) for name, trace in loaded.items()]
    typer.echo(f"Page: {write_report(sources, output, policies=policy or USUAL)}")
