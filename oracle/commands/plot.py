"""``oracle plot``: a picture of one trace or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oracle.commands.bounds import Between
from oracle.commands.destinations import PICTURE, check_file
from oracle.commands.groups import takes
from oracle.commands.inputs import check_together, decoder, load_traces
from oracle.commands.notes import say
from oracle.commands.options import Force, Policies, PriceOptions, Tokenizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.cost import CostModel
    from oracle.records.trace import Trace

SINGLE = ("heatmap",)  # pictures of one prompt's text
PRICED = "surface"  # the one that prices change


def register(app: typer.Typer) -> None:
    app.command()(plot)


@takes()
def plot(
    prices: PriceOptions,
    words: Annotated[
        list[str], typer.Argument(metavar="[TRACE]... KIND", help="Trace folders (default: the sample), then the kind.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File: .png, .svg or .pdf; default: KIND.png.")
    ] = None,
    policy: Policies = None,
    prompt: Annotated[
        int,
        typer.Option(
            help="Place of the prompt in the trace, from 0, for iterations and heatmap; the title shows its id."
        ),
        Between(0, 10_000_000),
    ] = 0,
    tokenizer: Tokenizer = None,
    force: Force = False,
) -> None:
    """Draw a picture: histogram, variance, position, iterations, hazard, survival, calibration, roc, heatmap, surface.

    Several traces give one panel each.  surface is what `oracle tune` found, at the prices given.
    """
    from analysis.plots.canvas import FORMATS, save
    from analysis.plots.panels import PANELS
    from analysis.replay.simulate import USUAL

    kinds = [*PANELS, "variance", *SINGLE, PRICED]
    *paths, kind = words
    if kind not in kinds:
        raise ValueError(f"{kind!r} is no kind of plot; the last word must be one of {', '.join(kinds)}")
    if kind != PRICED and (prices.draft_cost is not None or prices.cost is not None):
        raise ValueError(f"{kind} does not depend on prices; leave --draft-cost and --cost out, or draw {PRICED}")
    file = output or Path(f"{kind}.png")
    check_file(file, FORMATS, made=PICTURE, force=force)
    traces = load_traces([Path(path) for path in paths])
    if kind == PRICED:
        figure = _surface(traces, prices.load())
    else:
        figure = _draw(traces, kind, policy or USUAL[:3], prompt, tokenizer)
    say(f"Picture: {save(figure, file)}")


def _draw(
    traces: Mapping[str, Trace], kind: str, policies: Sequence[str], prompt: int, tokenizer: str | None
) -> Figure:
    from analysis.plots.heatmap import plot_heatmap
    from analysis.plots.iterations import plot_iterations
    from analysis.plots.panels import panel
    from analysis.replay.simulate import simulate

    if kind not in ("iterations", *SINGLE):
        return panel(traces, kind)
    if len(traces) > 1:
        raise ValueError(f"{kind} shows one prompt of one trace; {len(traces)} traces are given")
    trace = next(iter(traces.values()))
    if prompt >= trace.prompts:
        raise ValueError(f"prompt {prompt} is not in the trace; legal: 0 to {trace.prompts - 1}")
    if kind == "iterations":
        return _whole(plot_iterations(trace, results=[simulate(trace, text) for text in policies], prompt=prompt))
    ids = trace.target_tokens[trace.offsets[prompt] : trace.offsets[prompt + 1]].tolist()
    decode = decoder(trace, tokenizer)
    return _whole(plot_heatmap(trace, decode(ids) if decode else [f"{token} " for token in ids], prompt=prompt))


def _surface(traces: Mapping[str, Trace], cost: CostModel) -> Figure:
    """What `oracle tune` finds on each trace."""
    from analysis.plots.surface import surface_panels
    from analysis.tune import tune

    found = {}
    for name, trace in traces.items():
        check_together(trace, cost=cost)
        tuned = tune(trace, cost)
        if tuned.surface is None:
            raise ValueError(f"{name} has no such surface: {tuned.left_out['dynamic']}")
        found[name] = tuned.surface
    return surface_panels(found)


def _whole(axes: Axes) -> Figure:
    """The figure that the axes are in."""
    found = axes.get_figure(root=True)
    assert found is not None
    return found
