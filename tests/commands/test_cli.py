"""The commands as a user types them."""

import csv
import io
import json
import re
import shutil
import struct

import pytest
from builders.traces import EOS, pattern
from typer.testing import CliRunner

from oracle.cli import app
from oracle.records.trace import write_meta, write_part

KEYS = [
    "trace", "prices",
    "policy", "iterations", "drafted", "passes", "accepted", "wasted", "tokens", "tokens_per_iteration",
    "speedup", "baseline", "baseline_ratio",
    "semantics",
]  # fmt: skip
COMMANDS = [
    "demo",
    "diagnose",
    "collect",
    "simulate",
    "tune",
    "compare",
    "iterations",
    "measure",
    "calibrate",
    "validate",
    "fit",
    "stats",
    "train",
    "plot",
    "policies",
    "predict",
    "report",
]


def run(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


@pytest.fixture
def trace(tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir()
    write_meta(folder, {"eos_token_ids": [EOS], "max_overrun": 9, "prompts": {"dataset": "by-hand"}})
    texts = ["++-+++-+", "+++++", "--+-", "+-+-+-++"]
    branches = {at: [(1, 0.9)] * 9 for at in range(9)}
    write_part(folder, 0, [pattern(text, index=n, overruns=branches) for n, text in enumerate(texts)])
    return folder


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_of_every_command(command):
    done = run(*command, "--help")
    assert done.exit_code == 0 and "Usage" in done.output


def test_version():
    assert run("--version").stdout.startswith("oracle-lookahead ")


def test_simulate_prints_one_row_a_policy_with_its_interval(trace):
    done = run("simulate", trace, "-p", "constant:tokens=2", "-p", "oracle:detect", "--draft-cost", "0.2")
    assert done.exit_code == 0, done.output
    assert "constant:tokens=2" in done.stdout and "oracle:detect" in done.stdout
    table = done.stdout.partition("Baseline: ")[0]
    assert table.count("[") - 2 == 3  # the headings' two; the speedups', and the gain of the one that is no baseline


def test_simulate_for_programs(trace):
    done = run("simulate", trace, "-p", "constant:tokens=2", "-p", "none", "--json", "--draft-cost", "0")
    rows = json.loads(done.stdout)
    assert [list(row) for row in rows] == [KEYS, KEYS]
    assert rows[0]["tokens"] == 25 and rows[0]["wasted"] == rows[0]["drafted"] - rows[0]["accepted"]
    assert rows[1]["speedup"]["value"] == 1 and rows[1]["drafted"] == 0


def test_several_traces_each_with_its_name_and_prices(trace, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(trace, other)
    words = ["-p", "constant:tokens=2", "--draft-cost", "0.25", "--json"]
    rows = json.loads(run("simulate", trace, other, *words).stdout)
    (alone,) = json.loads(run("simulate", other, *words).stdout)
    assert [row["trace"] for row in rows] == [str(trace), str(other)] and alone["trace"] == "by-hand"
    assert rows[1] | {"trace": "by-hand"} == alone and alone["prices"]["draft"] == 0.25
    one, two = (run("iterations", *each).stdout.splitlines() for each in ([trace], [trace, other]))
    assert two[0] == f"trace,{one[0]}"
    assert two[1:] == [f"{folder},{row}" for folder in (trace, other) for row in one[1:]]


def test_every_policy_stands_beside_the_best_constant(trace):
    """Or beside the one that is named; the ratio is of the seconds of the same prompts."""
    words = ["simulate", trace, "-p", "constant:tokens=1", "-p", "oracle:detect", "--draft-cost", "0.2", "--json"]
    rows = json.loads(run(*words).stdout)
    every = [word for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20) for word in ("-p", f"constant:tokens={n}")]
    constants = json.loads(run("simulate", trace, *every, "--draft-cost", "0.2", "--json").stdout)
    best = max(constants, key=lambda row: row["speedup"]["value"])
    assert {row["baseline"] for row in [*rows, *constants]} == {best["policy"]}
    for row in rows:
        assert row["baseline_ratio"]["value"] == pytest.approx(row["speedup"]["value"] / best["speedup"]["value"])
    (named,) = json.loads(run(*words[:4], "--baseline", "none", *words[6:]).stdout)
    assert named["baseline"] == "none" and named["baseline_ratio"]["value"] == pytest.approx(named["speedup"]["value"])
    assert run(*words, "--baseline", "constnat").exit_code == 2


def test_simulate_ends_with_the_baseline_and_how_many_prompts_are_enough():
    words = ["simulate", "-p", "dynamic", "-p", "oracle:optimal", "-p", "constant:tokens=6"]
    done = run(*words, "--baseline", "constant:tokens=6", env={"COLUMNS": "80"})
    assert max(len(line.rstrip()) for line in done.stdout.partition("Baseline: ")[0].splitlines()) <= 80
    baseline, needed = done.stdout.splitlines()[-2:]
    assert baseline.startswith("Baseline: constant:tokens=6, speedup ") and "best" not in baseline
    assert needed.startswith("dynamic is known to within ±") and "Against constant:tokens=6, paired" in needed
    assert re.search(r"^constant:tokens=6 .* baseline$", done.stdout, re.MULTILINE)
    said = run(*words).stdout
    assert re.search(r"the best of 12 constant lengths on these prompts; judged on .* the best has 2\.\d+ \[2", said)


def test_of_too_few_prompts_none_can_be_held_out(trace):
    assert "cannot be told from fewer than 5 of them" in run("simulate", trace, "-p", "none").stdout


def test_of_the_usual_policies_those_are_left_out_that_read_more_than_the_trace_holds(tmp_path):
    (trace := tmp_path / "short").mkdir()
    write_meta(trace, {"eos_token_ids": [EOS], "max_overrun": 1, "prompts": {"dataset": "by-hand"}})
    write_part(trace, 0, [pattern("+-++++", overruns={1: [(1, 0.9)]})])
    done = run("simulate", trace, "--json")
    assert done.exit_code == 0 and "Note: dynamic is left out: " in done.stderr
    assert [row["policy"] for row in json.loads(done.stdout)][-2:] == ["oracle:clairvoyant", "oracle:optimal"]
    assert '"dynamic"' not in done.stdout
    named = run("simulate", trace, "-p", "dynamic")
    assert named.exit_code == 2 and "--max-overrun" in named.stderr


def test_simulate_calls_a_loss_a_loss(trace):
    words = ["simulate", trace, "-p", "constant:tokens=4", "-p", "oracle:detect"]
    assert "a loss. `oracle stats`" in " ".join(run(*words, "--draft-cost", "2").stdout.split())
    assert "a loss" not in run(*words, "--draft-cost", "0.1").stdout


def test_simulate_with_the_shipped_sample():
    done = run("simulate", "--policy", "dynamic", "--json")
    assert done.exit_code == 0, done.output
    assert "shipped sample" in done.stderr
    assert json.loads(done.stdout)[0]["speedup"]["value"] > 0


def test_a_speedup_below_one_is_printed_as_it_is(trace):
    done = run("simulate", trace, "-p", "constant:tokens=4", "--draft-cost", "2", "--json")
    assert json.loads(done.stdout)[0]["speedup"]["value"] < 1


def test_iterations_as_csv(trace, tmp_path):
    rows = list(csv.DictReader(io.StringIO(run("iterations", trace).stdout)))
    assert list(rows[0]) == ["prompt", "iteration", "position", "accepted", "detect", "censored"]
    assert sum(int(row["detect"]) for row in rows) == 25
    file = tmp_path / "rows.csv"
    assert run("iterations", trace, "--csv", file).exit_code == 0
    assert len(file.read_text().splitlines()) == len(rows) + 1


@pytest.mark.parametrize(
    "kind",
    [
        "histogram",
        "variance",
        "position",
        "iterations",
        "hazard",
        "survival",
        "calibration",
        "roc",
        "heatmap",
        "headroom",
        "surface",
        "time",
        "compare",
    ],
)
def test_every_plot_without_a_display(trace, tmp_path, kind, monkeypatch):
    monkeypatch.setenv("DISPLAY", "nowhere:9")
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    file = tmp_path / "plot.svg"
    done = run("plot", trace, kind, "-o", file)
    assert done.exit_code == 0, done.output
    assert "<svg" in file.read_text()


def test_a_picture_looks_as_it_is_asked_to(trace, tmp_path):
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    assert run("plot", trace, "histogram", "-o", png, "--size", "3.4x2.6", "--dpi", 100).exit_code == 0
    assert struct.unpack(">II", png.read_bytes()[16:24]) == (340, 260)
    assert run("plot", trace, "variance", "--log", "-o", svg, "--title", "Mine & <others>").exit_code == 0
    assert "Mine &amp; &lt;others&gt;" in svg.read_text()  # as text, which can be searched


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["roc", "-p", "dynamic"],
            "roc does not hang on --policy; leave it out, or draw iterations or time",
        ),
        (["histogram", "--prompt", "0"], "draw iterations or heatmap"),
        (["iterations", "--log"], "draw histogram or variance"),
        (["variance", "--draft-cost", "0.1"], "draw headroom or surface or time or compare"),
        (["roc", "--size", "3"], "--size is '3'; it must be width x height in inches"),
        (["roc", "--size", "900x2"], "1 to 40 each"),
        (["iterations", "--size", "2x1"], "--size is '2x1', which leaves no room for the picture beside its words"),
        (["roc", "-o", "x.svg", "--dpi", "100"], "--dpi is of a PNG, and x.svg is none"),
        (["iterations", "--prompt", "nobody"], "no prompt of the trace has the id 'nobody'"),
    ],
)
def test_what_a_picture_does_not_hang_on_is_refused(trace, words, said):
    done = run("plot", trace, *words)
    assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def test_fit_and_stats_for_people_and_programs(trace):
    assert "geometric" in run("fit", trace, "--draws", "5").stdout
    fits = json.loads(run("fit", trace, "--draws", "5", "--json").stdout)
    assert fits[0]["family"] == "geometric" and fits[0]["trace"] == "by-hand"
    shown = run("stats", trace).stdout
    assert "lag-1" in shown and " ".join(shown.split()).count("no interval below 10 prompts") == 1
    stats = json.loads(run("stats", trace, "--json").stdout)
    assert stats[0]["verdict"]["sentences"]
    assert stats[0]["enough"]["policy"] == "dynamic" and stats[0]["enough"]["prompts"] == 4
    assert "dynamic is known to within ±" in run("stats", trace).stdout
    found = stats[0]["statistics"]["everything"]
    assert "no interval below 10 prompts" in found["note"] and found["accepted"]["sd"]["low"] is None
    assert found["accepted"]["mean"]["low"] < found["accepted"]["mean"]["value"] < found["accepted"]["mean"]["high"]
    assert stats[0]["signals"][0]["calibration_if_perfect"] >= 0


