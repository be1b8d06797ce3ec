"""How objects show themselves: short in a terminal, as a table in a notebook, always as text."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from builders.runs import fake_runs, some_trace
from builders.traces import pattern, trace

import oracle
from analysis.measured.calibrate import FIT
from analysis.validation.validate import validate
from oracle.records.shown import ROWS
from oracle.records.trace import Trace

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def small():
    return trace(*(pattern("++-+--+-" * 6, index=number) for number in range(12)))


@pytest.fixture(scope="module")
def objects(small):
    result = oracle.simulate(small, "constant:tokens=3", 0.1)
    return {
        "trace": small,
        "result": result,
        "totals": result.totals,
        "stats": oracle.stats(small),
        "fit": oracle.fit(small, draws=2),
        "ladder": oracle.ladder(small, 0.1),
        "tune": oracle.tune(small, 0.1, ["constant"]),
        "versus": oracle.compare_traces(small, small, ["constant:tokens=3"]),
    }


@pytest.mark.parametrize("name", ["trace", "result", "totals", "stats", "fit", "ladder", "tune", "versus"])
def test_an_object_is_one_line_and_a_table(objects, name):
    shown = objects[name]
    assert len(repr(shown)) < 200 and "\n" not in repr(shown) and repr(shown).startswith(f"<{type(shown).__name__} ")
    frame = shown.to_frame()
    assert isinstance(frame, pd.DataFrame) and len(frame)
    assert f"{len(frame):,} rows" in shown._repr_html_() or len(frame) <= ROWS


def test_tables_hold_what_the_objects_say(objects, small):
    result = objects["result"]
    rows = result.to_frame()
    assert rows.drafted.sum() == result.draft_tokens and rows.seconds.sum() == pytest.approx(result.seconds.sum())
    tokens = small.to_frame()
    assert len(tokens) == small.tokens and tokens.agrees.tolist() == small.agrees.tolist()
    assert tokens.groupby("prompt").size().tolist() == [48] * 12
    numbers = objects["stats"].to_frame().set_index("number")
    assert numbers.loc["accepted.mean", "value"] == objects["stats"].everything.accepted.mean.value
    assert objects["ladder"].to_frame().set_index("rung").loc["none", "speedup"] == 1


def test_names_from_files_are_text(small):
    hostile = dataclasses.replace(
        small, ids=(HOSTILE, *small.ids[1:]), meta=small.meta | {"target": {"model": HOSTILE}}
    )
    page = hostile._repr_html_()
    assert "<script" not in page and "&lt;script" in page


def test_a_trace_is_a_sequence_of_prompts(small, tmp_path):
    assert len(small) == 12 and small[3].id == small.ids[3] and small[-1].id == small.ids[-1]
    assert small[small.ids[5]].index == 5 and isinstance(small[2:4], Trace) and small[2:4].ids == small.ids[2:4]
    assert [record.id for record in small] == list(small.ids)
    with pytest.raises(IndexError, match="prompt 12 is not there; the trace has 12"):
        small[12]
    with pytest.raises(KeyError, match="no prompt has the id 'nobody'"):
        small["nobody"]
    with pytest.raises(TypeError):
        small[1.5]


def test_a_selection_is_saved_and_read_again(small, tmp_path):
    some = small[3:6]
    again = Trace.load(some.save(tmp_path / "some"))
    assert again.ids == some.ids and again.unfinished is None
    for name, flat in some.columns().items():
        assert np.array_equal(flat.values, again.columns()[name].values), name
    with pytest.raises(ValueError, match="is there already"):
        some.save(tmp_path / "some")


def test_runs_prices_and_validations_are_short_too(small):
    source = some_trace()
    runs = fake_runs(source, [*FIT[:2], "constant:tokens=3"])
    fitted = oracle.calibrate(runs)
    checked = validate(source, runs, fitted.cost)
    for shown in (runs, fitted, checked):
        assert len(repr(shown)) < 300 and len(shown.to_frame()) and "<table" in shown._repr_html_()
    assert len(runs.to_frame()) == len(runs.iterations())
    assert checked.to_frame().identical.tolist() == [row.identical for row in checked.rows]


def test_plots_show_themselves_as_pictures(small):
    for shown in (oracle.plot_histogram(small), oracle.plot_histogram(small).figure):
        assert shown._repr_png_().startswith(b"\x89PNG")
