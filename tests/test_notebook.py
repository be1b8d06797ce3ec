"""The example notebook runs, shows pictures and tables, and nothing in it belongs to one machine."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def executed():
    spec = importlib.util.spec_from_file_location("run_notebook", DATA / "run_notebook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run()


def shown(notebook):
    """Kinds of what each cell of code shows as its last line."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [sorted({kind for output in cell.outputs for kind in output.get("data", {})}) for cell in cells]


def test_every_cell_runs_and_shows_what_it_ends_with(executed):
    kinds = shown(executed)
    assert all("text/plain" in each for each in kinds)
    assert sum("image/png" in each for each in kinds) == 5 and sum("text/html" in each for each in kinds) == 4
    assert not [
        output for cell in executed.cells for output in cell.get("outputs", []) if output.output_type == "error"
    ]


def test_the_notebook_that_is_kept_shows_the_same_and_no_machine(executed):
    kept = json.loads((DATA / "notebook.ipynb").read_text(encoding="utf-8"))
    as_kept = [sorted({kind for output in cell["outputs"] for kind in output.get("data", {})})
               for cell in kept["cells"] if cell["cell_type"] == "code"]  # fmt: skip
    assert as_kept == shown(executed)
    pictures = re.compile(r'"image/png": "[^"]*"')
    assert not re.search(r"/(home|work|tmp|root|Users)/", pictures.sub("", json.dumps(kept)))
