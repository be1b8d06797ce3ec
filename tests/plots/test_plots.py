import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import plots
from analysis.cost import CostModel
from analysis.fit.distributions import FAMILIES, Counts, fit_all
from analysis.intervals import Estimate
from analysis.plots import palette
from analysis.plots.canvas import new_axes
from analysis.plots.heatmap import COLUMNS, MOST_LINES, _flow
from analysis.plots.validation import Comparison
from analysis.replay.paired import paired
from analysis.replay.simulate import simulate
from oracle.policies import POLICIES
from oracle.records.trace import Record, Trace


def record(agrees, name="a", sure=None):
    agrees = np.array(agrees, dtype=bool)
    size = len(agrees)
    target = np.arange(1, size + 1, dtype=np.int32)
    misses = np.flatnonzero(~agrees).astype(np.int32)
    signal = (np.linspace(0.05, 0.95, size) if sure is None else np.array(sure)).astype(np.float32)
    over = [np.arange(4, dtype=np.float32) / 8] * len(misses)
    return Record(
        id=name, index=0, finish="length", max_new_tokens=size, prompt_tokens=np.array([7], np.int32),
        target_tokens=target, draft_tokens=np.where(agrees, target, 99_999).astype(np.int32),
        confidence=signal, entropy=-np.log(signal), margin=signal, target_margin=signal,
        overrun_position=misses, overrun_tokens=[np.arange(5, 9, dtype=np.int32)] * len(misses),
        overrun_confidence=over, overrun_entropy=over, overrun_margin=over,
    )  # fmt: skip


def make_trace(prompts=5, size=40, seed=0):
    rng = np.random.default_rng(seed)
    rows = [record(rng.random(size) < 0.7, f"p{number}", rng.uniform(0.01, 1, size)) for number in range(prompts)]
    return Trace.from_records(rows, {"eos_token_ids": [0], "max_overrun": 4})


def one(agrees):
    return Trace.from_records([record(agrees)], {"eos_token_ids": [0], "max_overrun": 4})


