"""What ends a command before its time: signals, full disks, readers that have gone, errors of any size."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oracle.commands.guard import farewell, guarded

ROOT = Path(__file__).parent.parent.parent
# Sends a signal to itself when the named module begins to be imported: no clock, and always the same moment.
INTERRUPTED = """
import importlib.abc, os, sys
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and not done:
            done.append(name)
            os.kill(os.getpid(), {number})
        return None
done = []
sys.meta_path.insert(0, Interrupt())
sys.argv = ["oracle", *{words!r}]
from oracle.cli import main
main()
"""


def start(*words, code=None, **options):
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "oracle", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=-1, stderr=-1, preexec_fn=listen, **options)


def listen():
    """Tests that run in the background of a shell inherit a SIGINT that is switched off."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(*words, **options):
    process = start(*words, **options)
    out, err = process.communicate(timeout=120)
    return process.returncode, out or "", err or ""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("typer", ["--help"]),
        ("oracle.commands.validate", ["simulate"]),
        ("numpy", ["simulate", "data/sample"]),
        ("pyarrow.parquet", ["stats", "data/sample"]),
        ("scipy.sparse", ["stats", "data/sample"]),
        ("pandas", ["iterations", "data/sample"]),
        ("matplotlib", ["plot", "data/sample", "histogram"]),
        ("torch", ["collect", "OUT"]),
        ("transformers", ["measure", "OUT", "--limit", "1"]),
    ],
)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_any_import_is_one_line_and_its_status(module, words, number, status, tmp_path):
    words = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    code = INTERRUPTED.format(module=module, number=int(number), words=words)
    found, _, err = finish(code=code)
    assert found == status, err
    lines = [line for line in err.splitlines() if not line.startswith(("Assuming", "Using the embedded"))]
    assert len(lines) == 1 and lines[0].startswith("Interrupted" if status == 130 else "Terminated"), err
    resumable = words[0] in ("collect", "measure")
    assert ("--resume" in lines[0]) == resumable


@pytest.mark.parametrize("delay", [0.05, 0.3, 1.0, 2.5])
def test_a_signal_at_any_time_leaves_no_traceback(delay, tmp_path):
    code = f"""
import sys
sys.argv = ["oracle", "collect", {str(tmp_path / "out")!r}, "--threads", "1"]
import oracle.cli
from oracle.commands import guard
installed = guard.Stops.install
guard.Stops.install = lambda stops: (installed(stops), print("ready", flush=True))
oracle.cli.main()
"""
    process = start(code=code)
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "ignored" not in err
    last = err.splitlines()[-1]
    assert (
        last == f"Interrupted; what was finished is kept.  To go on: oracle collect {tmp_path}/out --threads 1 --resume"
    )
    assert not list(tmp_path.rglob("*.tmp"))


def test_an_interrupt_that_somebody_swallows_still_ends_the_command():
    code = """
import os, signal, sys
from oracle.commands.guard import Stops, guarded
stops = Stops(["simulate"])
stops.install()
def command():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        pass
sys.exit(guarded(command, ["simulate"], stops))
"""
    assert finish(code=code)[::2] == (130, "Interrupted.\n")


def test_an_interrupt_that_python_cannot_raise_ends_the_command():
    code = """
import os, signal, sys
from oracle.commands.guard import Stops, guarded
class Slow:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
stops = Stops(["simulate"])
stops.install()
def command():
    Slow()
    while True:
        pass
sys.exit(guarded(command, ["simulate"], stops))
"""
    assert finish(code=code)[::2] == (130, "Interrupted.\n")


def test_a_signal_that_the_parent_switched_off_stays_off():
    code = """
import os, signal
from oracle.commands.guard import Stops
signal.signal(signal.SIGINT, signal.SIG_IGN)
Stops([]).install()
os.kill(os.getpid(), signal.SIGINT)
print("alive")
"""
    assert finish(code=code)[:2] == (0, "alive\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--version"],
        ["simulate", "data/sample", "--draft-cost", "0.1", "-p", "dynamic"],
        ["simulate", "data/sample", "--draft-cost", "0.1", "-p", "dynamic", "--json"],
        ["iterations", "data/sample"],
    ],
)
def test_a_full_standard_output_is_one_line(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "oracle", *words], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "Error: the answer cannot be written to standard output (No space left on device)\n"


