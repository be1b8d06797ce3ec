import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from builders.traces import EOS, pattern, trace

from oracle.records import columns
from oracle.records.columns import RUNS, TRACE, Column
from oracle.records.runs import ITERATION_COLUMNS, Call
from oracle.records.trace import Record, Trace, iter_records, write_meta, write_part

ROOT = Path(__file__).parent.parent.parent
META = {"eos_token_ids": [EOS], "max_overrun": 4}
ADDED = Column(
    "topk_probability", pa.float32(), np.float32, "The draft's largest probabilities at t.", "token",
    inner="topk", optional=True, since=2, least=0, most=1,
)  # fmt: skip


def test_every_column_has_its_place_in_memory():
    assert {column.name for column in TRACE} == set(Record.__dataclass_fields__) - {"extra"}
    assert [column.name for column in RUNS] == list(Call.__dataclass_fields__)


def test_types_follow_from_the_declaration():
    schema = columns.schema(TRACE)
    assert schema.field("overrun_confidence").type == pa.list_(pa.list_(pa.float32()))
    assert schema.field("index").type == pa.int64()
    assert ITERATION_COLUMNS["accepted"] is np.int64 and ITERATION_COLUMNS["rest_seconds"] is np.float64


@pytest.mark.parametrize(
    ("name", "values", "at"),
    [
        ("confidence", [0.0, 1.0, 1.00005, -0.00005], None),
        ("confidence", [0.5, 1.01], 1),
        ("confidence", [0.5, np.nan, 2], 1),
        ("entropy", [0, 30.5], None),
        ("entropy", [0, -0.5], 1),
        ("entropy", [np.inf], 0),
        ("target_margin", [np.inf, 0], None),
        ("target_margin", [np.nan], 0),
        ("target_tokens", [0, 7, -1], 2),
        ("confidence", [], None),
    ],
)
def test_illegal_values_are_found(name, values, at):
    column = columns.by_name(TRACE)[name]
    assert column.illegal(np.array(values, column.dtype)) == at


def test_nan_is_legal_where_it_is_declared():
    threshold = columns.by_name(RUNS)["threshold"]
    assert threshold.illegal(np.array([0.4, np.nan, 0])) is None
    assert threshold.illegal(np.array([np.nan, -1])) == 1


def test_the_document_is_up_to_date():
    made = subprocess.run(
        [sys.executable, "data/write_format.py", "--show"], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    assert (ROOT / "data" / "FORMAT.md").read_text(encoding="utf-8") == made
    assert "| `entropy` | float | row [T] | from 0 | optional, chain drafts | 1 | Entropy (nats)" in made


def test_a_column_is_added_in_one_place(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "TRACE", (*TRACE, ADDED))
    values = [[[0.75, 0.25], [0.5]], [[], [1.0], [0.25, 0.125, 0.0]]]
    records = [
        dataclasses.replace(pattern(flags, index=n), extra={"topk_probability": [np.array(x) for x in values[n]]})
        for n, flags in enumerate(["+-", "++-"])
    ]
    write_meta(tmp_path, META)
    write_part(tmp_path, 0, records)
    for found in (Trace.load(tmp_path), Trace.from_records(records, META)):
        assert found.lacks == ()
        assert found.need("topk_probability", for_="a test").values.tolist() == [0.75, 0.25, 0.5, 1, 0.25, 0.125, 0]
        again = [[x.tolist() for x in record.extra["topk_probability"]] for record in iter_records(found)]
        assert again == values
        second = found.select(["p1"])
        assert [x.tolist() for x in second.extra["topk_probability"].row(0)] == values[1]
    assert "topk_probability" in columns.markdown(columns.TRACE)
    without = trace(pattern("+-"))
    assert without.lacks == ("topk_probability",)
    with pytest.raises(ValueError, match="this trace has no topk_probability: needed by a trained policy"):
        without.need("topk_probability", for_="a trained policy")
    records[0].extra["topk_probability"][0][0] = 1.5
    with pytest.raises(
        ValueError, match="records: damaged trace: row 0: column topk_probability holds 1.5; legal: 0 to 1"
    ):
        Trace.from_records(records, META)
