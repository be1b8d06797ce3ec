"""Folders of ours: what is read is one run's, whole and once; what is removed was ours; one writer at a time."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.runs import fake_runs, some_trace
from builders.traces import EOS, pattern

from oracle.records import runs as measured
from oracle.records.lock import lock
from oracle.records.runs import Runs
from oracle.records.trace import FOLDER, Trace, to_table, write_meta, write_part
from oracle.records.writing import disk_errors, own_path, writing

META = {"eos_token_ids": [EOS], "max_overrun": 4, "prompts_planned": 6}
TEXTS = ("++-+", "+++", "---", "+", "-+", "++")
RECORDS = [pattern(text, index=n) for n, text in enumerate(TEXTS)]


def bind(meta):
    return {"max_overrun": meta.get("max_overrun")}


def write(path, *numbers, meta=META, resume=False, force=False):
    """A part for each number, which holds one record."""
    with writing(FOLDER, path, meta, bind, resume=resume, force=force) as folder:
        for number in numbers:
            folder.add(number, to_table(RECORDS[number : number + 1]))
    return sorted(path.glob("part-*.parquet"))


def snapshot(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def rewrite(part, **columns):
    """The part with other values, its seal kept."""
    table = pq.read_table(part)
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.field(at), pa.array(values, table.field(at).type))
    pq.write_table(table, part)


# --- whose parts ------------------------------------------------------------------------------------------------------


def test_a_run_has_an_id_and_its_parts_say_so(tmp_path):
    part, _ = write(tmp_path / "t", 0, 1)
    meta = json.loads((tmp_path / "t" / "meta.json").read_text())
    uuid.UUID(meta["run_id"])
    seal = json.loads(pq.read_schema(part).metadata[b"oracle_part"])
    assert seal["run_id"] == meta["run_id"] and seal["units"] == ["p0"]
    assert set(seal["checksums"]) == set(pq.read_schema(part).names)
    assert part.name == f"part-00000-{meta['run_id'][:8]}.parquet"


def test_parts_are_written_in_any_order_and_read_by_index(tmp_path):
    write(tmp_path / "t", 5, 2, 0)
    with writing(FOLDER, tmp_path / "t", META, bind, resume=True, force=False) as folder:
        assert folder.units == {"p0", "p2", "p5"}
        folder.add(1, to_table([RECORDS[4], RECORDS[1], RECORDS[3]]))  # as another writer might cut it
    loaded = Trace.load(tmp_path / "t")
    direct = Trace.from_records(RECORDS, META)
    assert loaded.ids == direct.ids and loaded.index.tolist() == list(range(6)) and loaded.unfinished is None
    for name in ("target_tokens", "draft_tokens", "offsets", "prompt_tokens", "confidence"):
        assert np.array_equal(getattr(loaded, name), getattr(direct, name)), name
    assert np.array_equal(loaded.overruns.position, direct.overruns.position)


def test_a_part_of_another_run_is_refused_by_name(tmp_path):
    write(tmp_path / "a", 0, 1)
    other = write(tmp_path / "b", 2)[0]
    shutil.copy(other, tmp_path / "a")
    with pytest.raises(ValueError, match=f"{other.name} belongs to another run than the meta.json"):
        Trace.load(tmp_path / "a")


def test_the_meta_of_another_trace_is_refused(tmp_path):
    write(tmp_path / "a", 0, 1)
    write(tmp_path / "b", 2)
    shutil.copy(tmp_path / "b" / "meta.json", tmp_path / "a" / "meta.json")
    with pytest.raises(ValueError, match="belongs to another run"):
        Trace.load(tmp_path / "a")
    write_meta(tmp_path / "a", META)  # nor one without an id, as an older trace has it
    with pytest.raises(ValueError, match="belongs to another run"):
        Trace.load(tmp_path / "a")


def test_a_part_that_is_there_several_times_is_refused(tmp_path):
    parts = write(tmp_path / "t", 0, 1)
    copy = parts[0].with_name(parts[0].name.replace("00000", "00007"))
    shutil.copy(parts[0], copy)
    with pytest.raises(ValueError, match=f"{copy.name} holds id 'p0' and so does {parts[0].name}.*move the copy away"):
        Trace.load(tmp_path / "t")
    with pytest.raises(ValueError, match="move the copy away"):  # nor does anyone go on with it
        write(tmp_path / "t", 2, resume=True)


def test_a_prompt_twice_in_a_part_is_refused(tmp_path):
    with writing(FOLDER, tmp_path / "t", META, bind, resume=False, force=False) as folder:
        folder.add(0, to_table([RECORDS[0], RECORDS[0]]))
    with pytest.raises(ValueError, match="holds id 'p0' twice"):
        Trace.load(tmp_path / "t")


def test_an_older_trace_is_checked_as_far_as_that_goes(tmp_path):
    (tmp_path / "t").mkdir()
    write_meta(tmp_path / "t", META)
    for number in range(3):
        write_part(tmp_path / "t", number, RECORDS[2 * number : 2 * number + 2])
    assert Trace.load(tmp_path / "t").prompts == 6
    shutil.copy(tmp_path / "t" / "part-00000.parquet", tmp_path / "t" / "part-00003.parquet")
    with pytest.raises(ValueError, match="part-00003.parquet holds id 'p0' and so does part-00000.parquet"):
        Trace.load(tmp_path / "t")


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (pa.array([b"fine", b"\xdc\x41"]).view(pa.string()), "Invalid UTF8"),
        (pa.array([["p0"], ["p1"]]), "column id tells rows apart, and holds list"),
        (pa.array([{"a": 1}, {"a": 2}]), "column id tells rows apart, and holds struct"),
    ],
)
def test_an_older_part_whose_ids_tell_nothing_apart_is_refused_by_name(tmp_path, ids, problem):
    (tmp_path / "t").mkdir()
    write_meta(tmp_path / "t", META)
    table = to_table(RECORDS[:2])
    pq.write_table(table.set_column(0, "id", ids), tmp_path / "t" / "part-00000.parquet")
    with pytest.raises(ValueError, match=f"part-00000.parquet: not readable as part of a trace.*{problem}"):
        Trace.load(tmp_path / "t")


def test_a_sealed_column_of_a_foreign_type_is_named(tmp_path):
    (part,) = write(tmp_path / "t", 0)
    table = pq.ParquetFile(part).read()
    index = table.column_names.index("index")
    pq.write_table(table.set_column(index, "index", table.column("index").cast(pa.timestamp("us"))), part)
    with pytest.raises(ValueError, match=r"a column of type timestamp\[us\], which no part of ours holds"):
        Trace.load(tmp_path / "t")


def test_lost_parts_are_said_and_made_again(tmp_path):
    parts = write(tmp_path / "t", *range(6))
    assert Trace.load(tmp_path / "t").unfinished is None
    for part in parts[1:4]:
        part.unlink()
    line = f"3 of 6 prompts: unfinished; `oracle collect {tmp_path / 't'} --resume` goes on"
    assert Trace.load(tmp_path / "t").unfinished == line


def test_more_than_was_planned_is_refused(tmp_path):
    write(tmp_path / "t", *range(6), meta=META | {"prompts_planned": 5})
    with pytest.raises(ValueError, match="6 prompts where 5 were planned"):
        Trace.load(tmp_path / "t")


@pytest.mark.parametrize(
    ("column", "values"),
    [("confidence", [[0.5, 0.5, 0.5, 0.5]]), ("target_tokens", [[9, 9, 9, 9]]), ("overrun_tokens", [[[5]]])],
)
def test_values_that_were_changed_are_found(tmp_path, column, values):
    part = write(tmp_path / "t", 0)[0]
    rewrite(part)  # the same values, packed otherwise
    assert Trace.load(tmp_path / "t").prompts == 1
    rewrite(part, **{column: values})
    with pytest.raises(ValueError, match=f"{part.name}.*column {column} is not what was written"):
        Trace.load(tmp_path / "t")


def test_a_seal_that_is_no_seal_is_refused(tmp_path):
    part = write(tmp_path / "t", 0)[0]
    for text in (b"{", b"[]", b'{"run_id": 5, "units": [], "checksums": {}}', b"[" * 10**5):
        table = pq.read_table(part).replace_schema_metadata({b"oracle_part": text})
        pq.write_table(table, part)
        with pytest.raises(ValueError, match=f"{part.name}: not readable as part of a trace") as caught:
            Trace.load(tmp_path / "t")
        assert len(str(caught.value)) < 700


@pytest.mark.parametrize("name", ["llama:8b", "s3:x", "~", "a=b", "file:", "[x]"])
def test_names_are_names_and_never_addresses(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = os.path.join(name, "t")
    with writing(FOLDER, path, META, bind, resume=False, force=False) as folder:
        folder.add(0, to_table(RECORDS))
    assert [file.name for file in (tmp_path / name / "t").glob("*.parquet")] and Trace.load(path).prompts == 6


# --- meta.json --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": True}, "schema True"),
        ({"schema": [1]}, r"schema \[1\]"),
        ({"eos_token_ids": 5}, "eos_token_ids is 5; it must be a list of token ids"),
        ({"eos_token_ids": [True]}, r"eos_token_ids is \[True\]; it must be a list of token ids"),
        ({"eos_token_ids": [1.9]}, "it must be a list of token ids"),
        ({"max_overrun": "32"}, "max_overrun is '32'; it must be a whole number"),
        ({"max_overrun": 2**70}, "max_overrun is .*; it must be a whole number from 0 to 2147483647"),
        ({"prompts_planned": 0}, "prompts_planned is 0; it must be a whole number from 1"),
        ({"prompts": ["x"]}, "prompts is "),
        ({"prompts": {"dataset": 5}}, "prompts.dataset is 5; it must be text"),
        ({"target": "org/big"}, "target is 'org/big'; it must be an object"),
        ({"target": {"model": ["x"]}}, "target.model is"),
        ({"skipped": 3}, "skipped is 3; it must be a list"),
        ({"chat": "yes"}, "chat is 'yes'; it must be true or false"),
        ({"run_id": "../x"}, "run_id is '../x'; it must be 32 digits"),
    ],
)
def test_fields_of_a_wrong_type_are_named(tmp_path, change, message):
    write(tmp_path / "t", 0)
    file = tmp_path / "t" / "meta.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=message) as caught:
        Trace.load(tmp_path / "t")
    assert str(file) in str(caught.value) and len(str(caught.value).replace(str(tmp_path), "")) < 300


def test_a_meta_without_what_is_needed_is_refused(tmp_path):
    write_meta(tmp_path, {"max_overrun": 4})
    with pytest.raises(ValueError, match="eos_token_ids is missing"):
        Trace.load(tmp_path)


def test_a_huge_meta_is_refused(tmp_path):
    with (tmp_path / "meta.json").open("wb") as handle:
        handle.truncate(64 * 2**20 + 1)
    with pytest.raises(ValueError, match="larger than 64 MB"):
        Trace.load(tmp_path)


# --- what may be written and removed ----------------------------------------------------------------------------------


def test_a_folder_of_others_is_left_alone(tmp_path):
    """A Spark data set is no trace, whatever its files are called, and force does not make it one."""
    for name in ("part-00000-1f0c.c000.snappy.parquet", "part-00000.parquet", "calls.parquet", "X.PARQUET"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        pq.write_table(pa.table({"x": [1]}), folder / name)
        before = snapshot(tmp_path)
        for options in ({}, {"force": True}, {"resume": True}):
            with pytest.raises(ValueError, match=r"no meta.json.*nothing in it is touched.*no \.parquet file"):
                write(folder, 0, **options)
        assert snapshot(tmp_path) == before


def test_other_files_in_a_folder_are_no_obstacle_and_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    write(tmp_path, 0)
    write(tmp_path, 1, force=True)
    assert Trace.load(tmp_path).ids == ("p1",) and (tmp_path / "notes.txt").read_text() == "mine"


def test_force_removes_what_is_ours_and_nothing_else(tmp_path):
    write(tmp_path, 0, 1, 2)
    spark = "part-00000-5d5b4b1e-77aa-4a8f-9d4b-0e7d2f1a2b3c-c000.snappy.parquet"
    pq.write_table(pa.table({"x": [1]}), tmp_path / spark)
    write(tmp_path, 3, force=True)
    assert Trace.load(tmp_path).ids == ("p3",)
    assert len(list(tmp_path.glob("*.parquet"))) == 2 and (tmp_path / spark).exists()


@pytest.mark.parametrize("sealed", [True, False])
def test_force_stops_at_a_part_that_is_not_proved_to_be_ours(tmp_path, sealed):
    if sealed:
        write(tmp_path, 0)
    else:
        write_meta(tmp_path, META)
        write_part(tmp_path, 0, RECORDS[:1])
    pq.write_table(pa.table({"x": [1]}), tmp_path / "part-00001.parquet")
    before = snapshot(tmp_path)
    with pytest.raises(ValueError, match="part-00001.parquet is not a part of the trace there"):
        write(tmp_path, 0, force=True)
    assert snapshot(tmp_path) == before


def test_force_removes_a_damaged_part_that_bears_the_runs_id(tmp_path):
    part = write(tmp_path, 0)[0]
    part.write_bytes(b"PAR1 half")
    write(tmp_path, 1, force=True)
    assert not part.exists() and Trace.load(tmp_path).ids == ("p1",)


def test_traces_and_runs_do_not_replace_each_other(tmp_path):
    write(tmp_path / "t", 0)
    with writing(measured.FOLDER, tmp_path / "r", {}, bind, resume=False, force=False):
        pass
    before = snapshot(tmp_path)
    for options in ({"force": True}, {"resume": True}, {}):
        with pytest.raises(ValueError, match="trace schema None.*nothing there is touched"):
            write(tmp_path / "r", 0, **options)
    with pytest.raises(ValueError, match="measured runs schema None.*nothing there is touched"):
        with writing(measured.FOLDER, tmp_path / "t", {}, bind, resume=False, force=True):
            pass
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("text", ["{", "[1]", '{"schema": 99}', '{"schema": 1}'])
def test_a_meta_that_is_not_ours_is_not_replaced(tmp_path, text):
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(ValueError, match="nothing there is touched"):
        write(tmp_path, 0, force=True)
    assert (tmp_path / "meta.json").read_text() == text


@pytest.mark.parametrize("empty", ["", "."])
def test_an_empty_path_is_refused(tmp_path, monkeypatch, empty):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is the working directory itself"):
        write(type(tmp_path)(empty), 0)
    with pytest.raises(ValueError, match="is the working directory itself"):
        own_path(empty)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_left_is_swept_and_only_that(tmp_path):
    parts = write(tmp_path, 0)
    left = [
        f".{parts[0].name}.0123abcd.tmp",
        ".meta.json.0123abcd.tmp",
        ".part-00009.parquet.0123abcd.tmp",
        ".oracle.lock",
    ]
    others = [".notes.0123abcd.tmp", ".part-1.parquet.0123abcd.tmp", ".part-00009.parquet.tmp", "x.0123abcd.tmp"]
    for name in left + others:
        (tmp_path / name).write_text("half")
    write(tmp_path, 1, resume=True)
    names = {file.name for file in tmp_path.iterdir()}
    assert not names & set(left) and set(others) <= names and Trace.load(tmp_path).prompts == 2


def test_a_run_that_was_begun_otherwise_is_not_gone_on_with(tmp_path):
    write(tmp_path, 0)
    with pytest.raises(ValueError, match="was begun with max_overrun 4, this run has 5"):
        write(tmp_path, 1, meta=META | {"max_overrun": 5}, resume=True)


# --- disk errors ------------------------------------------------------------------------------------------------------


def test_a_full_disk_names_the_file_what_is_kept_and_how_to_go_on(tmp_path, monkeypatch):
    path = tmp_path / "my trace"
    with writing(FOLDER, path, META, bind, resume=False, force=False) as folder:
        folder.add(0, to_table(RECORDS[:1]))
        monkeypatch.setattr(pq, "write_table", lambda table, where, **_: os.write(os.open("/dev/full", 1), b"x"))
        with pytest.raises(RuntimeError) as caught:
            folder.add(1, to_table(RECORDS[1:2]))
    text = str(caught.value)
    assert "part-00001-" in text and "No space left on device" in text and "finished parts are kept" in text
    assert f"`oracle collect '{path}' --resume`" in text
    assert Trace.load(path).prompts == 1 and not list(path.glob(".*"))


def test_a_write_that_arrow_makes_on_a_full_disk_is_a_disk_error(tmp_path):
    with pytest.raises(RuntimeError, match="No space left on device"), disk_errors(FOLDER, tmp_path):
        with open("/dev/full", "wb") as handle:
            pq.write_table(pa.table({"x": np.arange(10**6)}), handle)


# --- one writer -------------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path):
    write(tmp_path, 0)
    with writing(FOLDER, tmp_path, META, bind, resume=True, force=False) as folder:
        for options in ({"resume": True}, {"force": True}):
            with pytest.raises(RuntimeError, match=f"is being written by process {os.getpid()} on "):
                write(tmp_path, 1, **options)
        assert Trace.load(tmp_path).prompts == 1
        folder.add(1, to_table(RECORDS[1:2]))
    write(tmp_path, 2, resume=True)
    assert Trace.load(tmp_path).prompts == 3 and not (tmp_path / ".oracle.lock").exists()


def test_a_lock_of_somebody_else_is_neither_written_to_nor_removed(tmp_path):
    (tmp_path / ".lock").write_text("theirs")
    write(tmp_path, 1)
    assert (tmp_path / ".lock").read_text() == "theirs" and Trace.load(tmp_path).prompts == 1


def test_a_writer_that_was_killed_holds_nothing(tmp_path):
    script = f"""
        import sys, time; sys.path[:0] = {sys.path!r}
        from pathlib import Path
        from oracle.records.lock import lock
        with lock(Path({str(tmp_path)!r})):
            print("held", flush=True)
            time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(RuntimeError, match=f"written by process {process.pid} on"), lock(tmp_path):
            pass
        process.kill()
        process.wait()
    assert (tmp_path / ".oracle.lock").exists()
    with lock(tmp_path):
        pass