def test_report_is_one_page(trace, tmp_path):
    page = tmp_path / "r.html"
    done = run("report", trace, "-o", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!") and text.count("no interval below 10 prompts") == 1  # in no cell


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["simulate", "TRACE", "-p", "dynamik"], 2, "did you mean 'dynamic'"),
        (["simulate", "TRACE", "-p", "dynamic:threshold=nan"], 2, "between 0"),
        (["simulate", "nowhere"], 2, "not a trace"),
        (["simulate", "TRACE", "--draft-cost", "-1"], 2, "not negative"),
        (["simulate", "TRACE", "--draft-cost", "0.1", "--cost", "x.json"], 2, "exclude each other"),
        (["simulate", "TRACE", "--cost", "missing.json"], 2, "oracle calibrate"),
        (["plot", "TRACE", "histogrm"], 2, "one of histogram"),
        (["plot", "TRACE", "histogram", "-o", "x.gif"], 2, ".png"),
        (["plot", "TRACE", "heatmap", "--prompt", "9"], 2, "0 to 3"),
        (["collect", "--pair", "demoo"], 2, "demo"),
        (["collect", "--dataset", "mbp"], 2, "mbpp"),
        (["validate", "--runs", "x"], 2, "one trace for each"),
        (["report", "TRACE", "-o", "/proc/nowhere/r.html"], 2, "/proc/nowhere"),
        (["nonsense"], 2, "No such command"),
        (["simulate", "--nonsense"], 2, "No such option"),
    ],
)
def test_errors_are_one_message_and_the_right_status(trace, words, status, message):
    done = run(*[trace if word == "TRACE" else word for word in words])
    assert done.exit_code == status, done.output
    assert message in done.output and "Traceback" not in done.output


