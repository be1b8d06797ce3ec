"""The contact sheet: every picture with its name, small enough for a repository, and nothing in it but pictures."""

import base64
import importlib.util
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from analysis.report.markup import escape

FILE = Path(__file__).parents[2] / "data" / "make_gallery.py"


@pytest.fixture(scope="module")
def gallery():
    found = importlib.util.spec_from_file_location("make_gallery", FILE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def noise(size, seed=0):
    return Image.fromarray(np.random.default_rng(seed).integers(256, size=(size, size, 3), dtype=np.uint8))


def test_a_sheet_holds_every_picture_under_its_name(gallery):
    name = '"><script>alert(1)</script>'
    html = gallery.sheet([(name, noise(8)), ("oracle plot roc", noise(9, 1))])
    found = re.findall(r'src="data:image/webp;base64,([^"]+)"', html)
    assert [Image.open(io.BytesIO(base64.b64decode(each))).size for each in found] == [(8, 8), (9, 9)]
    assert "<script" not in html and escape(name) in html and "oracle plot roc" in html


def test_a_sheet_is_made_to_fit_or_refused(gallery):
    pictures = [("noise", noise(120))]
    best, least = len(gallery.sheet(pictures)), len(gallery._webp(pictures[0][1], gallery.QUALITIES[-1]))
    assert len(gallery.sheet(pictures, best - 1)) < best
    with pytest.raises(RuntimeError, match="1 pictures do not fit into"):
        gallery.sheet(pictures, least)


def test_each_kind_of_plot_is_drawn(gallery, tmp_path, monkeypatch):
    def draw(command, sample, kind, option, file, *rest):
        assert (command, option) == ("plot", "-o") and Path(sample).is_dir()
        noise(4).save(file)

    monkeypatch.setattr(gallery, "run", draw)
    assert [name for name, _ in gallery.plots(tmp_path)] == [f"oracle plot {kind}" for kind in gallery.KINDS]


def test_a_command_that_fails_is_named(gallery):
    with pytest.raises(RuntimeError, match="oracle plot nothing: .*no kind of plot"):
        gallery.run("plot", "nothing")