def test_where_there_are_no_locks_the_file_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr("oracle.records.lock.fcntl", None)
    with lock(tmp_path):
        with pytest.raises(RuntimeError, match=r"if that has ended, delete .*\.oracle\.lock"), lock(tmp_path):
            pass
    with lock(tmp_path):
        pass


# --- measured runs ----------------------------------------------------------------------------------------------------


SOURCE = fake_runs(some_trace(prompts=2), ["dynamic"], repeats=2)
RUNS_META = SOURCE.meta | {"prompts_planned": 2, "repeats": 2, "policies": {"none": {}, "dynamic": {}}}


def write_runs(path, calls, merge=(), resume=False):
    with writing(measured.FOLDER, path, RUNS_META, bind, resume=resume, force=False) as folder:
        for call in calls:
            folder.add(call.order, measured.to_table([call]))
        if merge:
            folder.merge(measured.to_table(merge))


def test_unfinished_runs_say_so(tmp_path):
    write_runs(tmp_path, SOURCE.calls[:5])
    assert Runs.load(tmp_path).unfinished == f"5 of 8 calls: unfinished; `oracle measure {tmp_path} --resume` goes on"
    write_runs(tmp_path, SOURCE.calls[5:], merge=SOURCE.calls, resume=True)
    assert Runs.load(tmp_path).unfinished is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["calls.parquet", "meta.json"]


