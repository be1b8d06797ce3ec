"""``oracle plot``: a picture of one trace or several."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    from matplotlib.figure import Figure

    from oracle.records.trace import Trace

PANELS = ("histogram", "variance", "position", "hazard", "survival", "calibration", "roc")
PRICED = ("headroom", "surface", "time", "compare")  # those that prices change
OF_POLICIES = ("iterations", "time", "compare")
OF_PROMPT = ("iterations", "heatmap")
LOG = ("histogram", "variance")
KINDS = (*PANELS, "iterations", "heatmap", *PRICED)
_INCHES = (1.0, 40.0)  # of a side of a panel


@dataclass(frozen=True)
class LookOptions:
    """How a picture looks, whatever it shows."""

    title: Annotated[str | None, typer.Option("--title", help="Another title.")] = None
    size: Annotated[
        str | None, typer.Option("--size", metavar="WxH", help="Width and height of one panel in inches: 3.4x2.6.")
    ] = None
    dpi: Annotated[
        int | None, typer.Option("--dpi", help="Dots an inch, of a PNG (default: 200)."), Between(20, 1200)
    ] = None
    log: Annotated[
        bool, typer.Option("--log", help="Shares on a logarithmic axis (histogram, variance), for the tail.")
    ] = False

    @property
    def inches(self) -> tuple[float, float] | None:
        """``size`` in numbers.  Raises ValueError for anything else."""
        if self.size is None:
            return None
        number = r"(\d{1,3}(?:\.\d{1,3})?)"
        found = re.fullmatch(rf"{number}[xX×]{number}", self.size.strip(), re.ASCII)
        low, high = _INCHES
        if not found or not all(low <= float(side) <= high for side in found.groups()):
            raise ValueError(
                f"--size is {self.size!r}; it must be width x height in inches, {low:g} to {high:g} each: 3.4x2.6"
            )
        return float(found[1]), float(found[2])


@dataclass(frozen=True)
class _Wanted:
    """One picture, as the command line asks for it."""

    kind: str
    traces: Mapping[str, Trace]
    prices: PriceOptions
    policies: Sequence[str]
    prompt: str
    tokenizer: str | None
    look: LookOptions

    def only(self) -> Trace:
        """The one trace of a picture that shows one prompt, or policies on one data set."""
        if len(self.traces) > 1:
            raise ValueError(f"{self.kind} shows one trace; {len(self.traces)} are given")
        return next(iter(self.traces.values()))


def register(app: typer.Typer) -> None:
    app.command()(plot)


@takes()
def plot(
    prices: PriceOptions,
    look: LookOptions,
    words: Annotated[
        list[str], typer.Argument(metavar="[TRACE]... KIND", help="Trace folders (default: the sample), then the kind.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File: .png, .svg or .pdf; default: KIND.png.")
    ] = None,
    policy: Policies = None,
    prompt: Annotated[
        str | None,
        typer.Option(help="Id of the prompt, or its place in the trace from 0 (default), for iterations and heatmap."),
    ] = None,
    tokenizer: Tokenizer = None,
    force: Force = False,
) -> None:
    """Draw a picture.

    Kinds: histogram, variance, position, hazard, survival, calibration, roc: several traces give one panel each, with
    the same axes.  iterations and heatmap: one prompt.  headroom: the ladder of `oracle simulate --ladder`; surface:
    what `oracle tune` found; time: what a token's time is spent on; compare: policies against the best constant,
    paired; these four at the prices given.
    """
    from analysis.plots.canvas import FORMATS, PNG_DPI, save

    *paths, kind = words
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of plot; the last word must be one of {', '.join(KINDS)}")
    file = output or Path(f"{kind}.png")
    check_file(file, FORMATS, made=PICTURE, force=force)
    if look.dpi is not None and file.suffix.lower() != ".png":
        raise ValueError(f"--dpi is of a PNG, and {file.name} is none; leave it out")
    given = {
        "--policy": (policy is not None, OF_POLICIES),
        "--prompt": (prompt is not None, OF_PROMPT),
        "--tokenizer": (tokenizer is not None, ("heatmap",)),
        "--log": (look.log, LOG),
        "--draft-cost, --cost and --any-cost": (prices != PriceOptions(), PRICED),
    }
    for option, (used, kinds) in given.items():
        if used and kind not in kinds:
            raise ValueError(f"{kind} does not hang on {option}; leave it out, or draw {' or '.join(kinds)}")
    traces = load_traces([Path(path) for path in paths])
    wanted = _Wanted(kind, traces, prices, policy or _usual(traces.values()), prompt or "0", tokenizer, look)
    with _with_room(look):
        figure = _DRAWN.get(kind, _panels)(wanted)
        if look.title is not None:
            _title(figure, look.title)
        made = save(figure, file, look.dpi or PNG_DPI)
    say(f"Picture: {made}")


@contextlib.contextmanager
def _with_room(look: LookOptions) -> Iterator[None]:
    """Raise ValueError where a panel is too small for what stands around it: matplotlib would draw it all the same."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="constrained_layout not applied")
        try:
            yield
        except UserWarning:
            raise ValueError(
                f"--size is {look.size!r}, which leaves no room for the picture beside its words; give more, or a "
                "shorter --title"
            ) from None


