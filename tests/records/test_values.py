"""Files that may come from anywhere: wrong values are named, absurd claims refused before anything is unpacked."""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.runs import fake_runs, some_trace
from builders.traces import EOS, pattern, record, trace

from oracle.records import parquet
from oracle.records import runs as files
from oracle.records.runs import Runs
from oracle.records.trace import SCHEMA, Trace, write_meta, write_part

META = {"eos_token_ids": [EOS], "max_overrun": 4}
PART = "part-00000.parquet"


def save(path, records, meta=META):
    path.mkdir(exist_ok=True)
    write_meta(path, meta)
    write_part(path, 0, records)
    return path


def rewrite(file, **columns):
    """Replace columns (lists of Python values, or Arrow arrays) of a Parquet file."""
    table = pq.read_table(file)
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        array = values if isinstance(values, pa.Array) else pa.array(values, table.schema.field(name).type)
        table = table.set_column(at, name, array)
    pq.write_table(table, file)


ROWS = [pattern("+-++", overruns={1: [(4, 0.5)]}), pattern("-+", index=1)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["p0", None]}, "row 1: column id holds null"),
        ({"id": ["p0", "p0"]}, "holds id 'p0' twice"),
        ({"id": ["p0", ""]}, "row 1: column id holds ''; legal: not empty"),
        ({"id": ["p0", "\x1b" * 5000]}, None),
        ({"index": [-1, 0]}, "row 0: column index holds -1; legal: from 0"),
        ({"finish": ["length", "stop" * 1000]}, r"row 1: column finish holds 'stop.{0,300}; legal: eos or length"),
        ({"finish": ["length", "eos"]},
         "row 1: a text of finish eos ends with token 11; the end tokens of this trace: 0"),
        ({"max_new_tokens": [4, 0]}, "row 1: column max_new_tokens holds 0; legal: from 1"),
        ({"max_new_tokens": [4, 3]}, "row 1: a text of finish length has 2 tokens, its max_new_tokens is 3"),
        ({"max_new_tokens": [3, 2]}, "row 0: a text of 4 tokens is longer than its max_new_tokens 3"),
        ({"confidence": [[0.5] * 4, [0.5, 1.5]]}, "row 1: column confidence holds 1.5; legal: 0 to 1"),
        ({"confidence": [[0.5] * 4, [0.5, None]]}, "row 1: column confidence holds null"),
        ({"confidence": [[0.5] * 4, None]}, "row 1: column confidence holds null"),
        ({"entropy": [[0, np.nan, 0, 0], [0, 0]]}, "row 0: column entropy holds nan; legal: from 0"),
        ({"entropy": [[0] * 4, [0, -3]]}, "row 1: column entropy holds -3.0"),
        ({"margin": [[0] * 4, [np.inf, 0]]}, "row 1: column margin holds inf"),
        ({"target_tokens": [[10, 11, 12, 13], [10, -1]]}, "row 1: column target_tokens holds -1; legal: from 0"),
        ({"prompt_tokens": [[1], [-5]]}, "row 1: column prompt_tokens holds -5"),
        ({"overrun_position": [[4], [0]]}, "row 0: overrun_position 4 lies outside its text of 4 tokens"),
        ({"overrun_position": [[1], [1]]}, "row 1: overruns and disagreements do not match: target 10, draft 1"),
        ({"overrun_tokens": [[[4, 4]], [[]]]},
         "row 0: column overrun_confidence has other lengths than overrun_tokens"),
        ({"overrun_confidence": [[[2.0]], [[]]]}, "row 0: column overrun_confidence holds 2.0"),
        ({"confidence": pa.array([["a"] * 4, ["b"] * 2])}, "column confidence is of type list<.*string>, not list<"),
        ({"target_tokens": pa.array([[2**40] * 4, [1] * 2])}, "part-00000.parquet"),
        ({"target_tokens": pa.array([[1.5] * 4, [1.0] * 2])}, "column target_tokens is of type list<.*double>"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(tmp_path, columns, message):
    path = save(tmp_path / "t", ROWS)
    rewrite(path / PART, **columns)
    if message is None:
        assert Trace.load(path).prompts == 2
        return
    with pytest.raises(ValueError, match=message) as caught:
        Trace.load(path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < len(str(path)) + 500


def test_overruns_are_in_order_and_no_longer_than_recorded(tmp_path):
    path = save(tmp_path / "t", [pattern("+--+", overruns={1: [(4, 0.5)] * 4})])
    assert len(Trace.load(path).overruns.tokens) == 4
    write_meta(path, META | {"max_overrun": 3})
    with pytest.raises(ValueError, match="row 0: an overrun of 4 tokens, max_overrun is 3"):
        Trace.load(path)
    write_meta(path, META)
    rewrite(path / PART, overrun_position=[[2, 1]])
    with pytest.raises(ValueError, match="row 0: overrun_position 1 does not come after the one before it"):
        Trace.load(path)


def test_a_text_that_ends_by_itself_needs_no_full_length():
    found = trace(record([5, 6, EOS], [5, 6, 7], limit=9), record([5, EOS], [5, 6]))
    assert found.finish.tolist() == ["eos", "eos"]


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"eos_token_ids": [1.9]}, r"eos_token_ids is \[1.9\]; it must be a list of token ids"),
        ({"eos_token_ids": 0}, "eos_token_ids is 0"),
        ({"eos_token_ids": [True]}, "eos_token_ids"),
        ({"max_overrun": "4"}, "max_overrun is '4'; it must be a whole number from 0"),
        ({"max_overrun": -1}, "max_overrun is -1"),
    ],
)
def test_meta_says_what_the_columns_are_read_by(tmp_path, meta, message):
    with pytest.raises(ValueError, match=message):
        Trace.load(save(tmp_path / "t", ROWS, META | meta))