def legend_text(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def bars(ax):
    return [bar for container in ax.containers for bar in container]


DRAW = {
    **plots.PANELS,
    "variance": lambda trace: plots.plot_variance({"mbpp": trace}),
    "heatmap": lambda trace: plots.plot_heatmap(trace, ["x"] * int(trace.offsets[1])),
}
EXTREMES = {
    "one token": [True],
    "one miss": [False],
    "always right": [True] * 30,
    "always wrong": [False] * 30,
    "ordinary": [True, True, False, True, False, False, True, True],
}


@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize("texts", EXTREMES)
def test_every_plot_takes_one_prompt_of_any_kind(kind, texts, recwarn):
    ax = DRAW[kind](one(EXTREMES[texts]))
    ax.figure.draw_without_rendering()
    assert isinstance(ax, Axes) and ax.get_title(loc="left")
    assert not [str(warning.message) for warning in recwarn]


@pytest.mark.parametrize("kind", [kind for kind in DRAW if kind not in ("heatmap", "variance")])
def test_every_plot_draws_into_given_axes(kind):
    ax = Figure().subplots()
    assert plots.PANELS[kind](make_trace(), ax) is ax


def test_histogram_bars_are_the_shares_by_hand():
    ax = plots.plot_histogram(one([True, True, False, False, True, False, True]))  # accepted 2 0 1 0
    assert [bar.get_height() for bar in bars(ax)] == [0.5, 0.25, 0.25]
    assert ax.get_title(loc="left") == "Oracle SL (accepted): mean 0.75, SD 0.957"
    assert "observed (n = 4 iterations, 1 prompt)" in legend_text(ax)
    (line,) = (line for line in ax.lines if line.get_label() == "geometric, same mean")
    acceptance = 0.75 / 1.75
    assert line.get_ydata() == pytest.approx([(1 - acceptance) * acceptance**k for k in range(3)])
    detect = plots.plot_histogram(one([True, True, False, False, True, False, True]), convention="detect")
    assert detect.get_title(loc="left") == "Oracle SL (detect): mean 1.75, SD 0.957"
    assert bars(detect)[0].get_x() == pytest.approx(0.59)


def test_histogram_puts_far_values_in_one_bar(tmp_path):
    ax = plots.plot_histogram([0, 1, 2, 200_000])
    drawn = bars(ax)
    assert len(drawn) < 50 and drawn[-1].get_height() == 0.25 and sum(bar.get_height() for bar in drawn) == 1
    assert ax.get_xticklabels()[-1].get_text() == "≥41"
    assert plots.save(ax.figure, tmp_path / "far.png").stat().st_size > 1000


@pytest.mark.parametrize("values", [[], [-1], [0.5], [[1]], ["a"]])
def test_histogram_refuses_what_is_not_a_length(values):
    with pytest.raises(ValueError, match="whole numbers from 0"):
        plots.plot_histogram(values)


def test_families_are_drawn_where_they_say():
    trace = make_trace()
    runs = trace.iterations()
    fits = fit_all(Counts.from_samples(runs.accepted.to_numpy(), runs.censored.to_numpy()))
    ax = plots.plot_histogram(trace, fits=fits)
    by_label = {line.get_label(): line for line in ax.lines}
    line = by_label["beta-geometric, fitted"]
    fit = next(fit for fit in fits if fit.family == "beta-geometric")
    assert line.get_ydata() == pytest.approx(fit.pmf(line.get_xdata()))
    assert line.get_color() == palette.style("beta-geometric").color
    survival = plots.plot_survival(trace, fits=fits)
    assert len(survival.lines) == 1 + len(fits) and survival.get_yscale() == "log"
    geometric = next(line for line in survival.lines if line.get_label() == "geometric")
    assert geometric.get_ydata()[1] == pytest.approx(fits[0].parameters["acceptance"].value)
    assert "beta-geometric" in legend_text(plots.plot_hazard(trace, fits=fits))
    shown = plots.closest_fits(trace)
    assert shown[0].family == "geometric" and len(shown) <= 3 and all(fit.status == "ok" for fit in shown[1:])


def test_iterations_count_the_passes():
    trace = one([True, True, False, True, True, False, True])  # 7 tokens: 2 accepted, 2 accepted, last
    results = [simulate(trace, policy, CostModel(draft=0.1)) for policy in ("constant:tokens=2", "none")]
    ax = plots.plot_iterations(trace, results=results, prompt="a")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["oracle:detect", "constant:tokens=2", "none"]
    said = [text.get_text() for text in ax.texts]
    assert said[:3] == ["3 target,\n6 draft", "3 target,\n4 draft", "7 target,\n0 draft"]  # of the last token none
    # The first bar of each row but the last, which drafts nothing: two accepted tokens from the text's begin on.
    first = ax.collections[0].get_paths()[0].get_extents()
    assert (first.x0, first.x1) == (-0.5, 1.5)
    begun = [line.get_xdata() for line in ax.lines if line.get_marker() == "|"]
    assert [list(at) for at in begun] == [[-0.5, 2.5, 5.5], [-0.5, 2.5, 5.5], [x - 0.5 for x in range(7)]]
    with pytest.raises(ValueError, match="from 0 to 0, not 1"):
        plots.plot_iterations(trace, prompt=1)
    with pytest.raises(ValueError, match="no prompt of the trace has the id 'b'; give one of its ids, such as 'a'"):
        plots.plot_iterations(trace, prompt="b")


def test_time_is_split_to_the_whole():
    trace = one([True, True, False, True, True, False, True])
    cost = CostModel(draft=0.25, iteration=0.5)
    result = simulate(trace, "constant:tokens=2", cost)  # 3 iterations, 7 tokens, 4 drafted and kept
    ax = plots.plot_time(trace, results=[result])
    widths = {bar.get_label(): bar.patches[0].get_width() for bar in ax.containers}
    wanted = {"draft tokens kept": 1 / 7, "draft tokens refused": 0, "checking": 3 / 7, "overhead": 1.5 / 7}
    assert widths == pytest.approx(wanted)
    assert [text.get_text().strip() for text in ax.texts] == [f"{1 / result.speedup:.2f}"]
    with pytest.raises(ValueError, match="no policy to take apart"):
        plots.plot_time(trace)


def test_policies_are_compared_by_prompt():
    trace = make_trace()
    base, other = (simulate(trace, text, CostModel(draft=0.1)) for text in ("constant:tokens=3", "oracle:optimal"))
    ax = plots.plot_compare(base, results=[base, other])
    gain = paired(base, other)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["oracle:optimal"]
    assert ax.texts[0].get_text().startswith(f"{100 * (gain.value - 1):+.1f} [{100 * (gain.low - 1):+.1f}, ")
    with pytest.raises(ValueError, match="nothing to compare with constant:tokens=3"):
        plots.plot_compare(base, results=[base])


def test_errors_are_shown_with_the_budget():
    even = Estimate(1.0, 0.9, 1.1)
    points = [Comparison("dynamic", even, even, "", Estimate(0.02, -0.01, 0.05)), Comparison("none", even, even)]
    ax = plots.plot_errors(points, margin=0.08)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["dynamic"]
    assert "within the budget, ±8 %" in legend_text(ax)
    figure = plots.simulated_vs_measured_panels(points, 0.08)
    assert len(figure.axes) == 2 and len(plots.simulated_vs_measured_panels(points[1:]).axes) == 1
    with pytest.raises(ValueError, match="paired error"):
        plots.plot_errors(points[1:])


@pytest.mark.parametrize("width", [3.4, 6.0])
def test_no_title_leaves_its_panel(width):
    axes = new_axes(2, 2, (width, 3))
    for ax in axes:
        plots.plot_survival(make_trace(), ax)
    figure = axes[0].figure
    figure.draw_without_rendering()
    ends = [ax.get_window_extent().x0 for ax in axes[1:]] + [figure.bbox.width]
    for ax, end in zip(axes, ends, strict=True):
        assert ax._left_title.get_window_extent().x1 <= end
        assert " ".join(ax.get_title(loc="left").split()) == "Share of oracle iterations at least k long (accepted)"


@pytest.mark.parametrize("kind", ["histogram", "survival", "hazard", "position"])
def test_panels_share_axes(kind):
    figure = plots.panel({"a": make_trace(seed=1, prompts=3), "b": make_trace(seed=2, prompts=9)}, kind)
    assert len({ax.get_xlim() for ax in figure.axes}) == len({ax.get_ylim() for ax in figure.axes}) == 1


def test_the_histogram_s_tail_shows_on_a_logarithmic_axis():
    figure = plots.panel({"a": make_trace()}, "histogram", log=True, size=(3.4, 2.6))
    assert figure.axes[0].get_yscale() == "log" and tuple(figure.get_size_inches()) == (3.4, 2.6)


def test_hazard_says_what_each_point_rests_on():
    ax = plots.plot_hazard(one([True, True, False, True, False, False, True]))  # runs of 2, 1 and 0
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks[:3] == ["0\n3", "1\n2", "2\n1"]


def test_survival_falls_in_steps():
    trace = one([True, True, False, True, False, False, True])
    line = next(line for line in plots.plot_survival(trace).lines if line.get_label().startswith("Kaplan"))
    assert line.get_drawstyle() == "steps-pre" and line.get_ydata()[1] == pytest.approx(2 / 3)


def test_variance_shows_published_beside_measured():
    ax = plots.plot_variance({"google/mbpp": make_trace()})
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0].startswith("google/mbpp, measured") and names[1:] == [
        "MBPP, published", "HumanEval, published", "CNN-DM, published", "Alpaca, published",
    ]  # fmt: skip
    medians = [line.get_xdata()[0] for line in ax.lines if line.get_linewidth() == 2 and len(line.get_xdata())]
    assert medians == [np.median(make_trace().iterations().detect)] and ax.get_xscale() == "log"
    assert "18.0 ± 46.2" in [text.get_text() for text in ax.texts] and "(detect)" in ax.get_title(loc="left")
    assert "(accepted)" in plots.plot_position(make_trace()).get_title(loc="left")


