"""What is mutated, and what must hold of whatever the toolkit accepts: one subject a kind of input."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import json
import math
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from builders.reference import random_trace
from builders.runs import COST as PRICED
from builders.runs import fake_runs, some_trace
from mutators import dumped, mutated_bytes, mutated_json, mutated_table, mutated_text

from analysis.cost import CostModel
from analysis.measured.calibrate import calibrate
from analysis.measured.speedups import summary
from analysis.replay.simulate import known_policies, simulate
from oracle.commands.text import hidden
from oracle.policies import POLICIES
from oracle.policies.names import parse, usage
from oracle.prompts.files import ENDINGS
from oracle.prompts.sets import load_prompts
from oracle.records import parts
from oracle.records import runs as run_files
from oracle.records.runs import Runs
from oracle.records.trace import FOLDER, Trace, iter_records, write_meta, write_part
from oracle.records.trace import to_table as trace_table

RUN_ID = "0123456789abcdef" * 2
COST = dataclasses.replace(PRICED, machine={"device": "cpu"}, measured_range={"tokens": [1, 21], "context": [3, 90]})
FITTED = ("constant:tokens=1", "constant:tokens=3", "constant:tokens=8")
NUMBERS = ("0", "1", "2", "7", "20", "-1", "0.5", "1.0", "0.99", "1e-9", "1e300", "nan", "2147483647", "1e", "True", "")
PROMPTS: tuple[list[dict[str, Any]], ...] = (
    [{"id": f"q{n}", "prompt": f"Say {n} words"} for n in range(4)],
    [{"task_id": n, "text": f"Add {n}", "test_list": [f"assert f() == {n}"], "code": "pass"} for n in range(3)],
    [{"instruction": f"Name {n} towns", "input": "in France" * (n % 2), "output": "Paris"} for n in range(4)],
    [{"id": str(n), "article": f"It rained {n} times.", "highlights": "Rain."} for n in range(3)],
    [{"task_id": f"P/{n}", "prompt": f"def f{n}():", "entry_point": f"f{n}", "instruction": "Do."} for n in range(3)],
    [
        {"instruction": "When?", "context": f"In 190{n}.", "system": "Be brief.", "history": [["a", "b"]]}
        for n in range(3)
    ],
    [{"messages": [{"role": "user", "content": [{"type": "text", "text": f"Say {n}."}]}]} for n in range(3)],
    [{"question": f"{n} + {n}?", "answer": str(2 * n), "system_prompt": "Count."} for n in range(3)],
    [{"question_id": n, "turns": [f"Name {n} rivers.", "And towns."], "reference": []} for n in range(3)],
    [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello."},
                {"role": "user", "content": f"Say {n}."},
            ]
        }
        for n in range(3)
    ],
    [
        {
            "id": str(n),
            "conversations": [
                {"from": "system", "value": "Be brief."},
                {"from": "human", "value": f"Say {n}."},
                {"from": "gpt", "value": str(n)},
            ],
        }
        for n in range(3)
    ],
)


@dataclass(frozen=True)
class World:
    """Files to mutate, made once, and their right answers."""

    folder: Path
    trace: Trace
    runs: Runs

    @staticmethod
    def make(folder: Path) -> World:
        trace = random_trace(5, prompts=6)
        (folder / "trace").mkdir()
        meta = {"prompts": {"dataset": "by-hand"}, "prompts_planned": 6, "target": {"model": "big"}, "skipped": []}
        write_meta(folder / "trace", {**trace.meta, **meta, "run_id": RUN_ID, "draft": {"model": "small"}})
        records = list(iter_records(trace))
        for number in range(2):
            write_part(folder / "trace", 3 * number, records[3 * number : 3 * number + 3])
        source = some_trace(prompts=3, size=24)
        (folder / "source").mkdir()
        write_meta(folder / "source", source.meta | {"prompts": {"dataset": "made up"}})
        write_part(folder / "source", 0, list(iter_records(source)))
        runs = fake_runs(source, [*FITTED, "heuristic"], repeats=2)
        (folder / "runs").mkdir()
        settings = {name: {} for name in runs.policies}
        run_files.write_meta(folder / "runs", {**runs.meta, "policies": settings, "repeats": 2, "run_id": RUN_ID})
        parts.write_part(folder / "runs" / "calls.parquet", run_files.to_table(runs.calls), "order", RUN_ID)
        COST.save(folder / "cost.json")
        (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PROMPTS[0]))
        return World(folder, Trace.load(folder / "trace"), Runs.load(folder / "runs"))


@dataclass(frozen=True)
class Mutant:
    """One input: what it is, in a line, and the call that must answer rightly or refuse cleanly."""

    shown: str
    use: Callable[[], object]


def policy(world: World, random: Random, place: Path) -> Mutant:
    """The text of a policy; what is read can be written and read again, and replays within the rules."""
    names = _policies()
    pieces = [*":=,. -+e0123456789", "tokens", "=1e999", "nan", "inf", "True", "9" * 40, "\x1b", "é", "٣", ":tokens=5"]
    text = random.choice(names)
    for _ in range(random.choice((0, 0, 1))):
        text = mutated_text(text, random, pieces)
    if random.random() < 0.7:  # numbers that a policy may or may not take, where it takes some
        text = re.sub(r"=[^,]+", lambda found: random.choice((found[0], f"={random.choice(NUMBERS)}")), text)

    def use() -> None:
        if not text.strip().startswith("oracle"):
            found = parse(text)
            assert parse(str(found)) == found, f"{found} does not read back"
        expect_replay(world.trace, text, COST)

    return Mutant(repr(text), use)


@functools.cache
def _policies() -> list[str]:
    """How policies may be written."""
    return [*map(usage, POLICIES), *known_policies(), *POLICIES]


def prices(world: World, random: Random, place: Path) -> Mutant:
    """A cost model's file; what is read is written and read again the same, and prices are finite."""
    file = place / "cost.json"
    file.write_bytes(_json_file(world.folder / "cost.json", random))

    def use() -> None:
        found = CostModel.load(file)
        found.save(place / "again.json")
        assert CostModel.load(place / "again.json") == found
        expect_replay(world.trace, "constant:tokens=3", found)

    return Mutant("cost.json", use)


