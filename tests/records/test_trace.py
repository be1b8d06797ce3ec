import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.traces import EOS, pattern, record, trace

from oracle.records.trace import SCHEMA, Trace, chain, iter_records, next_true, part_files, write_meta, write_part

META = {"eos_token_ids": [EOS], "max_overrun": 4}


def save(path, *parts, meta=META):
    path.mkdir(exist_ok=True)
    write_meta(path, meta)
    for number, records in enumerate(parts):
        write_part(path, number, records)
    return path


def test_runs_by_hand():
    t = trace(pattern("++-+"), pattern("-+"))
    assert t.agrees.tolist() == [True, True, False, True, False, True]
    assert t.run.tolist() == [2, 1, 0, 1, 0, 1]
    # The last token of a text is the target's own, whatever the draft would have said there.
    assert t.accepted_run.tolist() == [2, 1, 0, 0, 0, 0]
    assert t.censored.tolist() == [False, False, False, True, False, True]
    assert t.budget.tolist() == [3, 2, 1, 0, 1, 0]
    assert t.context.tolist() == [3, 4, 5, 6, 3, 4]


def test_only_the_leading_tokens_count():
    # Draft 5 6 7 8 against 5 9 7 8: one accepted, not three; the target's 9 is emitted with it.
    t = trace(record([5, 9, 7, 8], [5, 6, 7, 8]))
    frame = t.iterations()
    assert frame["accepted"].tolist() == [1, 1]
    assert frame["detect"].tolist() == [2, 2]
    assert frame["position"].tolist() == [0, 2]


def test_iterations_cover_every_text_exactly():
    t = trace(pattern("++-+--+++"), pattern("+"), pattern("----"), pattern("++++"))
    frame = t.iterations()
    emitted = (frame["accepted"] + 1).groupby(frame["prompt"]).sum()
    assert emitted.tolist() == np.diff(t.offsets).tolist()
    assert frame.groupby("prompt")["iteration"].min().tolist() == [0, 0, 0, 0]


def test_a_perfect_draft_is_one_censored_iteration():
    frame = trace(pattern("+++++++")).iterations()
    assert frame[["accepted", "detect", "censored"]].values.tolist() == [[6, 7, True]]


def test_a_one_token_text_says_nothing_about_the_run():
    frame = trace(pattern("-")).iterations()
    assert frame[["accepted", "censored"]].values.tolist() == [[0, True]]


def test_an_agreed_eos_counts_as_the_targets_token():
    t = trace(record([5, 6, EOS], [5, 6, EOS], limit=9))
    assert t.run[0] == 3 and t.accepted_run[0] == 2 and t.budget[0] == 8


def test_written_and_loaded_is_the_same(tmp_path):
    records = [pattern("++-+", overruns={2: [(4, 0.5), (5, 0.25)]}), pattern("+++", index=1), pattern("---", index=2)]
    loaded = Trace.load(save(tmp_path / "t", records[:2], records[2:]))
    direct = Trace.from_records(records, META)
    assert loaded.ids == direct.ids == ("p0", "p1", "p2")
    for name in ("target_tokens", "draft_tokens", "confidence", "offsets", "prompt_tokens", "max_new_tokens"):
        assert np.array_equal(getattr(loaded, name), getattr(direct, name)), name
    assert loaded.overruns.tokens.tolist() == [4, 5]
    assert loaded.overruns.confidence.tolist() == [0.5, 0.25]
    assert loaded.confidence.dtype == np.float32
    for again, original in zip(iter_records(loaded), records, strict=True):
        assert again.id == original.id and np.array_equal(again.target_tokens, original.target_tokens)
        assert [x.tolist() for x in again.overrun_tokens] == [x.tolist() for x in original.overrun_tokens]


def test_any_parquet_reader_opens_a_part(tmp_path):
    save(tmp_path / "t", [pattern("+-")])
    rows = pq.read_table(tmp_path / "t" / "part-00000.parquet").to_pylist()
    assert rows[0]["target_tokens"] == [10, 11] and rows[0]["finish"] == "length"


def test_columns_of_a_later_version_are_left_aside(tmp_path):
    save(tmp_path / "t", [pattern("+-")])
    part = tmp_path / "t" / "part-00000.parquet"
    pq.write_table(pq.read_table(part).append_column("acceptance", pa.array([[0.5, 0.5]])), part)
    assert Trace.load(tmp_path / "t").tokens == 2


def test_a_half_written_part_is_not_seen(tmp_path):
    path = save(tmp_path / "t", [pattern("+-")])
    (path / ".part-00001.parquet.1234.tmp").write_bytes(b"PAR1 half")
    assert Trace.load(path).prompts == 1


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    path = save(tmp_path / "t", [pattern("+-")])
    broken = pattern("+-")
    object.__setattr__(broken, "target_tokens", np.array(["x"]))
    with pytest.raises(ValueError, match="target_tokens is of type string"):
        write_part(path, 1, [broken])
    assert [file.name for file in part_files(path)] == ["part-00000.parquet"]
    assert sorted(file.name for file in path.iterdir()) == ["meta.json", "part-00000.parquet"]


def damage_meta(path):
    (path / "meta.json").write_text("{")


def damage_schema(path):
    (path / "meta.json").write_text(json.dumps({"schema": 99}))


def damage_part(path):
    (path / "part-00000.parquet").write_bytes(b"not parquet")


def damage_gap(path):
    (path / "part-00000.parquet").rename(path / "part-00001.parquet")


def damage_column(path):
    table = pq.read_table(path / "part-00000.parquet")
    pq.write_table(table.drop_columns(["finish"]), path / "part-00000.parquet")


def damage_lengths(path):
    table = pq.read_table(path / "part-00000.parquet")
    at = SCHEMA.get_field_index("confidence")
    short = pa.array([[0.5]], SCHEMA.field(at).type)
    pq.write_table(table.set_column(at, SCHEMA.field(at), short), path / "part-00000.parquet")


def damage_overruns(path):
    write_part(path, 0, [pattern("++")])
    table = pq.read_table(path / "part-00000.parquet")
    at = SCHEMA.get_field_index("draft_tokens")
    pq.write_table(
        table.set_column(at, SCHEMA.field(at), pa.array([[1, 2]], SCHEMA.field(at).type)), path / "part-00000.parquet"
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "meta.json").unlink(), "not a trace"),
        (damage_meta, "not readable as JSON"),
        (damage_schema, "schema 99"),
        (damage_part, "part-00000.parquet"),
        (damage_gap, "part-00000.parquet is missing"),
        (damage_column, "column finish is missing"),
        (damage_lengths, "confidence has other lengths"),
        (damage_overruns, "disagreements do not match"),
        (lambda path: (path / "part-00000.parquet").unlink(), "no finished part"),
    ],
)
def test_a_foreign_or_damaged_trace_is_refused_by_name(tmp_path, damage, message):
    path = save(tmp_path / "t", [pattern("+-")])
    damage(path)
    with pytest.raises(ValueError, match=message):
        Trace.load(path)


def test_array_helpers():
    assert next_true(np.array([False, True, False, True, False])).tolist() == [1, 1, 3, 3, 5]
    assert chain(np.array([0, 3, 5]), np.array([2, 1, 1, 1, 9])).tolist() == [0, 2, 3, 4]
