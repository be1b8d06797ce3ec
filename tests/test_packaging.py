"""What an installation holds: every package and every file that is read at run time."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def test_every_package_is_listed():
    found = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for top in ("oracle", "analysis")
        for file in (ROOT / top).rglob("*.py")
    }
    assert found <= set(SETUP["packages"])


def test_every_file_read_at_run_time_is_package_data():
    folders = {"analysis.report": ROOT / "analysis" / "report", "oracle_data": ROOT / "data"}
    for package, folder in folders.items():
        packed = {path for pattern in SETUP["package-data"][package] for path in folder.glob(pattern)}
        for file in folder.rglob("*"):
            figure = "results" in file.parts  # of the README, not read by anything
            if file.is_file() and not figure and file.suffix not in (".py", ".pyc"):
                assert file in packed, file


def test_the_readme_holds_the_command_that_ci_runs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = readme.split("<!-- test command -->\n```bash\n", 1)[1].split("\n```", 1)[0]
    assert "-c constraints.txt" in command and command.endswith("pytest -n 2")


def test_the_type_hints_are_shipped():
    for package in ("oracle", "analysis"):
        assert (ROOT / package / "py.typed").is_file() and "py.typed" in SETUP["package-data"][package]
