"""Options written once: what typer makes of a group, and what is refused before anything is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from test_cli import run
from typer.main import get_command
from typer.testing import CliRunner

from oracle.cli import app
from oracle.commands.bounds import Between, Once
from oracle.commands.groups import takes


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--width", help="How wide."), Between(1, 9)] = 2
    height: Annotated[float | None, typer.Option(help="How high."), Between(0.0, 1.0, above=True)] = None


@pytest.fixture
def tool():
    made = typer.Typer()

    @made.command()
    @takes(width=3)
    def draw(
        size: Size,
        name: Annotated[Path, typer.Argument(help="What.")] = Path("x"),
        tags: Annotated[list[str] | None, typer.Option("--tag"), Once()] = None,
    ) -> None:
        """Draws."""
        print(size, name, tags)

    return lambda *words: CliRunner().invoke(made, words)


def test_a_group_arrives_as_a_whole_and_the_defaults_are_the_commands_own(tool):
    assert tool().output == "Size(width=3, height=None) x None\n"
    assert tool("y", "--width", "5", "--height", "0.5", "--tag", "a").output == "Size(width=5, height=0.5) y ['a']\n"
    text = tool("--help").output
    assert "How wide." in text and "default: 3" in text and "How high." in text and "Draws." in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--width", "0"], "--width is 0; legal: a whole number from 1 to 9"),
        (["--width", "10"], "--width is 10;"),
        (["--height", "0"], "--height is 0.0; legal: a finite number, above 0, at most 1"),
        (["--height", "nan"], "--height is nan;"),
        (["--height", "inf"], "--height is inf;"),
        (["--tag", "a", "--tag", "b", "--tag", "a"], "--tag 'a' is given twice"),
    ],
)
def test_a_bound_is_said_with_the_value_and_what_is_legal(tool, words, message):
    assert message in str(tool(*words).exception)


def test_a_default_for_no_option_is_a_mistake_of_ours():
    with pytest.raises(TypeError, match="depth"):
        takes(depth=1)(lambda: None)


def test_every_number_on_the_command_line_is_bounded_on_both_sides():
    for name, command in get_command(app).commands.items():
        for option in command.params:
            kind = str(option.type_descriptor.annotation)
            if kind in ("<class 'int'>", "<class 'float'>"):
                flag = option.opts[0]
                for value in ("-1", "99999999999999999999", *(["nan", "inf"] if "float" in kind else [])):
                    done = run(name, *{"plot": ["histogram"], "train": ["margin"]}.get(name, []), f"{flag}={value}")
                    assert done.exit_code == 2 and f"{flag} is " in done.output, (name, flag, value, done.output)


def test_an_option_of_several_commands_is_one_option():
    """Same flag, same help; but for what means another thing there: a page's runs, prices fitted, given, or of two."""
    own = {"--runs", "--dataset", "--cost", "--draft-cost", "--limit", "--out", "--output", "--plot"}
    seen = {}
    for command in get_command(app).commands.values():
        for option in (each for each in command.params if each.opts[0] not in own | {"--help"}):
            if option.opts[0].startswith("--"):
                assert seen.setdefault(option.opts[0], option.help) == option.help, option.opts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["collect", ""], "empty text after collect"),
        (["collect", "--target", ""], "empty text after --target"),
        (["report", "-o", " "], "empty text after -o"),
        (["report", "--output="], "empty text after --output"),
        (["simulate", "-p", ""], "empty text after -p"),
        (["collect", "--target", "x"], "--target is given without --draft"),
        (["collect", "--pair", "demo", "--target", "x", "--draft", "y"], "exclude each other"),
        (["measure", "--resume", "--force"], "give one of them"),
        (["collect", "--dtype", "int8"], "legal: auto, float32, bfloat16, float16"),
        (["collect", "--reference", "x"], "legal: plain, assisted"),
        (["simulate", "-p", "dynamic", "-p", "dynamic"], "given twice"),
        (["validate", "--dataset", "demo-code", "--dataset", "demo-code"], "given twice"),
        (["plot", "histogram", "-o", "FILE/x.png"], "name another place"),
        (["plot", "histogram", "-o", "FOLDER"], ".png"),
        (["report", "-o", "FOLDER"], "is a folder; name a file"),
        (["calibrate", "FOLDER"], "is a folder; name a file"),
        (["calibrate", "FILE"], "--force replaces it"),
        (["iterations", "--csv", "FOLDER"], "is a folder; name a file"),
        (["collect", "FILE"], "is a file; name a folder"),
        (["measure", "FILE"], "is a file; name a folder"),
        (["validate", "--out", "FILE"], "is a file; name a folder"),
        (["validate", "--plot", "x.gif"], ".png"),
        (["predict", "--acceptance", "0.8", "--plot", "x.gif"], ".png"),
        (["predict"], "--acceptance is missing"),
        (["predict", "--published", "--acceptance", "0.8"], "pairs of its own"),
        (["predict", "--acceptance", "0.8", "--verify", "1:1,x"], "such as 1:1,4:1.1"),
        (["predict", "--acceptance", "0.8", "--verify", "2:1"], "must start at 1"),
        (["predict", "--acceptance", "0.8", "--verify", "1:1", "--cost", "x"], "exclude each other"),
        (["demo", "FILE"], "is a file; name a folder"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_loaded(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for library in ("oracle.models.pairs.load_pair", "oracle.prompts.sets.load_prompts"):
        monkeypatch.setattr(library, lambda *given, **named: pytest.fail("something was loaded"))
    monkeypatch.setattr("oracle.records.trace.Trace.load", lambda path: pytest.fail("a trace was read"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    done = run(*[word.replace("FILE", "file").replace("FOLDER", "folder") for word in words])
    assert done.exit_code == 2 and message in done.output, done.output
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"
