"""Runs killed at random places: nothing is lost, and what goes on ends as if nothing had happened.

    python tests/robustness/kills.py [--kills 100] [--seed 0]

A process that has loaded everything is forked for each run; the child is killed with SIGKILL, half of them just before
a random one of their operations on files (which a seed makes again), half after a random time.  While a run is
interrupted, what is there must be read, be right, and say that it is unfinished; then it goes on, perhaps to be killed
again, until it has ended: contents, and names of files, are those of an undisturbed run.
"""

# ruff: noqa: E402 (run as a script it has to find the tests' own modules first)
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch
from builders.pairs import tiny_pair

from analysis.cost import CostModel
from oracle.collect import collect
from oracle.measure import measure
from oracle.records.columns import RUNS, TRACE
from oracle.records.runs import Runs
from oracle.records.trace import Trace, iter_records
from oracle.workflows.validate import validate

PROMPTS = [[1, 5, 9], [1, 7], [1, 40, 41, 42], [1, 66, 3], [1, 90]]
MEASURED = ("constant:tokens=2", "heuristic")  # the second one learns: its unfinished repeats begin again
COST = CostModel(draft=0.1)
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.rmdir")
Run = Callable[..., object]  # (out, resume=..., force=...)


@dataclass(frozen=True)
class Scenario:
    """A run that is killed; where ``before`` is given it replaces what that one left."""

    name: str
    run: Run
    before: Run | None = None


def scenarios() -> list[Scenario]:
    pair = tiny_pair(pos=128)
    size = {"max_new_tokens": 12}

    def collecting(out: Path, **how: bool) -> None:
        collect(pair, PROMPTS, out, batch_size=2, max_overrun=4, **size, **how)

    def collecting_other(out: Path, **how: bool) -> None:
        collect(pair, PROMPTS[:4], out, batch_size=1, max_overrun=3, **size, **how)

    def measuring(out: Path, **how: bool) -> None:
        measure(pair, PROMPTS[:2], MEASURED, out, repeats=2, **size, **how)

    def measuring_other(out: Path, **how: bool) -> None:
        measure(pair, PROMPTS[:3], MEASURED[:1], out, repeats=1, **size, **how)

    def validating(out: Path, **how: bool) -> None:
        # Prices are given: those that are fitted on a few calls depend on what else the machine does.
        validate(pair, PROMPTS[:2], ["constant:tokens=2"], out, cost=COST, repeats=1, max_overrun=8, **size, **how)

    return [
        Scenario("collect", collecting),
        Scenario("measure", measuring),
        Scenario("collect --force", collecting, collecting_other),
        Scenario("measure --force", measuring, measuring_other),
        Scenario("validate", validating),
    ]


# --- processes -------------------------------------------------------------------------------------------------------


def forked(work: Callable[[], object]) -> int:
    """A child that does ``work``; its process id.  It ends with 0, 2 for a ValueError, or 1 and a traceback."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        work()
        status = 0
    except ValueError as error:
        print(error, file=sys.stderr)
        status = 2
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def ended(process: int) -> int:
    """Its exit status; minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def on_files(folder: Path, then: Callable[[], object]) -> None:
    """For the rest of the process: call ``then`` before each operation on a file in ``folder``."""
    inside = os.fspath(folder)

    def hook(event: str, given: tuple) -> None:
        if event in EVENTS and any(str(each).startswith(inside) for each in given[:2]):
            then()

    sys.addaudithook(hook)


def counted(run: Run, out: Path, **how: bool) -> tuple[int, float]:
    """Let it run undisturbed in a child; its operations on files, and its seconds."""
    ours, theirs = os.pipe()

    def work() -> None:
        on_files(out, lambda: os.write(theirs, b"."))
        run(out, **how)

    started = time.perf_counter()
    process = forked(work)
    os.close(theirs)
    with open(ours, "rb") as events:
        number = len(events.read())
    status = ended(process)
    assert status == 0, f"an undisturbed run ended with {status}"
    return number, time.perf_counter() - started


def killed(run: Run, out: Path, random: Random, events: int, seconds: float, **how: bool) -> tuple[int, str]:
    """Let it run and kill it: (exit status, when it was killed)."""
    if random.random() < 0.5:
        last = random.randint(1, events)
        left = iter(range(last))

        def count() -> None:
            if next(left, None) == last - 1:
                os.kill(os.getpid(), signal.SIGKILL)

        def work() -> None:
            on_files(out, count)
            run(out, **how)

        return ended(forked(work)), f"before operation {last} of {events}"
    delay = random.uniform(0, 1.1 * seconds)
    process = forked(lambda: run(out, **how))
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)  # not yet waited for, so the id is still its own
    return ended(process), f"after {delay:.3f} of {seconds:.3f} s"


# --- what is there ---------------------------------------------------------------------------------------------------

Contents = dict[str, dict[Any, Any]]  # folder -> unit -> its values, times left out


def folders(out: Path) -> list[Path]:
    """Folders with a meta.json, ``out`` or those in it."""
    return [file.parent for file in sorted(out.rglob("meta.json"))]


