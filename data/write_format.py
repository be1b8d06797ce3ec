"""Write data/FORMAT.md: what the files of a trace and of measured runs hold, from the declared columns.

python data/write_format.py
"""

from __future__ import annotations

from pathlib import Path

from documents import deliver

from oracle.records.columns import RUNS, TRACE, markdown

TEXT = """# What the files hold

Written by `python data/write_format.py` from `oracle/records/columns.py`, where every column is declared; do not edit.

Traces and measured runs are folders with a `meta.json` and Parquet files (zstd) that any Parquet reader opens. Readers
leave columns aside that they do not know. *shape*: one value a row, a list `[T]`, or a list of lists `[T][any]`;
columns of one shape have lists of equal lengths. *since*: the schema version of `meta.json` that brought the column.

## A trace: `part-*.parquet`

One row a prompt. T = tokens of the target's text, M = positions where the draft disagrees with it. `meta.json` says
which tokens end a text (`eos_token_ids`) and which kind of draft was recorded (`draft_kind`): `chain` (the usual one:
its choice depends on the text before it alone; `max_overrun` is the most tokens recorded after a disagreement) or
`round` (its choice depends on where the round began too; `round_limit` is the most tokens recorded of a round). A chain
has `draft_tokens`, `overrun_position` or both; a round has `run`.

{trace}
## Measured runs: `calls.parquet`, `call-*.parquet`

One row a call of the generator; I = its iterations.

{runs}"""


def main() -> None:
    text = TEXT.format(trace=markdown(TRACE), runs=markdown(RUNS))
    deliver(text, Path(__file__).parent / "FORMAT.md")


if __name__ == "__main__":
    main()