def prompts(world: World, random: Random, place: Path) -> Mutant:
    """A file of prompts; each is text that can be stored, has an id, and none is lost."""
    rows, ending = random.choice(PROMPTS), random.choice(ENDINGS)
    file = place / f"prompts{ending}"
    if ending == ".parquet":
        table = (
            mutated_table(pa.Table.from_pylist(rows), random) if random.random() < 0.6 else pa.Table.from_pylist(rows)
        )
        pq.write_table(table, file)
        if random.random() < 0.5:
            file.write_bytes(mutated_bytes(file.read_bytes(), random))
    elif ending in (".csv", ".tsv", ".txt"):
        file.write_bytes(_table_lines(rows, ending, random))
    else:
        file.write_bytes(_prompt_lines(rows, ending, random))
    limit, field = random.choice((None, None, 2)), random.choice((None, None, *rows[0], "zz"))

    def use() -> None:
        found = load_prompts(file, limit=limit, seed=random.choice((None, 3)), prompt_field=field)
        assert len(found) == found.source["selected"] == min(found.source["rows"], limit or math.inf)
        for prompt in found:
            assert (
                isinstance(prompt.id, str)
                and (prompt.id + prompt.text).encode() is not None
                and prompt.user_turn.encode() is not None
                and all((turn.role + turn.content).encode() is not None for turn in prompt.before)
            )
        assert all(1 <= rows <= len(found) for rows in found.source["left_out"].values()), found.source
        json.dumps(found.source, allow_nan=False, ensure_ascii=False).encode()

    return Mutant(f"{file.name}, limit {limit}, field {field}", use)


def trace(world: World, random: Random, place: Path) -> Mutant:
    """A trace's folder.  Damaged bytes are found or change nothing; forged values obey every rule of a trace."""
    folder = place / "trace"
    how = _mutate_folder(world.folder / "trace", folder, random)

    def use() -> None:
        found = Trace.load(folder)
        if how == "bytes":
            _expect_same_rows(found, world.trace)
        for text in ("none", "constant:tokens=3", "oracle:detect", "oracle:optimal"):
            expect_replay(found, text, COST)
        if how == "sealed" and found.unfinished is None:
            assert found.prompts == found.meta.get("prompts_planned", found.prompts)
        assert trace_table(list(iter_records(found))).num_rows == found.prompts

    return Mutant(f"trace, {how}", use)


def runs(world: World, random: Random, place: Path) -> Mutant:
    """A folder of runs; what is read adds up, and its summary and prices are numbers."""
    folder = place / "runs"
    how = _mutate_folder(world.folder / "runs", folder, random)

    def use() -> None:
        found = Runs.load(folder)
        for call in found.calls:
            assert (call.accepted <= call.drafted).all() and len(call.tokens) == int((call.accepted + 1).sum())
        if how == "bytes":
            assert [call.key for call in found.calls] == [call.key for call in world.runs.calls]
            for mine, known in zip(found.calls, world.runs.calls, strict=True):
                assert np.array_equal(mine.tokens, known.tokens) and np.array_equal(mine.seconds, known.seconds)
        for each in summary(found):
            assert each.total.value > 0 and each.seconds_per_token > 0 and 0 <= each.accepted <= each.drafted
        if random.random() < 0.3:
            assert calibrate(found).cost.verify[0][1] > 0

    return Mutant(f"runs, {how}", use)


