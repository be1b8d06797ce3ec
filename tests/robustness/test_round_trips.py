"""What is written is read back the same: cost models, traces, files of prompts."""

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from builders.traces import EOS, record
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.cost import CostModel
from oracle.prompts.sets import load_prompts
from oracle.records.trace import Trace, iter_records, to_table, write_meta, write_part
from oracle.records.typed import MOST_COUNT, MOST_PRICE

STEADY = settings(derandomize=True, deadline=None, max_examples=40)  # the same examples on every machine
PRICES = st.floats(0, MOST_PRICE)
ABOVE_0 = st.floats(0, MOST_PRICE, exclude_min=True)
COUNTS = st.integers(0, MOST_COUNT)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)  # all but halves of characters
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
# fmt: skip


@st.composite
def curves(draw):
    """Prices of verification: from one token on, never falling."""
    counts = sorted({1, *draw(st.lists(st.integers(2, MOST_COUNT), max_size=5))})
    prices = sorted(draw(st.lists(ABOVE_0, min_size=len(counts), max_size=len(counts))))
    return tuple(zip(counts, prices, strict=True))


COSTS = st.builds(
    CostModel,
    draft=PRICES, draft_first=st.none() | PRICES, draft_context=PRICES, verify=curves(), verify_context=PRICES,
    iteration=PRICES, plain=st.none() | ABOVE_0, plain_context=st.none() | PRICES, draft_prefill=PRICES,
    target_prefill=PRICES, unit=TEXT, machine=st.dictionaries(TEXT, JSON, max_size=3),
    measured_range=st.fixed_dictionaries(
        {}, optional={name: st.tuples(COUNTS, COUNTS).map(sorted) for name in ("tokens", "context")}
    ),
)  # fmt: skip


@st.composite
def records(draw):
    """Records of a chain draft, their ids and values of any legal kind."""
    found = []
    tokens, share = st.integers(1, 2**31 - 1), st.floats(0, 1, width=32)
    for index, name in enumerate(draw(st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True))):
        target = draw(st.lists(tokens, min_size=1, max_size=8))
        ends = draw(st.booleans())
        target = [*target, EOS] if ends else target
        drafted = [draw(st.sampled_from([token, 5])) for token in target]
        branches = {
            at: draw(st.lists(st.tuples(tokens, share), max_size=4))
            for at, token in enumerate(drafted)
            if token != target[at]
        }
        sure = draw(st.lists(share, min_size=len(target), max_size=len(target)))
        limit = len(target) + (draw(st.integers(0, 3)) if ends else 0)
        made = record(target, drafted, confidence=sure, overruns=branches, limit=limit, index=index)
        found.append(dataclasses.replace(made, id=name, prompt_tokens=np.array(draw(st.lists(tokens, min_size=1))[:6])))
    return found


ROWS = st.one_of(
    st.fixed_dictionaries({"prompt": TEXT}),
    st.fixed_dictionaries({"instruction": TEXT, "input": TEXT}),
    st.fixed_dictionaries({"article": TEXT, "highlights": TEXT}),
    st.fixed_dictionaries({"text": TEXT, "test_list": st.lists(TEXT, min_size=1, max_size=2)}),
).flatmap(lambda row: st.lists(st.fixed_dictionaries({key: _alike(value) for key, value in row.items()}), min_size=1,
max_size=4))  # fmt: skip


def _alike(value):
    return st.lists(TEXT, min_size=1, max_size=2) if isinstance(value, list) else TEXT


@STEADY
@given(COSTS)
def test_a_cost_model_is_loaded_as_it_was_saved(cost):
    with tempfile.TemporaryDirectory() as folder:
        cost.save(Path(folder) / "cost.json")
        found = CostModel.load(Path(folder) / "cost.json")
    assert dataclasses.asdict(found) == dataclasses.asdict(cost)


@STEADY
@given(records(), st.integers(1, 3))
def test_a_trace_is_loaded_as_it_was_written(rows, size):
    with tempfile.TemporaryDirectory() as folder:
        write_meta(folder, {"eos_token_ids": [EOS], "max_overrun": 4, "run_id": "0123456789abcdef" * 2})
        for number, start in enumerate(range(0, len(rows), size)):
            write_part(folder, number, rows[start : start + size])
        trace = Trace.load(folder)
    assert to_table(list(iter_records(trace))).equals(to_table(rows))


@STEADY
@given(ROWS)
def test_prompts_are_the_same_from_every_kind_of_file(rows):
    with tempfile.TemporaryDirectory() as folder:
        lines, array, table = (Path(folder) / f"rows{ending}" for ending in (".jsonl", ".json", ".parquet"))
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        array.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        pq.write_table(pa.Table.from_pylist(rows), table)
        found = [load_prompts(file) for file in (lines, array, table)]
    assert found[0].prompts == found[1].prompts == found[2].prompts
    plain = [row["prompt"] for row in rows if "prompt" in row]
    assert not plain or [prompt.text for prompt in found[0]] == plain