def test_a_merge_that_was_killed_leaves_every_call_once(tmp_path, monkeypatch):
    write_runs(tmp_path, SOURCE.calls)
    before = snapshot(tmp_path)
    write_runs(tmp_path, (), merge=SOURCE.calls, resume=True)
    for name, data in before.items():
        (tmp_path / name).write_bytes(data)
    assert [call.order for call in Runs.load(tmp_path).calls] == list(range(8))
    call = next(tmp_path.glob("call-000003-*"))
    shutil.copy(call, call.with_name(call.name.replace("000003", "000099")))
    with pytest.raises(ValueError, match="call-000099-.* holds order 3 and so does calls.parquet"):
        Runs.load(tmp_path)
    call.with_name(call.name.replace("000003", "000099")).unlink()
    write_runs(tmp_path, (), resume=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["calls.parquet", "meta.json"]


def test_a_copied_call_and_one_of_another_run_are_refused(tmp_path):
    write_runs(tmp_path / "a", SOURCE.calls[:3])
    write_runs(tmp_path / "b", SOURCE.calls[3:])
    call = next((tmp_path / "b").glob("call-000003-*"))
    shutil.copy(call, tmp_path / "a")
    with pytest.raises(ValueError, match=f"{call.name} belongs to another run"):
        Runs.load(tmp_path / "a")
    copy = call.with_name(call.name.replace("000003", "000088"))
    shutil.copy(call, copy)
    with pytest.raises(ValueError, match=f"{copy.name} holds order 3 and so does {call.name}"):
        Runs.load(tmp_path / "b")


def test_of_a_call_that_was_made_again_the_later_counts(tmp_path):
    import dataclasses

    again = dataclasses.replace(SOURCE.calls[1], order=8, total_seconds=99.0)
    write_runs(tmp_path, [*SOURCE.calls, again])
    runs = Runs.load(tmp_path)
    assert len(runs.calls) == 8 and runs.unfinished is None
    assert [call.total_seconds for call in runs.calls if call.key == again.key] == [99.0]