def words(world: World, random: Random, place: Path) -> Mutant:
    """The words of a command, or a sound command on mutated files; nothing that it shows acts on a terminal."""
    line = list(random.choice(COMMANDS))
    use = in_copy(world, place, line)
    if random.random() < 0.3:
        chosen = random.choice(("trace", "runs", "cost.json"))
        if chosen == "cost.json":
            (place / chosen).write_bytes(_json_file(place / chosen, random))
        else:
            shutil.rmtree(place / chosen)
            _mutate_folder(world.folder / chosen, place / chosen, random)
    else:
        line[:] = _mutated_words(line, random)
    return Mutant(f"oracle {line!r:.400}", use)


def in_copy(world: World, place: Path, line: list[str]) -> Callable[[], int]:
    """A command on copies of the world's files, in the folder ``place``."""
    for name in ("trace", "runs", "source"):
        shutil.copytree(world.folder / name, place / name)
    for name in ("cost.json", "prompts.jsonl"):
        shutil.copy(world.folder / name, place / name)

    def use() -> int:
        from oracle.commands.app import run

        with contextlib.chdir(place):
            return run(line)

    return use


SUBJECTS = {each.__name__: each for each in (policy, prices, prompts, trace, runs, words)}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("simulate", "trace", "-p", "dynamic", "-p", "constant:tokens=3", "--cost", "cost.json", "--json"),
    ("simulate", "source", "-p", "oracle:optimal", "--draft-cost", "0.2"),
    ("stats", "trace", "--json"),
    ("iterations", "trace"),
    ("fit", "trace", "--draws", "3", "--json"),
    ("validate", "--runs", "runs", "--trace", "source", "--counts", "0.9", "--json"),
    ("validate", "--runs", "runs", "--trace", "source", "--cost", "cost.json", "--out", "out", "--force"),
    ("calibrate", "new.json", "--runs", "runs", "--fit", "constant:tokens=1", "--fit", "constant:tokens=8"),
    ("collect", "out", "--dataset", "prompts.jsonl", "--max-new-tokens", "8", "--batch-size", "2"),
    ("collect", "out", "--dataset", "prompts.jsonl", "--prompt-field", "prompt", "--max-new-tokens", "4"),
    ("collect", "out", "--dataset", "prompts.jsonl", "--chat", "--system", "Be brief.", "--template-arg", "a=1"),
    ("measure", "out", "-p", "dynamic", "--dataset", "prompts.jsonl", "--repeats", "2", "--limit", "2"),
)  # fmt: skip
_PIECES = (
    "-", "--", "=", ",", ":", "0", "-1", "1e999", "nan", "inf", "9" * 30, " ", "\n", "\x1b[2J", "\u202e", "\udc80",
    "$x_", "'", '"', "é", "x" * 3000, "--json", "-p", "--cost", "--limit", "--seed", "--force", "--resume",
    "True", "[red]",
)  # fmt: skip


def expect_replay(found: Trace, text: str, cost: CostModel) -> None:
    """Of a replay: it emits each text once, keeps no more than it drafts, and its price is a number above 0."""
    (result,) = [result] if not isinstance(result := simulate(found, text, cost), list) else result
    emitted = np.bincount(result.prompt, weights=result.accepted + 1, minlength=found.prompts)
    assert np.array_equal(emitted, np.diff(found.offsets)), "tokens do not add up"
    assert (result.accepted <= result.drafted).all() and (result.drafted <= result.passes).all()
    assert (result.drafted >= 0).all() and math.isfinite(result.speedup) and result.speedup > 0, result.speedup


def expect_shown(out: str, err: str, status: int) -> None:
    """Of what a command prints: nothing acts on a terminal; a refusal's last line is short, and no traceback."""
    acting = {each for each in out + err if hidden(each) and each != "\n"}
    assert not acting, f"shown: {acting}"
    assert "Traceback" not in err and "--debug for the details" not in err, err[-500:]
    last = err.rstrip("\n").rpartition("\n")[2]
    if status == 2:
        assert last.startswith("Error: ") and len(last) <= 1000, last[:200]


