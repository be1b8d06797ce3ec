"""``oracle demo``: the whole path in one command, with the embedded pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands import options as opt
from oracle.commands.collect import show_summary
from oracle.commands.simulate import show_results


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Argument(help="Folder for the traces and the picture.")] = Path("oracle-demo"),
    limit: Annotated[int, typer.Option(help="Prompts of each of the two demo sets.")] = 40,
) -> None:
    """Collect with the embedded pair, simulate, plot: the whole path in under two minutes."""
    import oracle
    from analysis.plots.canvas import save
    from analysis.plots.panels import panel
    from analysis.replay.simulate import USUAL, simulate

    pair = opt.load_pair("demo", None, None, "auto", None, None)
    prices = opt.load_cost(None, None)
    traces = {}
    for name in ("demo-code", "demo-text"):
        prompts = oracle.load_prompts(name, limit=limit)
        opt.note(f"Collecting {len(prompts)} prompts of {name} ...")
        summary = oracle.collect(pair, prompts, out / name, force=True, progress=True)
        show_summary(summary, out / name)
        traces[name] = oracle.Trace.load(out / name)
        show_results([simulate(traces[name], text, prices) for text in USUAL], opt.describe(traces[name]))
    picture = out / "histogram.png"
    save(panel(traces, "histogram"), picture)
    typer.echo(f"Picture: {picture}")
    typer.echo(
        "Next, with a real pair:\n"
        "  oracle simulate                                  a recorded 1.5B/0.5B pair\n"
        "  oracle collect --target ORG/BIG --draft ORG/SMALL --dataset mbpp --chat\n"
        "  oracle simulate traces/... -p dynamic:threshold=0.6 -p constant:tokens=3\n"
    )