def test_a_band_of_few_prompts_leaves_the_axes_of_the_curve_along_the_text():
    rows = [record([True] * 9 + [False], "a"), record([False] * 9 + [True], "b")]
    short = Trace.from_records(rows, {"eos_token_ids": [0], "max_overrun": 4})
    ax = plots.plot_position(short, bins=2)
    assert ax.get_ylim()[1] <= 2 * 1.3 * max(np.max(line.get_ydata()) for line in ax.lines)


def test_calibration_and_roc_say_what_they_rest_on():
    trace = make_trace()
    at = np.arange(trace.tokens) < 50
    ax = plots.plot_calibration(trace, at=at, positions="constant:tokens=5")
    assert "50 positions: constant:tokens=5" in ax.get_xlabel()
    assert any("Brier" in text for text in legend_text(ax))
    assert [text.split(":")[0] for text in legend_text(plots.plot_roc(trace))] == [
        "a coin",
        "confidence",
        "entropy",
        "margin",
    ]


def test_heatmap_marks_misses_and_survives_any_text(tmp_path):
    trace = one([True, False, True, True, False, True])
    tokens = ["$a^2$", "\n", "\x00\u202e", "价", "", "x" * 200]
    ax = plots.plot_heatmap(trace, tokens)
    assert "6 tokens, 2 misses" in ax.get_title(loc="left")
    plots.save(ax.figure, tmp_path / "text.svg")
    with pytest.raises(ValueError, match="has 6 tokens, but 1 strings"):
        plots.plot_heatmap(trace, ["a"])


