"""``oracle plot``: a picture of one trace or several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands import options as opt

SINGLE = ("heatmap",)  # pictures of one prompt's text


def register(app: typer.Typer) -> None:
    app.command()(plot)


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
    tokenizer: opt.Tokenizer = None,
) -> None:
    """Draw a picture: histogram, variance, position, iterations, hazard, survival, calibration, roc or heatmap.

    Several traces give one panel each.
    """
    from analysis.plots.canvas import save
    from analysis.plots.panels import PANELS
    from analysis.replay.simulate import USUAL

    kinds = [*PANELS, "variance", *SINGLE]
    *paths, kind = words
    if kind not in kinds:
        raise ValueError(f"{kind!r} is no kind of plot; the last word must be one of {', '.join(kinds)}")
    traces = opt.load_traces([Path(path) for path in paths])
    figure = _draw(traces, kind, policy or USUAL[:3], prompt, tokenizer)
    written = save(figure, output or Path(f"{kind}.png"))
    typer.echo(f"Picture: {written}")


def _draw(traces, kind: str, policies, prompt: int, tokenizer: str | None):
    from analysis.plots.heatmap import plot_heatmap
    from analysis.plots.iterations import plot_iterations
    from analysis.plots.panels import panel
    from analysis.replay.simulate import simulate

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