def read(folder: Path) -> tuple[dict[Any, Any], str | None, int | None]:
    """Rows by what tells them apart, what is said of an unfinished run, and how many were planned.

    Nothing of a run that says that it has no finished part yet.
    """
    is_trace = '"schema"' in (folder / "meta.json").read_text()
    try:
        found = Trace.load(folder) if is_trace else Runs.load(folder)
    except ValueError as error:
        if re.search("no finished (part|call) yet; .*--resume`", str(error)):
            return {}, str(error), None
        raise
    if isinstance(found, Trace):
        names = [column.name for column in TRACE]
        rows = {record.id: values(record, names) for record in iter_records(found)}
        return rows, found.unfinished, found.meta["prompts_planned"]
    names = [column.name for column in RUNS if not column.name.endswith("seconds") and column.name != "order"]
    planned = found.meta["prompts_planned"] * found.meta["repeats"] * len(found.meta["policies"])
    return {call.key: values(call, names) for call in found.calls}, found.unfinished, planned


def values(row: Any, names: list[str]) -> str:
    """All of them as one text."""
    return repr([_plain(getattr(row, name, None)) for name in names])


def contents(out: Path) -> Contents:
    """What a finished run holds.  Raises AssertionError where it says that it is unfinished."""
    found = {}
    for folder in folders(out):
        rows, unfinished, _ = read(folder)
        assert unfinished is None, unfinished
        found[os.path.relpath(folder, out)] = rows
    return found


def names(out: Path) -> list[str]:
    """Names of all files, those of runs left out."""
    found = [os.path.relpath(file, out) for file in out.rglob("*") if file.is_file()]
    return sorted(re.sub(r"-[0-9a-f]{8}\.parquet", ".parquet", name) for name in found)


def expect_interrupted(out: Path, known: list[Contents]) -> dict[Path, str]:
    """Of an interrupted run: what is there is some undisturbed run's, and less than all of it says so.

    Returns the checksum of each finished part.
    """
    kept = {}
    for folder in folders(out):
        rows, unfinished, planned = read(folder)
        name = os.path.relpath(folder, out)
        right = [each[name] for each in known if rows.items() <= each.get(name, {}).items()]
        assert right, f"{folder} holds other rows than an undisturbed run"
        if planned is None or len(rows) < planned:
            assert unfinished and "--resume" in unfinished, f"{folder} does not say that it is unfinished"
            assert planned is None or f"{len(rows)} of {planned}" in unfinished, unfinished
        kept |= {file: sha256(file) for file in folder.glob("part-*.parquet")}
    return kept


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


# --- one kill --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """An undisturbed run: what it holds, and what it does."""

    contents: Contents
    names: list[str]
    events: int
    seconds: float

    @staticmethod
    def of(run: Run, out: Path, before: Run | None = None) -> Known:
        if before is not None:
            counted(before, out)
        events, seconds = counted(run, out, force=before is not None)
        return Known(contents(out), names(out), events, seconds)


def one_run(scenario: Scenario, known: Known, old: Contents | None, out: Path, random: Random) -> list[str]:
    """Kill a run one to three times, go on, and compare; says when it was killed.  Raises AssertionError."""
    if scenario.before is not None:
        assert ended(forked(partial(scenario.before, out))) == 0
    told, force, kept = [], scenario.before is not None, {}
    for _ in range(random.choice((1, 1, 2, 3))):
        how = {"force": force, "resume": not force and bool(told)}
        status, when = killed(scenario.run, out, random, known.events, known.seconds, **how)
        assert status in (-signal.SIGKILL, 0), f"a run {when} ended with {status}"
        told.append(f"{'killed' if status else 'ended'} {when}")
        kept = expect_interrupted(out, [known.contents, *([] if old is None else [old])])
        force = force and planned(out) != len(next(iter(known.contents.values())))
    status = ended(forked(partial(scenario.run, out, force=force, resume=not force)))
    assert status == 0, f"going on ended with {status}"
    assert contents(out) == known.contents, "other contents than an undisturbed run"
    assert names(out) == known.names, f"files {names(out)}, an undisturbed run leaves {known.names}"
    for file, checksum in {} if force else kept.items():
        assert checksum == sha256(file), f"{file} was finished, and is written again"
    return told


def planned(out: Path) -> int | None:
    """Rows of the run that a folder says it holds: when they are the new run's, it is gone on with."""
    if not (out / "meta.json").exists():
        return None
    meta = json.loads((out / "meta.json").read_text())
    return meta["prompts_planned"] * meta.get("repeats", 1) * len(meta.get("policies", "1"))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=100, help="at least so many processes are killed")
    options.add_argument("--seed", type=int, default=0, help="of the first run; the next one has the next")
    given = options.parse_args()
    torch.set_num_threads(1)
    folder, faults, kills, seed = Path(tempfile.mkdtemp(prefix="kills-")), 0, 0, given.seed
    try:
        every = scenarios()
        known, old = {}, {}
        for number, scenario in enumerate(every):
            known[scenario.name] = Known.of(scenario.run, folder / f"known-{number}", scenario.before)
            if scenario.before is not None:
                old[scenario.name] = Known.of(scenario.before, folder / f"old-{number}").contents
        while kills < given.kills and not faults:
            scenario, out = every[seed % len(every)], folder / f"out-{seed}"
            try:
                told = one_run(scenario, known[scenario.name], old.get(scenario.name), out, Random(seed))
                kills += sum(each.startswith("killed") for each in told)
                print(f"seed {seed}: {scenario.name}: {'; '.join(told)}: nothing lost", flush=True)
            except (AssertionError, ValueError) as error:
                faults += 1
                print(f"seed {seed}: {scenario.name}: FAULT: {type(error).__name__}: {error}", flush=True)
            shutil.rmtree(out, ignore_errors=True)
            seed += 1
    finally:
        shutil.rmtree(folder)
    print(f"{kills} kills of {seed - given.seed} runs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
