"""The documents that the code writes say what the code says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WRITERS = {
    "POLICIES.md": "write_policies.py",
    "RELEASES.md": "write_releases.py",
    "WORDS.md": "write_words.py",
    "results/FINDINGS.md": "write_findings.py",
    "results/VALIDATION.md": "write_validation.py",
}


@pytest.mark.parametrize("document", WRITERS)
def test_a_document_is_what_its_writer_writes(document):
    made = subprocess.run(
        [sys.executable, f"data/{WRITERS[document]}", "--show"], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    assert (ROOT / "data" / document).read_text(encoding="utf-8") == made
