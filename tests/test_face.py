"""``import oracle``: every name that a user needs, loaded when it is asked for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from builders.traces import EOS, pattern

import analysis
import oracle
from oracle.records.trace import write_meta, write_part

ROOT = Path(__file__).parent.parent


@pytest.fixture
def folder(tmp_path):
    write_meta(tmp_path, {"eos_token_ids": [EOS], "max_overrun": 9, "prompts": {"dataset": "by-hand"}})
    branches = {at: [(1, 0.9)] * 9 for at in range(9)}
    write_part(tmp_path, 0, [pattern(text, index=n, overruns=branches) for n, text in enumerate(["++-+++-+", "--+-"])])
    return tmp_path


def fresh(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **{"cwd": ROOT} | options)


@pytest.mark.parametrize("name", oracle.__all__)
def test_every_name_is_there(name):
    assert name in dir(oracle)
    assert callable(getattr(oracle, name))
    assert not isinstance(getattr(oracle, name), type(oracle))


def test_an_unknown_name_is_said():
    with pytest.raises(AttributeError, match="nonsense"):
        oracle.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "before",
    [
        "import oracle.collect, oracle.measure",
        "from oracle.collect import summarize",
        "import oracle; oracle.collect; import oracle.collect",
        "from oracle.cli import app; import oracle.commands.collect; import oracle.measure",
    ],
)
def test_functions_win_over_files_of_the_same_name(before):
    code = f"""
{before}
import oracle
assert callable(oracle.collect) and callable(oracle.measure), oracle.collect
from oracle import collect
assert collect is oracle.collect
from oracle.collect import Collected  # the file is still there to import from
"""
    done = fresh(code)
    assert done.returncode == 0, done.stderr


def test_what_analysis_offers_is_the_same():
    assert oracle.CostModel is analysis.CostModel


def test_paths_numbers_and_objects_are_taken(folder, tmp_path):
    expected = analysis.simulate(oracle.Trace.load(folder), "constant:tokens=2", analysis.CostModel(draft=0.2))
    oracle.CostModel(draft=0.2).save(tmp_path / "cost.json")
    for trace in (folder, str(folder), oracle.Trace.load(folder)):
        for cost in (0.2, oracle.CostModel(draft=0.2), tmp_path / "cost.json", str(tmp_path / "cost.json")):
            found = oracle.simulate(trace, oracle.parse("constant:tokens=2"), cost)
            assert np.array_equal(found.drafted, expected.drafted) and found.speedup == expected.speedup
    assert oracle.simulate(folder, "none", 1).speedup == 1
    assert oracle.stats(folder).everything.accepted.prompts == 2
    assert oracle.fit(folder, draws=2).fits[0].family == "geometric"
    assert oracle.report(folder, tmp_path / "page.html", policies=["dynamic"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda folder: oracle.simulate(3, "dynamic"), TypeError, "int given, which is not a trace"),
        (lambda folder: oracle.simulate("", "dynamic"), ValueError, "an empty path"),
        (lambda folder: oracle.simulate(folder, "dynamic", [0.1]), TypeError, "list given, which is not prices"),
        (lambda folder: oracle.simulate(folder, "dynamic", True), TypeError, "bool given"),
        (lambda folder: oracle.simulate(folder, "dynamic", float("nan")), ValueError, "finite"),
        (lambda folder: oracle.calibrate(0.1), TypeError, "float given, which is not measured runs"),
        (lambda folder: oracle.report([folder, folder], "x.html", runs="x"), ValueError, "belong to one trace"),
        (lambda folder: oracle.compare([folder], []), ValueError, "one trace for each"),
    ],
)
def test_a_wrong_argument_gets_one_clear_error(folder, call, error, message):
    with pytest.raises(error, match=message):
        call(folder)


def test_a_text_of_one_token_says_why_nothing_is_fitted(tmp_path):
    write_meta(tmp_path, {"eos_token_ids": [EOS], "max_overrun": 0})
    write_part(tmp_path, 0, [pattern("+", index=0)])
    found = oracle.fit(tmp_path)
    assert found.fits == () and "longer texts" in found.nothing


def test_policies_are_listed_with_their_defaults():
    listed = oracle.list_policies()
    assert "dynamic:tokens=20,threshold=0.4" in listed and "none" in listed
    assert all(str(oracle.parse(text)) == text and sentence for text, sentence in listed.items())


def test_the_package_of_policies_lists_them_when_it_is_called():
    code = "import oracle; print(oracle.policies() == oracle.list_policies(), oracle.policies.Policy.__name__)"
    assert fresh(code, cwd=ROOT).stdout.split() == ["True", "Policy"]
    from oracle.policies import Policy, names

    assert Policy is oracle.policies.Policy and names.list_policies() == oracle.policies()


def test_what_is_no_pair_no_name_and_no_figure_is_said_so(tmp_path):
    for call in (lambda: oracle.collect(3, ["a"], tmp_path / "t"), lambda: oracle.measure(3, ["a"], ["none"])):
        with pytest.raises(TypeError, match="int given, which is not a pair of models: oracle.load_pair"):
            call()
    with pytest.raises(TypeError, match="int given, which is not the name of a pair; names: demo"):
        oracle.load_pair(3)
    with pytest.raises(TypeError, match="int given, which is neither a figure nor axes"):
        oracle.save(3, tmp_path / "x.png")
    assert oracle.save(oracle.plot_histogram([1, 2, 2]), tmp_path / "x.png").stat().st_size > 1000


def test_a_set_of_prompts_shows_itself_in_a_line():
    assert repr(oracle.load_prompts("demo-code")) == "<PromptSet demo-code: 40 prompts>"


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("loaded", [True, False])
def test_a_file_of_the_users_that_hides_analysis_is_named(tmp_path, kind, loaded):
    file = tmp_path / ("analysis.py" if kind == "file" else "analysis/__init__.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    code = f"import sys; sys.path.append({str(ROOT)!r})\n"
    code += "import analysis\n" * loaded + "import oracle; oracle.parse; oracle.simulate"
    done = fresh(code, cwd=tmp_path)
    assert done.returncode == 1
    assert f"ImportError: {file} hides the toolkit's own `analysis`" in done.stderr.splitlines()[-1]
    command = f"import sys; sys.path.append({str(ROOT)!r}); sys.argv = ['oracle', 'simulate']; "
    command += "import oracle.cli as c; c.main()"
    said = fresh(command, cwd=tmp_path)
    assert said.returncode == 1 and str(file) in said.stderr and "Traceback" not in said.stderr
