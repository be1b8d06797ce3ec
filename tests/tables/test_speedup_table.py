"""The published form of speedups: every figure in its place."""

import csv
import io

import pytest
from builders.runs import COST, some_trace

from analysis.intervals import Estimate
from analysis.replay.simulate import simulate
from analysis.tables.oracle_analysis import figures, oracle_csv, oracle_table
from analysis.tables.speedups import CONSTANT, TUNED, Line, Row, simulated, speedup_csv, speedup_table

ROWS = [
    Row(
        "opt/code", "org/big", "org/small", "code", 60, 20,
        (
            Line("heuristic", "", 0.89, Estimate(0.85, 0.8, 0.9), Estimate(0.86, 0.84, 0.88)),
            Line("dynamic", "", 1.09, None, None),
            Line("constant:tokens=3", CONSTANT, simulated=Estimate(1.1, 1.0, 1.2)),
            Line("none", TUNED, simulated=Estimate(1.0, 1.0, 1.0)),
        ),
        "A paper",
    ),
    Row("x/y", "t", "d", "y", lines=(Line("heuristic", ""),), problem="collect failed: no | such model"),
]  # fmt: skip


def test_a_row_is_a_pair_and_task_and_a_group_a_policy():
    table = speedup_table(ROWS, "A title.")
    head = [f"{group} {name}".strip() for group, name in table.columns]
    first = dict(zip(head, table.rows[0], strict=True))
    assert first["heuristic published"] == "0.89" and first["heuristic measured"] == "0.85 [0.80, 0.90]"
    assert first["dynamic published"] == "1.09" and "dynamic measured" not in first  # no row has one
    assert first["prompts"] == "60, 20 of them clocked" and first["tuned constant policy"] == "constant:tokens=3"
    assert first["tuned policy policy"] == "none" and first["tuned policy simulated"] == "1.00 [1.00, 1.00]"
    assert set(table.rows[1][3:]) == {""} and table.notes[-1] == "x/y: collect failed: no | such model"
    assert table.caption.startswith("A title. ") and "Published: A paper." in table.notes


def test_the_rows_for_programs_have_every_number_in_full():
    rows = list(csv.DictReader(io.StringIO(speedup_csv(ROWS))))
    assert [(row["cell"], row["policy"], row["role"]) for row in rows] == [
        ("opt/code", "heuristic", ""), ("opt/code", "dynamic", ""), ("opt/code", "constant:tokens=3", CONSTANT),
        ("opt/code", "none", TUNED), ("x/y", "heuristic", ""),
    ]  # fmt: skip
    assert rows[0]["measured_low"] == "0.8" and rows[0]["measured_prompts"] == "20" and rows[0]["source"] == "A paper"
    assert rows[1]["measured"] == "" and rows[1]["published"] == "1.09" and rows[4]["problem"]


def test_a_simulated_speedup_is_of_whole_calls():
    found = simulate(some_trace(), "constant:tokens=4", COST)
    assert simulated(found).value == pytest.approx(found.total_speedup)
    decoding = found.speedup_estimate()
    assert abs(simulated(found).value - 1) < abs(decoding.value - 1)  # reading the prompt is the same for both, nearly
    assert simulated(found).low < simulated(found).value < simulated(found).high
    assert simulated(simulate(some_trace(), "none", COST)).value == 1


def test_the_oracle_analysis_of_a_trace_stands_over_the_published_one():
    trace = some_trace(prompts=12)
    found = figures(trace, "mbpp", COST, ["dynamic"])
    assert list(found.speedups) == ["heuristic", "static 5", "static tuned", "dynamic", "oracle"]
    five = simulate(trace, "constant:tokens=5", COST)
    assert found.speedups["static 5"].value == pytest.approx(five.speedup)
    assert found.speedups["oracle"].value >= max(each.value for each in found.speedups.values()) * 0.99
    assert found.target_ms == pytest.approx(1000 * five.plain_seconds.sum() / trace.tokens)
    accepted = trace.outcomes.accepted[trace.outcomes.starts]
    assert found.mean.value == pytest.approx(accepted.mean() + 1) and found.tuned.startswith("constant:tokens=")
    table = oracle_table([found])
    assert table.rows[1][0] == "MBPP (published)" and table.rows[1][-1] == "2.28" and table.rows[1][3] == "18.0"
    head = [name for _, name in table.columns]
    assert table.rows[1][head.index("DISCO")] == "1.84" and table.rows[0][head.index("DISCO")] == ""
    rows = {row["figure"]: row for row in csv.DictReader(io.StringIO(oracle_csv([found])))}
    assert rows["sd"]["published"] == "46.2" and rows["DISCO"]["value"] == ""
    assert float(rows["oracle"]["low"]) == found.speedups["oracle"].low


def test_prices_that_are_no_seconds_give_no_milliseconds_and_an_unknown_data_set_no_published_row():
    from analysis.cost import CostModel

    found = figures(some_trace(), "mine", CostModel(draft=0.1))
    assert found.target_ms is None and found.published is None and len(oracle_table([found]).rows) == 1