def test_debug_shows_the_traceback(trace):
    done = run("simulate", trace, "-p", "dynamik", "--debug")
    assert isinstance(done.exception, ValueError)


def test_names_from_a_trace_are_not_markup(trace):
    meta = json.loads((trace / "meta.json").read_text())
    del meta["schema"]
    write_meta(trace, meta | {"prompts": {"dataset": "[red]x[/red]"}})
    assert "[red]x[/red]" in run("simulate", trace, "-p", "none", "--draft-cost", "0.1").stdout


def test_tables_fit_eighty_columns(trace):
    words = [
        "simulate",
        trace,
        "-p",
        "dynamic:threshold=0.4,tokens=9",
        "-p",
        "oracle:clairvoyant",
        "--draft-cost",
        "0.1",
    ]
    table = run(*words, env={"COLUMNS": "80"}).stdout.partition("Baseline: ")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert sum(line.rstrip().endswith("]") for line in table.splitlines()) == 3  # no interval is cut


HOSTILE = "evil\x1b]52;c;aGk=\x07\u202e name\nFake: line"


def test_nothing_in_a_trace_acts_on_the_terminal(trace, tmp_path):
    meta = json.loads((trace / "meta.json").read_text())
    del meta["schema"]
    models = {role: {"model": HOSTILE} for role in ("target", "draft")}
    write_meta(trace, meta | models | {"prompts": {"dataset": HOSTILE}})
    for words in (
        ["simulate", trace, "-p", "dynamic"],
        ["simulate", trace, "-p", "constant:tokens=2", "--json"],
        ["stats", trace, "--json"],
        ["fit", trace, "--draws", "1"],
        ["fit", trace, "--draws", "1", "--json"],
        ["plot", trace, "heatmap", "-o", tmp_path / "x.svg"],
        ["simulate", trace, "-p", "dynamic\x1b[2J"],
    ):
        done = run(*words)
        assert done.exit_code == 0 or "2J" in str(words), done.output
        assert not {"\x1b", "\x07", "\u202e"} & set(done.output), words
        if "--json" in words:
            found = json.loads(done.stdout)  # and nothing else on stdout
            assert found[0].get("trace") in (None, HOSTILE)


