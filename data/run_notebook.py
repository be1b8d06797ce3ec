"""Runs data/notebook.ipynb and keeps its outputs in it: python data/run_notebook.py [OUT]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "notebook.ipynb"


def run(source: Path = NOTEBOOK) -> nbformat.NotebookNode:
    """The notebook with what its cells print and draw; it works in a folder that is thrown away."""
    notebook = nbformat.read(source, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran, which changes each time
    return notebook


if __name__ == "__main__":
    nbformat.write(run(), Path(sys.argv[1]) if sys.argv[1:] else NOTEBOOK)
