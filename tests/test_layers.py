"""What may import what: analysis never reaches torch, and no command loads more than it needs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "datasets")


def imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("file", sorted((ROOT / "analysis").rglob("*.py")), ids=lambda file: file.name)
def test_analysis_reads_traces_and_never_runs_models(file):
    for name in imports(file):
        package = name.split(".")[0]
        assert package not in HEAVY, name
        assert package != "oracle" or name.startswith(("oracle.records", "oracle.policies")), name


@pytest.mark.parametrize(
    "statement",
    [
        "import oracle, analysis",
        "from oracle.cli import app; app(['--help'])",
        "from oracle.cli import app; app(['simulate', '--help'])",
        "from oracle.cli import app; app(['simulate', 'no-such-trace'])",
        "from oracle.cli import app; app(['simulate', '--policy', 'dynamic', '--json'])",
    ],
)
def test_nothing_heavy_is_loaded(statement):
    code = f"""
import sys
try:
    {statement}
except SystemExit:
    pass
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip().endswith("loaded: []"), done.stdout + done.stderr


def test_no_file_of_ours_unpickles_or_trusts_remote_code():
    for file in [*(ROOT / "oracle").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert not imports(file) & {"pickle", "dill", "joblib", "cloudpickle"}, file
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword):
                assert node.arg != "trust_remote_code" or getattr(node.value, "value", None) is False, file
                assert node.arg != "allow_pickle" or getattr(node.value, "value", None) is False, file


def test_every_module_of_analysis_can_be_the_first_to_be_imported():
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in (ROOT / "analysis").rglob("*.py")]
    code = f"""
import importlib, sys
for name in {sorted(name.removesuffix(".__init__") for name in names)!r}:
    for loaded in [each for each in sys.modules if each.split(".")[0] in ("analysis", "oracle")]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ImportError as error:
        sys.exit(f"{{name}}: {{error}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
