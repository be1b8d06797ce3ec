"""The surface of threshold and cap."""

import math

import numpy as np
import pytest

from analysis.plots import plot_surface, surface_panels
from analysis.tune import Surface


def surface(chosen=(0.4, 20), hole=1.3):
    return Surface(
        family="dynamic",
        thresholds=(0.0, 0.2, 0.4),
        caps=(5, 20),
        speedup=((1.2, 0.8), (1.4, 1.1), (1.5, hole)),
        in_group=((False, False), (True, False), (True, False)),
        best=(0.4, 5),
        chosen=chosen,
        default=(0.4, 20),
    )


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_cells_marks_and_axes_are_those_of_the_surface():
    ax = plot_surface(surface())
    ax.figure.draw_without_rendering()
    mesh = ax.collections[0]
    assert np.asarray(mesh.get_array()).ravel().tolist() == [1.2, 0.8, 1.4, 1.1, 1.5, 1.3]
    assert mesh.norm.vmin == 1 and mesh.norm.vmax == 1.5
    assert [text.get_text() for text in ax.get_yticklabels()] == ["off"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["5", "20"]
    points = {line.get_label(): line.get_xydata().tolist() for line in ax.lines if len(line.get_xydata())}
    assert points == {"the library's default": [[1.5, 2.5]], "the fastest here": [[0.5, 2.5]], "advised": [[1.5, 2.5]]}
    assert labels(ax)[0].startswith("may be the best")


def test_the_line_goes_around_the_group_and_nothing_else():
    ax = plot_surface(surface())
    across, up = (
        {tuple(map(tuple, each.get_segments()[number].tolist())) for number in range(len(each.get_segments()))}
        for each in ax.collections[1:3]
    )
    assert across == {((0, 1), (1, 1)), ((0, 3), (1, 3))}
    assert up == {((0, 1), (0, 2)), ((0, 2), (0, 3)), ((1, 1), (1, 2)), ((1, 2), (1, 3))}


@pytest.mark.parametrize("chosen", [None, (0.3, 7)])
def test_what_is_not_on_the_surface_is_not_marked(chosen):
    ax = plot_surface(surface(chosen, hole=math.nan))
    assert "advised" not in labels(ax) and "the fastest here" in labels(ax)
    ax.figure.draw_without_rendering()


def test_several_data_sets_stand_side_by_side():
    figure = surface_panels({"mbpp": surface(), "alpaca": surface()})
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")]
    assert titles == [f"{name}: dynamic: speedup by threshold and cap" for name in ("mbpp", "alpaca")]
