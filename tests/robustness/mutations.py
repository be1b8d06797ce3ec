"""Mutated inputs of every kind that the toolkit reads: each is answered rightly or refused cleanly.

    python tests/robustness/mutations.py [--inputs 1000000] [--first 0] [--workers 2] [--kind trace]

A refusal is clean when the toolkit itself raised it (ValueError or RuntimeError from a line of its own, an OSError, or
a word that the command line does not take), in words for a user.  Anything else is a fault: another exception, an
answer that breaks a rule, more than 10 seconds, more than 2 GB beyond what a worker begins with, an end of the process.
Each input follows from its number: `--first N --inputs 1` makes one again, and shows what became of it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]

SECONDS = 10
BYTES = 2 * 2**30
CHUNK = 500  # inputs of a worker process
MEMORY = Path("/dev/shm")  # where files are quick to make and remove: on a disk that takes longer than all the rest
# In a hundred inputs.  A command takes 30 times as long as a policy's text: of a mixture that gives each kind the same
# time, many more inputs are tried.
SHARES = {"policy": 44, "prices": 18, "prompts": 28, "trace": 4, "runs": 4, "words": 2}
MIX = [kind for kind, share in SHARES.items() for _ in range(share)]
_CLOCKS = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
_OUT_OF_MEMORY = ("malloc of size", "Unable to allocate", "MemoryError", "realloc of size")


def one(world: Any, number: int, place: Path, kind: str | None = None) -> dict[str, Any]:
    """Make input ``number`` in the empty folder ``place`` and use it; what became of it."""
    from subjects import SUBJECTS, captured, expect_shown

    from oracle.commands.guard import guarded

    kind = kind or MIX[37 * number % len(MIX)]
    mutant = SUBJECTS[kind](world, Random(number), place)
    caught: list[Exception] = []

    def use() -> object:
        try:
            return mutant.use()
        except Exception as error:
            caught.append(error)
            raise

    with captured() as streams:
        status = guarded(use, [])
        out, err = streams()
    fault = _fault(caught[0]) if caught else None
    try:
        expect_shown(out, err, status)
    except AssertionError as error:
        fault = fault or f"{error}"
    end = "fault" if fault else "refused" if caught else "answered"
    return {"number": number, "kind": kind, "end": end, "shown": mutant.shown, "fault": fault, "said": err[-300:]}


def _fault(error: Exception) -> str | None:
    """What is wrong with how an input was refused; None where nothing is."""
    from typer.exceptions import TyperException

    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__}: {str(error)[:300]} ({Path(at.filename).name}, line {at.lineno}: {at.line})"
    if any(words in str(error) for words in _OUT_OF_MEMORY):
        return f"memory: {where}"
    if isinstance(error, (TyperException, OSError)):
        return None
    ours = at.filename.startswith((f"{ROOT}/oracle/", f"{ROOT}/analysis/")) and (at.line or "").startswith("raise")
    if isinstance(error, (ValueError, RuntimeError)) and ours:
        return None
    return where


def worker(world: Any, numbers: range, pipe: int, kind: str | None) -> None:
    """Use the inputs, one line of JSON each into ``pipe``; the process dies where one takes too long or too much."""
    for number in _CLOCKS.values():
        signal.signal(number, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, held + BYTES))
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix="mutant-") as place:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: others may use the machine too
            signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)  # for what waits without end
            found = one(world, number, Path(place), kind)
            for clock in _CLOCKS:
                signal.setitimer(clock, 0)
        os.write(pipe, json.dumps(found).encode() + b"\n")


def forked(world: Any, numbers: range, kind: str | None) -> tuple[int, int]:
    """The id and the pipe of a worker."""
    ours, theirs = os.pipe()
    process = os.fork()
    if process:
        os.close(theirs)
        return process, ours
    status = 1
    try:
        worker(world, numbers, theirs, kind)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def results(world: Any, numbers: range, workers: int, kind: str | None) -> Iterator[dict[str, Any]]:
    """What became of each input, in chunks of ``workers`` processes at once."""
    chunks = [numbers[start : start + CHUNK] for start in range(0, len(numbers), CHUNK)]
    while chunks:
        batch, chunks = chunks[:workers], chunks[workers:]
        running = [(chunk, *forked(world, chunk, kind)) for chunk in batch]
        for chunk, process, pipe in running:
            with open(pipe, "rb") as lines:
                found = [json.loads(line) for line in lines]
            yield from found
            _, status = os.waitpid(process, 0)
            if status:
                number = chunk[len(found)]
                why = "took too long" if os.WTERMSIG(status) in _CLOCKS.values() else f"the process ended with {status}"
                yield {"number": number, "kind": kind or "?", "end": "fault", "shown": "?", "fault": why, "said": ""}
                chunks.append(chunk[len(found) + 1 :])


def warmed(world: Any) -> None:
    """Run every command once, so that workers begin with all that is loaded; none of them gets to a model."""
    from subjects import COMMANDS, captured, in_copy

    from oracle.commands.guard import guarded
    from oracle.commands.options import PairOptions

    def no_models(options: PairOptions, universal: bool = False) -> None:
        raise OSError("no model is loaded here")

    PairOptions.load = no_models  # type: ignore[method-assign]
    for line in COMMANDS:
        with tempfile.TemporaryDirectory() as place, captured() as streams:
            status = guarded(in_copy(world, Path(place), list(line)), [])
            expected = 1 if line[0] in ("collect", "measure") else 0
            assert status == expected, (line, streams())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--inputs", type=int, default=2000)
    options.add_argument("--first", type=int, default=0, help="number of the first input")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--kind", help="inputs of this kind alone")
    given = options.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell switches it off in the background
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    from subjects import World

    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    folder = Path(tempfile.mkdtemp(prefix="mutations-"))
    numbers = range(given.first, given.first + given.inputs)
    print(f"inputs {numbers.start} to {numbers.stop - 1}", flush=True)
    ends: Counter[tuple[str, str]] = Counter()
    try:
        world = World.make(folder)
        warmed(world)
        for found in results(world, numbers, given.workers, given.kind):
            ends[found["kind"], found["end"]] += 1
            if found["end"] == "fault" or given.inputs == 1:
                print(json.dumps(found), flush=True)
    except KeyboardInterrupt:
        print("stopped; so far:")
    finally:
        shutil.rmtree(folder)
    for (kind, end), count in sorted(ends.items()):
        print(f"{kind:10} {end:10} {count:,}")
    faults = sum(count for (_, end), count in ends.items() if end == "fault")
    print(f"{ends.total():,} inputs, {faults:,} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