def test_a_folder_is_a_folder_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("llama:8b", "s3:x", "~t", "a=b"):
        assert Trace.load(save(tmp_path / name, ROWS)).prompts == 2
        path = tmp_path.joinpath(name).relative_to(tmp_path)
        assert Trace.load(path).prompts == Trace.load(str(path)).prompts == 2


def test_absurd_claims_are_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    path = save(tmp_path / "t", ROWS)
    table = pq.read_table(path / PART)
    many = pa.array([[0.0] * 50_000_000], pa.list_(pa.float32()))  # a few kilobytes on disk
    pq.write_table(table.slice(0, 1).set_column(SCHEMA.get_field_index("confidence"), "confidence", many), path / PART)
    assert (path / PART).stat().st_size < 200_000
    monkeypatch.setattr(parquet, "_flatten", lambda *given: pytest.fail("unpacked"))
    monkeypatch.setattr(parquet, "_UNPACKED", (2**28, 100))
    with pytest.raises(ValueError, match="it claims 50,.* values in 1 rows, far too many for"):
        Trace.load(path)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_are_refused_or_read(tmp_path, seed):
    path = save(tmp_path / "t", ROWS)
    data = bytearray((path / PART).read_bytes())
    random = np.random.default_rng(seed)
    for at in random.integers(0, len(data), 5):
        data[at] = random.integers(0, 256)
    (path / PART).write_bytes(data[: len(data) - int(random.integers(0, 3) * 20)])
    try:
        assert Trace.load(path).prompts == 2
    except ValueError as error:
        assert PART in str(error) and len(str(error)) < len(str(path)) + 600


# --- measured runs ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured():
    return fake_runs(some_trace(prompts=2, size=12), ["constant:tokens=3"], repeats=1)


def test_runs_come_back_as_they_were(tmp_path, measured):
    files.write_meta(tmp_path, measured.meta)
    for call in measured.calls:
        files.write_call(tmp_path, call)
    loaded = Runs.load(tmp_path)
    for again, original in zip(loaded.calls, measured.calls, strict=True):
        for field in dataclasses.fields(original):
            ours, theirs = getattr(again, field.name), getattr(original, field.name)
            assert np.array_equal(ours, theirs), field.name
            assert type(ours) is type(theirs) or isinstance(theirs, np.ndarray | np.generic), field.name
    assert repr(loaded) == "<Runs ? + ?, made up: 2 prompts, 4 calls, 42 tokens>"
    assert repr(loaded.calls[0]) == "<Call none, repeat 0, prompt 'p0': 12 tokens>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda call: {"total_seconds": np.nan}, "row 0: column total_seconds holds nan; legal: from 0"),
        (lambda call: {"draft_seconds": -call.draft_seconds}, "row 0: column draft_seconds holds -"),
        (lambda call: {"accepted": call.drafted + 1}, r"row 0: accepted 4 of 3 drafted tokens"),
        (lambda call: {"passes": call.passes * 0 + 10**9}, "row 0: 1000000000 draft passes where 12 tokens are left"),
        (lambda call: {"passes": np.maximum(call.drafted - 1, 0)}, "row 0: 3 drafted tokens in 2 draft passes"),
        (lambda call: {"position": call.position + 1},
         "row 0: an iteration at position 1 where the one before it leads to 0"),
        (lambda call: {"tokens": call.tokens[:-1]}, "row 0: its iterations emit 12 tokens, its text has 11"),
        (lambda call: {"generator": "mine"}, "row 0: column generator holds 'mine'; legal: library or loop"),
        (lambda call: {"equal": False}, "row 0: equal is False, first_difference None"),
        (lambda call: {"first_difference": -1, "equal": False}, "row 0: column first_difference holds -1"),
        (lambda call: {"budget": call.budget[:-1]}, "row 0: column budget has other lengths than position"),
        (lambda call: {"max_new_tokens": 3}, "row 0: a text of 12 tokens is longer than its max_new_tokens 3"),
    ],
)  # fmt: skip
def test_wrong_values_in_runs_are_named(tmp_path, measured, change, message):
    call = measured.of("constant:tokens=3")[0]
    files.write_meta(tmp_path, measured.meta)
    files.write_call(tmp_path, dataclasses.replace(call, **change(call)))
    with pytest.raises(ValueError, match=message) as caught:
        Runs.load(tmp_path)
    assert "call-00000" in str(caught.value) and "--resume`" in str(caught.value)


def test_a_threshold_may_be_unknown(tmp_path, measured):
    call = measured.of("constant:tokens=3")[0]
    files.write_meta(tmp_path, measured.meta)
    files.write_call(
        tmp_path, dataclasses.replace(call, threshold=np.full(len(call.position), np.nan), generator="loop")
    )
    assert np.isnan(Runs.load(tmp_path).calls[0].threshold).all()