def test_text_flows_into_lines():
    cells = _flow(["ab", "\n", "c\x07", ""])
    assert [(cell.token, cell.row, cell.column, cell.character) for cell in cells] == [
        (0, 0, 0, "a"), (0, 0, 1, "b"), (1, 0, 2, "↵"), (2, 1, 0, "c"), (2, 1, 1, "□"), (3, 1, 2, "□"),
    ]  # fmt: skip
    assert _flow(["x" * (COLUMNS + 1)])[-1].row == 1
    long = _flow(["12345"] * 2000)
    assert long[-1].row == MOST_LINES - 1 and len(long) % 5 == 0


def test_comparison_says_how_far_off():
    points = [
        Comparison("constant:tokens=5", Estimate(1.5, 1.4, 1.6), Estimate(1.25, 1.2, 1.3)),
        Comparison("none", Estimate(1.0, float("nan"), float("nan")), Estimate(1.0, 0.9, 1.1)),
    ]
    ax = plots.plot_simulated_vs_measured(points)
    assert "constant:tokens=5 (+20.0%)" in legend_text(ax) and ax.get_xlim() == ax.get_ylim()
    with pytest.raises(ValueError, match="at least one"):
        plots.plot_simulated_vs_measured([])


@pytest.mark.parametrize("kind", ["histogram", "calibration", "variance"])
def test_panel_has_one_axes_a_data_set(kind):
    figure = plots.panel({"mbpp": make_trace(seed=1), "alpaca": make_trace(seed=2)}, kind)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert (
        len(titles) == 2 + (kind == "variance") and titles[0].startswith("mbpp: ") and titles[1].startswith("alpaca: ")
    )


def test_panel_refuses_unknown_kinds():
    with pytest.raises(ValueError, match="roc, headroom, variance, not 'pie'"):
        plots.panel({"a": make_trace()}, "pie")
    with pytest.raises(ValueError, match="no trace"):
        plots.panel({}, "roc")


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("b.SVG", b"<?xml"), ("c.pdf", b"%PDF")])
def test_save_chooses_the_format_and_repeats_itself(tmp_path, name, start):
    written = []
    for folder in ("one", "two"):
        path = plots.save(plots.plot_position(make_trace()).figure, tmp_path / folder / name)
        written.append(zlib.crc32(path.read_bytes()))
        assert path.read_bytes().startswith(start)
    assert written[0] == written[1]


@pytest.mark.parametrize("name", ["a.gif", "a"])
def test_save_refuses_other_endings(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf"):
        plots.save(new_axes()[0].figure, tmp_path / name)


def test_a_name_keeps_its_colour():
    assert palette.style("dynamic:threshold=0.4").color == palette.style("dynamic").color
    looks = palette.styles(["constant:tokens=5", "constant:tokens=8", "dynamic", "made-up"])
    assert looks["constant:tokens=5"].color == looks["constant:tokens=8"].color == palette.style("constant").color
    assert looks["constant:tokens=5"].dash != looks["constant:tokens=8"].dash
    assert palette.style("made-up") == palette.style("made-up:x=1")


@pytest.mark.parametrize("names", [list(FAMILIES), list(POLICIES), ["confidence", "entropy", "margin"]])
def test_names_of_one_kind_all_look_different(names):
    looks = palette.styles(names).values()
    assert len({(look.color, look.marker) for look in looks}) == len(names)


def test_plots_need_no_display_and_leave_pyplot_alone(tmp_path):
    code = (
        "from analysis import plots\nimport sys\n"
        f"plots.save(plots.plot_histogram([0, 1, 2, 3]).figure, {str(tmp_path / 'x.png')!r})\n"
        "import matplotlib.pyplot\nassert not matplotlib.pyplot.get_fignums()\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "DISPLAY": "nowhere:9", "MPLBACKEND": "TkAgg", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)
    assert (tmp_path / "x.png").stat().st_size > 1000