@contextlib.contextmanager
def captured():
    """Standard output and error as a terminal's encoding would take them."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2)]
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams
    try:
        yield lambda: tuple(_text(stream) for stream in streams)
    finally:
        sys.stdout, sys.stderr = before


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def _mutated_words(line: list[str], random: Random) -> list[str]:
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(line)) if line else 0
        match random.randrange(5):
            case 0:
                del line[at : at + 1]
            case 1:
                line.insert(at, random.choice(_PIECES))
            case 2:
                line.insert(at, random.choice(random.choice(COMMANDS)))
            case _ if line:
                line[at] = mutated_text(line[at], random, _PIECES)
    # What shows a traceback on request; a command that no fault could be told from.
    return [word for word in line if word != "--debug"]


def _prompt_lines(rows: list[dict], ending: str, random: Random) -> bytes:
    tree = mutated_json(rows, random) if random.random() < 0.6 else rows
    if ending == ".jsonl" and isinstance(tree, list):
        data = b"\n".join(dumped(row, random).replace(b"\n", b"") for row in tree) + b"\n"
    else:
        data = dumped(tree, random)
    return mutated_bytes(data, random) if random.random() < 0.5 else data


def _table_lines(rows: list[dict], ending: str, random: Random) -> bytes:
    """The rows as a table whose cells are texts, or as lines of text."""
    tree = mutated_json(rows, random) if random.random() < 0.4 else rows
    cells = [[str(value) for value in row.values()] for row in tree if isinstance(row, dict)] if tree else []
    out = io.StringIO(newline="")
    if ending == ".txt":
        out.write("\n".join(" ".join(row) for row in cells))
    else:
        writer = csv.writer(out, delimiter="\t" if ending == ".tsv" else ",")
        writer.writerows([list(rows[0]), *cells])
    data = out.getvalue().encode("utf-8", "surrogatepass")
    return mutated_bytes(data, random) if random.random() < 0.5 else data


def _json_file(file: Path, random: Random) -> bytes:
    data = file.read_bytes()
    return (
        mutated_bytes(data, random) if random.random() < 0.4 else dumped(mutated_json(json.loads(data), random), random)
    )


def _mutate_folder(source: Path, folder: Path, random: Random) -> str:
    """A copy with one file changed; says how: "meta", "bytes" (of a part), "sealed" anew, or "files"."""
    shutil.copytree(source, folder)
    meta, files = folder / "meta.json", sorted(folder.glob("*.parquet"))
    file = random.choice(files)
    match random.randrange(6):
        case 0:
            meta.write_bytes(_json_file(meta, random))
            return "meta"
        case 1:
            file.write_bytes(mutated_bytes(file.read_bytes(), random))
            return "bytes"
        case 2:
            return _mutate_files(folder, file, random)
        case _:
            unit, run_id = ("order", RUN_ID) if "calls" in file.name else (FOLDER.unit, RUN_ID)
            return _seal_anew(file, unit, run_id, meta, random)


def _mutate_files(folder: Path, file: Path, random: Random) -> str:
    match random.randrange(4):
        case 0:
            file.unlink()
        case 1:
            copies = [re.sub(r"-0000\d", "-00007", file.name), "call-000007-01234567.parquet", "part-00009.parquet"]
            data = file.read_bytes()
            file.with_name(random.choice(copies)).write_bytes(data)
        case 2:
            file.rename(file.with_name(mutated_text(file.name, random, ["-", "0", "9", ".", "a", "part-00000"]) or "x"))
        case 3:
            file.unlink()
            file.mkdir()
    return "files"


def _seal_anew(file: Path, unit: str, run_id: str, meta: Path, random: Random) -> str:
    """Somebody changed values and made them look whole."""
    table = mutated_table(pq.ParquetFile(file).read(), random)
    sealed: Mapping[bytes, bytes] = {}
    with contextlib.suppress(parts.Unreadable, KeyError):
        units = table.column(unit).to_pylist()
        sums = {name: parts.checksum(table.column(name)) for name in table.column_names}
        sealed = {
            b"oracle_part": json.dumps({"run_id": run_id, "units": units, "checksums": sums}, default=str).encode()
        }
    if not sealed or random.random() < 0.3:  # as a part that is older than seals
        sealed = {}
        meta.write_text(
            json.dumps({key: value for key, value in json.loads(meta.read_text()).items() if key != "run_id"})
        )
        for number, other in enumerate(sorted(file.parent.glob("part-*.parquet"))):
            plain = table if other == file else pq.ParquetFile(other).read()
            other.unlink()
            pq.write_table(plain.replace_schema_metadata(), other.with_name(f"part-{number:05d}.parquet"))
        if file.name == "calls.parquet":
            pq.write_table(table.replace_schema_metadata(), file)
        return "unsealed"
    pq.write_table(table.replace_schema_metadata(sealed), file, compression=random.choice(("zstd", "none", "snappy")))
    return "sealed"


def _expect_same_rows(found: Trace, known: Trace) -> None:
    """Of damaged bytes: a trace that is read is the trace that was written."""
    for name in ("ids", "index", "offsets", "target_tokens", "draft_tokens", "confidence", "entropy", "max_new_tokens"):
        assert np.array_equal(getattr(found, name), getattr(known, name)), f"{name} changed unnoticed"
    for field in dataclasses.fields(known.overruns) if known.overruns is not None else ():
        assert np.array_equal(getattr(found.overruns, field.name), getattr(known.overruns, field.name)), field.name