def _usual(traces: Iterable[Trace]) -> Sequence[str]:
    """What a picture compares where nothing is named: of a lookup what the library has for it, constant lengths."""
    from analysis.replay.simulate import USUAL
    from oracle.policies.names import USUAL_LOOKED_UP

    return USUAL_LOOKED_UP if any(trace.mute for trace in traces) else USUAL[:3]


def _title(figure: Figure, title: str) -> None:
    """In place of a single panel's title; above those of several."""
    from analysis.plots.canvas import above, retitle

    if len(named := [ax for ax in figure.axes if ax.get_title(loc="left")]) == 1:
        retitle(named[0], title)
    else:
        above(figure, title)


def _panels(wanted: _Wanted) -> Figure:
    from analysis.plots.panels import panel

    return panel(wanted.traces, wanted.kind, size=wanted.look.inches, log=wanted.look.log)


def _iterations(wanted: _Wanted) -> Figure:
    from analysis.plots.iterations import place_of, plot_iterations
    from analysis.replay.simulate import simulate

    trace = wanted.only()
    prompt = place_of(trace, wanted.prompt)
    results = [simulate(trace, text) for text in wanted.policies]
    return _drawn(wanted, lambda ax: plot_iterations(trace, ax, results=results, prompt=prompt))


def _heatmap(wanted: _Wanted) -> Figure:
    from analysis.plots.heatmap import plot_heatmap
    from analysis.plots.iterations import place_of

    trace = wanted.only()
    prompt = place_of(trace, wanted.prompt)
    ids = trace.target_tokens[trace.offsets[prompt] : trace.offsets[prompt + 1]].tolist()
    decode = decoder(trace, wanted.tokenizer)
    tokens = decode(ids) if decode else [f"{token} " for token in ids]
    return _drawn(wanted, lambda ax: plot_heatmap(trace, tokens, ax, prompt=prompt))


def _headroom(wanted: _Wanted) -> Figure:
    """The ladder of each trace."""
    from analysis.plots.panels import panel

    for trace, cost in zip(wanted.traces.values(), wanted.prices.each(wanted.traces.values()), strict=True):
        check_together(trace, cost=cost)
    return panel(wanted.traces, wanted.kind, wanted.prices.given, size=wanted.look.inches)


def _surface(wanted: _Wanted) -> Figure:
    """What `oracle tune` finds on each trace."""
    from analysis.plots.surface import SIZE, surface_panels
    from analysis.tune import tune

    costs, found = wanted.prices.each(wanted.traces.values()), {}
    for (name, trace), cost in zip(wanted.traces.items(), costs, strict=True):
        check_together(trace, cost=cost)
        tuned = tune(trace, cost)
        if tuned.surface is None:
            raise ValueError(f"{name} has no such surface: {tuned.left_out['dynamic']}")
        found[name] = tuned.surface
    return surface_panels(found, wanted.look.inches or SIZE)


def _time(wanted: _Wanted) -> Figure:
    from analysis.plots.time import plot_time
    from analysis.replay.simulate import simulate

    trace = wanted.only()
    cost = wanted.prices.load(trace)
    check_together(trace, cost=cost)
    results = [simulate(trace, text, cost) for text in wanted.policies]
    return _drawn(wanted, lambda ax: plot_time(trace, ax, results=results))


def _compare(wanted: _Wanted) -> Figure:
    from analysis.plots.compare import plot_compare
    from analysis.replay.simulate import simulate
    from analysis.replay.sweep import baseline

    trace = wanted.only()
    cost = wanted.prices.load(trace)
    check_together(trace, cost=cost)
    results = [simulate(trace, text, cost) for text in wanted.policies]
    best = baseline(trace, cost).totals
    return _drawn(wanted, lambda ax: plot_compare(best, ax, results=results))


def _drawn(wanted: _Wanted, draw: Callable) -> Figure:
    """One panel, of the size that is asked for or the figure's own."""
    from analysis.plots.canvas import figure_of, new_axes

    size = wanted.look.inches
    return figure_of(draw(None if size is None else new_axes(size=size)[0]))


_DRAWN: dict[str, Callable[[_Wanted], Figure]] = {
    "iterations": _iterations,
    "heatmap": _heatmap,
    "headroom": _headroom,
    "surface": _surface,
    "time": _time,
    "compare": _compare,
}