def test_a_file_is_written_whole_or_not_at_all(trace, tmp_path, monkeypatch):
    import pandas

    file = tmp_path / "rows.csv"
    before = "prompt,iteration,position,accepted,detect,censored\n"
    file.write_text(before)

    def full(frame, place, **options):
        with open(place, "w") as handle:
            handle.write("half")
        raise OSError(28, "No space left on device", str(place))

    monkeypatch.setattr(pandas.DataFrame, "to_csv", full)
    assert run("iterations", trace, "--csv", file).exit_code == 1
    assert [(path.name, path.read_text()) for path in tmp_path.glob("*.*")] == [("rows.csv", before)]


def test_a_text_that_holds_no_iteration_is_said(tmp_path):
    folder = tmp_path / "short"
    folder.mkdir()
    write_meta(folder, {"eos_token_ids": [EOS], "max_overrun": 9, "prompts": {"dataset": "short"}})
    write_part(folder, 0, [pattern(text, index=n, overruns={0: [(1, 0.9)]}) for n, text in enumerate("+-")])
    for words in (["simulate", folder], ["stats", folder], ["iterations", folder], ["fit", folder]):
        done = run(*words)
        assert done.exit_code == 0 and "cuts every oracle iteration short" in done.stderr, done.output
    assert "nothing was drafted" in run("simulate", folder).stderr
    assert "short: nothing to fit" in run("fit", folder).stdout
    done = run("fit", folder, "--json")
    assert json.loads(done.stdout) == [] and "nothing to fit" in done.stderr


def test_prompts_that_are_left_out_are_named(tmp_path):
    rows = [
        {"task_id": 1, "text": "Add two numbers.", "test_list": []},
        *({"task_id": n, "text": None} for n in range(2, 9)),
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    small = ["--dataset", tmp_path / "tasks.jsonl", "--max-new-tokens", "4"]
    note = "Note: 7 prompts left out: 2 (empty prompt); 3 (empty prompt);"
    more = "6 (empty prompt); and 2 more, listed in meta.json."
    for words in (
        ["collect", tmp_path / "t"],
        ["measure", tmp_path / "r", "--repeats", "1", "-p", "constant:tokens=2"],
    ):
        done = run(*words, *small)
        assert done.exit_code == 0 and note in done.stderr and more in done.stderr, done.output