@pytest.mark.parametrize("words", [["--help"], ["simulate", "data/sample", "--draft-cost", "0.1", "-p", "none"]])
def test_a_reader_that_has_gone_is_no_error(words):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "oracle", *words], cwd=ROOT, stdout=write, stderr=-1, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_both_ways_in_and_the_short_help():
    texts = [
        subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in (["oracle", "-h"], ["oracle", "--help"], ["oracle.cli", "-h"])
    ]
    assert len(set(texts)) == 1 and "Usage: oracle" in texts[0]


@pytest.mark.parametrize("width", ["60", "80", "200"])
def test_the_help_cuts_no_word(width):
    environment = os.environ | {"COLUMNS": width}
    text = {
        name: subprocess.run(
            [sys.executable, "-m", "oracle", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        ).stdout
        for name, words in {"all": [], "study": ["study", "-h"]}.items()
    }
    assert "..." not in text["all"].partition("Commands:")[2] and "--install-completion" in text["all"]
    assert "--allow-token-differences" in text["study"] and "…" not in text["study"]
    assert all(len(line) <= int(width) for each in text.values() for line in each.splitlines())


def test_a_shell_is_told_what_could_come_next():
    asked = {"_ORACLE_COMPLETE": "complete_bash", "COMP_WORDS": "oracle simulate --form", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "oracle"], cwd=ROOT, capture_output=True, text=True, env=os.environ | asked
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["--format"], "")


def failed(error, words=()):
    def command():
        raise error

    return guarded(command, list(words))


def test_an_error_is_one_bounded_line_that_acts_on_no_terminal(capsys):
    assert failed(ValueError("begin\n" + "x" * 1_200_000 + "\x1b]52;c;evil\x07 end")) == 2
    line = capsys.readouterr().err
    assert len(line) < 700 and line.count("\n") == 1
    assert line.startswith("Error: begin xxx") and line.endswith("\\x1b]52;c;evil\\x07 end\n")
    assert "1,2" in line  # how long it was


def test_statuses(capsys):
    assert failed(ValueError("a")) == 2 and failed(RuntimeError("b")) == 1 and failed(OSError("c")) == 1
    assert failed(KeyError("d")) == 1
    assert capsys.readouterr().err.splitlines() == [
        "Error: a",
        "Error: b",
        "Error: c",
        "Error: KeyError: 'd'  (run again with --debug for the details)",
    ]
    with pytest.raises(ValueError):
        failed(ValueError("a"), ["--debug"])


def test_what_to_type_after_an_interruption():
    words = ["collect", "my trace", "--dataset", "it's $HOME.jsonl", "--force"]
    again = "oracle collect 'my trace' --dataset 'it'\"'\"'s $HOME.jsonl' --resume"
    assert farewell(words, signal.SIGINT).endswith(f"To go on: {again}")
    assert farewell(["calibrate", "--runs", "x"], signal.SIGINT) == "Interrupted."
    assert farewell(["plot", "x", "roc"], signal.SIGTERM) == "Terminated."
    assert farewell(["collect", "x" * 1000], signal.SIGINT).endswith("the same command with --resume")


@pytest.mark.parametrize("module", ["oracle.commands.guard", "oracle.commands.text"])
def test_a_stop_before_there_is_a_guard_is_one_line_too(module):
    code = INTERRUPTED.format(module=module, number=int(signal.SIGINT), words=["collect", "OUT"])
    assert finish(code=code) == (130, "", "Interrupted.\n")


@pytest.mark.parametrize("number", [1, 2])
def test_a_stream_that_the_parent_closed_takes_nothing_and_breaks_nothing(number):
    command = ["sh", "-c", f'"$0" -m oracle simulate data/sample -p none {number}>&-', sys.executable]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0 and "Error" not in done.stderr, done.stderr
    assert ("none" in done.stdout) == (number == 2)
