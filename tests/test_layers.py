"""What may import what: the direction between the rooms, no circle, no private name, and nothing heavy too early."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "transformers", "datasets")


PLOTTING = ("matplotlib", "seaborn", "pandas")
ROOF = ("oracle", "oracle.__main__", "oracle.cli", "oracle.commands", "oracle.workflows")
READ_BY_ANALYSIS = ("oracle.records", "oracle.policies", "oracle.settings")
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for folder in ("oracle", "analysis")
    for file in sorted((ROOT / folder).rglob("*.py"))
}


@dataclass(frozen=True)
class Import:
    """One name that a file imports: ``name`` of ``module`` (None: the module itself)."""

    module: str
    name: str | None
    local: str  # what it is called in the file
    at_start: bool  # executed when the file is loaded, not within a function or for type checkers only
    typing: bool  # for type checkers only


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def found_in(node: ast.AST, at_start: bool = True, typing: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, None, alias.asname or alias.name, at_start, typing) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, "imports are written in full"
            yield from (
                Import(child.module, alias.name, alias.asname or alias.name, at_start, typing) for alias in child.names
            )
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from found_in(child, at_start=False, typing=True)
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from found_in(child, at_start and not inside, typing)


def target(each: Import) -> str:
    """The module that is meant: in ``from oracle import record`` that is ``oracle.record``."""
    whole = f"{each.module}.{each.name}"
    return whole if whole in FILES else each.module


IMPORTS = {module: tuple(found_in(parse(file))) for module, file in FILES.items()}


def within(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or (room != "oracle" and module.startswith(f"{room}.")) for room in rooms)


@pytest.mark.parametrize("module", [module for module in FILES if module.split(".")[0] == "analysis"])
def test_analysis_reads_records_policies_and_their_settings_and_never_runs_models(module):
    for each in IMPORTS[module]:
        package = each.module.split(".")[0]
        assert package not in HEAVY, each
        assert package != "oracle" or within(target(each), ("oracle.records", "oracle.policies", "oracle.settings")), (
            each
        )


@pytest.mark.parametrize("module", [m for m in FILES if within(m, ("oracle.settings",))])
def test_settings_read_policies_alone(module):
    for each in IMPORTS[module]:
        assert each.module.split(".")[0] not in (*HEAVY, *PLOTTING, "analysis"), each
        assert each.module.split(".")[0] != "oracle" or within(target(each), ("oracle.policies", "oracle.settings")), (
            each
        )


@pytest.mark.parametrize("module", [module for module in FILES if module.split(".")[0] == "oracle"])
def test_oracle_never_reads_analysis_below_the_roof(module):
    if not within(module, ROOF):
        for each in IMPORTS[module]:
            assert each.module.split(".")[0] != "analysis", each
            assert not within(target(each), ("oracle.cli", "oracle.commands", "oracle.workflows")), each


def test_commands_are_not_read_by_workflows():
    for module in FILES:
        if within(module, ("oracle.workflows",)):
            assert not [each for each in IMPORTS[module] if within(target(each), ("oracle.commands", "oracle.cli"))]


# The schedules of the library are named beside the policies, and its settings are a type of the generator's.
BELOW = {("oracle.policies.library", "oracle.generate")}


@pytest.mark.parametrize("module", [m for m in FILES if within(m, ("oracle.records", "oracle.policies"))])
def test_records_and_policies_lie_below_everything_and_never_load_a_model(module):
    for each in IMPORTS[module]:
        assert each.module.split(".")[0] not in HEAVY, each
        assert not (each.at_start and each.module.split(".")[0] in PLOTTING), each
        ours = each.module.split(".")[0] == "oracle" and (module, each.module) not in BELOW
        assert not ours or within(target(each), ("oracle.records", "oracle.policies")), each


def test_no_circle_of_imports():
    """Strongly connected modules, imports within functions counted too; those for type checkers cost nothing."""
    graph = {
        module: {target(each) for each in found if not each.typing and target(each) in FILES} - {module}
        for module, found in IMPORTS.items()
    }
    assert [sorted(group) for group in components(graph) if len(group) > 1] == []


def components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components: modules that reach each other."""
    reached = {module: reach(graph, module) for module in graph}
    groups: list[set[str]] = []
    for module in graph:
        if not any(module in group for group in groups):
            groups.append({module} | {other for other in reached[module] if module in reached[other]})
    return groups


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}
    assert sorted(map(sorted, components(graph))) == [["a", "b", "c"], ["d"]]


@pytest.mark.parametrize("module", FILES)
def test_no_private_name_crosses_a_module(module):
    imported = set()
    for each in IMPORTS[module]:
        if target(each) in FILES or each.module in FILES:
            assert not (each.name or "").startswith("_"), each
            assert not any(part.startswith("_") for part in target(each).split(".") if not part.endswith("__")), each
            if target(each) != each.module or each.name is None:
                imported.add(each.local)
    for node in ast.walk(parse(FILES[module])):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in imported:
            assert not node.attr.startswith("_"), ast.unparse(node)


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


def test_the_package_alone_loads_neither_models_nor_plotting():
    code = f"""
import sys
import oracle
dir(oracle), oracle.list_policies, oracle.parse
print([name for name in {(*HEAVY, *PLOTTING, "scipy", "pyarrow", "analysis")!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_no_file_of_ours_unpickles_or_trusts_remote_code():
    for file in [*(ROOT / "oracle").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")]:
        tree = parse(file)
        assert not {each.module for each in found_in(tree)} & {"pickle", "dill", "joblib", "cloudpickle"}, file
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword):
                assert node.arg != "trust_remote_code" or getattr(node.value, "value", None) is False, file
                assert node.arg != "allow_pickle" or getattr(node.value, "value", None) is False, file
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                given = {each.arg: getattr(each.value, "value", None) for each in node.keywords}
                assert given.get("weights_only") is True and file.name == "weights.py", file


@pytest.mark.parametrize("folder", ["oracle", "analysis"])
def test_every_call_that_loads_says_that_no_code_is_trusted(folder):
    """Left out, the argument means that the library asks on the terminal; `load_dataset` has it no more."""
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            said = [ast.literal_eval(given.value) for given in node.keywords if given.arg == "trust_remote_code"]
            if name in ("from_pretrained", "from_config"):
                assert said == [False], f"{file}:{node.lineno}"
            elif name == "load_dataset":
                assert said == [], f"{file}:{node.lineno}"


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
