"""Put traces together as one, under the models' public names: how data/sample was made.

python data/make_sample.py OUT TRACE... --target NAME --draft NAME
"""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path
from typing import Annotated

import typer

from oracle.records.trace import Trace, iter_records, write_meta, write_part

SAME = ("eos_token_ids", "max_new_tokens", "max_overrun", "decoding", "reference", "chat", "dtype")


def main(
    out: Path,
    traces: list[Path],
    target: Annotated[str, typer.Option(help="Public name of the target.")],
    draft: Annotated[str, typer.Option(help="Public name of the draft.")],
) -> None:
    """Write the prompts of all TRACES, in order, to the new folder OUT."""
    loaded = [Trace.load(path) for path in traces]
    first = loaded[0].meta
    for path, trace in zip(traces, loaded, strict=True):
        for key in SAME:
            if trace.meta[key] != first[key]:
                raise typer.BadParameter(
                    f"{path} was collected with {key} {trace.meta[key]!r}, {traces[0]} with {first[key]!r}"
                )
    names = [trace.meta["prompts"]["dataset"] for trace in loaded]
    out.mkdir(parents=True)
    meta = {key: value for key, value in first.items() if key != "schema"}
    meta |= {
        "run_id": uuid.uuid4().hex,
        "pair": f"{target} + {draft}",
        "target": first["target"] | {"model": target},
        "draft": first["draft"] | {"model": draft},
        "prompts": {"dataset": " + ".join(names), "sources": [trace.meta["prompts"] for trace in loaded]},
        "prompts_planned": sum(trace.prompts for trace in loaded),
        "skipped": [entry for trace in loaded for entry in trace.meta["skipped"]],
    }
    write_meta(out, meta)
    for number, (name, trace) in enumerate(zip(names, loaded, strict=True)):
        write_part(
            out, number, [dataclasses.replace(record, id=f"{name}/{record.id}") for record in iter_records(trace)]
        )
    typer.echo(f"{out}: {meta['prompts_planned']} prompts, {sum(trace.tokens for trace in loaded):,} tokens")


if __name__ == "__main__":
    typer.run(main)
