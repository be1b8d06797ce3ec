"""Names from data sets and files are text: nothing in them is a formula, a tag or an order to the terminal."""

import re
import warnings
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import matplotlib.text
import pytest
from builders.traces import pattern, trace

from analysis import plots
from analysis.intervals import Estimate
from analysis.plots.canvas import save
from analysis.plots.letters import LONGEST_NAME, printable, short_name
from analysis.plots.validation import Comparison
from analysis.replay.simulate import simulate
from analysis.report.page import Source, report
from oracle.records.trace import Trace

NAMES = {
    "signs": "$x_{$ c $\\frac$ ^ \\n <b>&amp;\"']]>--><!--",
    "control": "one\ntwo\r\n\t\x1b]52;c;aGk=\x07 \x00 \u202eשלום عالم 😀 漢字 \ud800",
    "long": "$" + "long " * 60,
}


def named(name):
    rows = []
    for index, flags in enumerate(("++-+++-+", "+-+-+++-", "++++-+++")):
        row = pattern(flags, index=index, overruns={at: [(3, 0.7)] * 4 for at, flag in enumerate(flags) if flag == "-"})
        rows.append(row)
    made = trace(*rows, prompts={"dataset": name}, max_overrun=8)
    return Trace(**{**{field: getattr(made, field) for field in made.__dataclass_fields__}, "ids": (name,) * 3})


def drawings(name):
    data = named(name)
    for kind in [*plots.PANELS, "variance"]:
        yield kind, plots.panel({name: data}, kind)
    yield "heatmap", plots.plot_heatmap(data, [name[:9]] * 8).figure
    result = simulate(data, "constant:tokens=2")
    yield "results", plots.plot_iterations(data, results=[result]).figure
    points = [Comparison(name, Estimate(1.5, 1.4, 1.6), Estimate(1.2, 1.1, 1.3), name)]
    yield "comparison", plots.simulated_vs_measured_panels(points)
    yield "positions", plots.plot_roc(data, positions=name).figure


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_every_figure_is_written_without_a_word(tmp_path, monkeypatch, name):
    monkeypatch.setattr("analysis.plots.panels.closest_fits", lambda *args, **options: [])  # slow, and not of names
    monkeypatch.setattr("analysis.plots.canvas.PNG_DPI", 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind, figure in drawings(name):
            assert save(figure, tmp_path / f"{kind}.png").stat().st_size > 500
            ElementTree.parse(save(figure, tmp_path / f"{kind}.svg"))
            for text in figure.findobj(matplotlib.text.Text):
                assert not (text.get_parse_math() and "$" in text.get_text()), (kind, text.get_text())
                assert all(len(line) < 4 * LONGEST_NAME for line in text.get_text().split("\n")), kind


class Balanced(HTMLParser):
    """Raises where an element is closed that is not the one open."""

    VOID = {"meta", "img", "input", "br", "link", "hr"}

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def test_the_report_is_written(tmp_path):
    name = "".join(NAMES.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = report([Source(named(name))], tmp_path / "a.html", policies=["constant:tokens=2"])
    text = out.read_text(encoding="utf-8")
    Balanced(text)
    assert "<b>&amp;" not in text and not re.search("[\x00\x07\x1b\u202e]", text)


def test_names_are_short_and_printable():
    assert short_name("a\nb\r\tc") == "a↵b←→c"
    assert short_name("x" * 30 + "y" * 30) == "x" * 24 + "…" + "y" * 23
    assert printable("a\x1b\n漢é$") == "a□\n□é$"


def test_survival_has_numbers_on_its_axis():
    ax = plots.plot_survival(named("a"))
    ax.figure.draw_without_rendering()
    assert {"0.1", "1"} <= {label.get_text() for label in ax.get_yticklabels()}


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_figure_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, kind):
    file = tmp_path / f"a.{kind}"
    figure = plots.plot_position(named("a")).figure
    file.write_bytes(b"old")

    def full(*args, **options):
        args[0].write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(OSError, match="No space left"):
        save(figure, file)
    assert file.read_bytes() == b"old" and list(tmp_path.iterdir()) == [file]
