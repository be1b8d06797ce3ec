"""``oracle demo``: the whole path in one command, with the embedded pair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oracle.commands.collect import show_summary
from oracle.commands.destinations import check_folder
from oracle.commands.groups import takes
from oracle.commands.inputs import describe
from oracle.commands.notes import note, say
from oracle.commands.options import Count, Force, PairOptions, PriceOptions
from oracle.commands.simulate import show_results


def register(app: typer.Typer) -> None:
    app.command()(demo)


@takes()
def demo(
    out: Annotated[Path, typer.Argument(help="Folder for the traces and the picture.")] = Path("oracle-demo"),
    limit: Annotated[int, typer.Option(help="Prompts of each of the two demo sets."), Count] = 40,
    force: Force = False,
) -> None:
    """Collect with the embedded pair, simulate, plot: the whole path in under two minutes.

    Traces of the same demo are gone on with; others are replaced with --force only.
    """
    from oracle.prompts.sets import load_prompts
    from oracle.workflows.demo import SETS, check_picture, draw, record

    check_folder(out)
    if not force:
        check_picture(out)
    pair, cost = PairOptions().load(), PriceOptions().load()
    traces = {}
    for name in SETS:
        prompts = load_prompts(name, limit=limit)
        note(f"Collecting {len(prompts)} prompts of {name} ...")
        found = record(pair, prompts, out, cost, force=force, progress=True)
        show_summary(found.summary, found.folder)
        show_results(found.results, found.baseline, describe(found.trace))
        traces[name] = found.trace
    say(f"Picture: {draw(traces, out)}")
    say(
        "Next, with a real pair:\n"
        "  oracle simulate                                  a recorded 1.5B/0.5B pair\n"
        "  oracle diagnose --target ORG/BIG --draft ORG/SMALL --dataset mbpp --chat\n"
        "  oracle collect --target ORG/BIG --draft ORG/SMALL --dataset mbpp --chat\n",
        lines=True,
    )
