"""The ``oracle`` command's words, read by typer; errors are left to the guard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from oracle.commands import (
    calibrate,
    collect,
    compare,
    datasets,
    demo,
    diagnose,
    doctor,
    fit,
    iterations,
    measure,
    pairs,
    plot,
    policies,
    predict,
    report,
    simulate,
    stats,
    study,
    table,
    train,
    tune,
    validate,
)
from oracle.commands.guard import guarded


class Commands(TyperGroup):
    """Leaves what goes wrong to the guard, which says it in one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        sys.exit(guarded(lambda: self.answer(words), words))

    def answer(self, words: Sequence[str]) -> int:
        """Run the command that ``words`` name; its exit status.  Whatever goes wrong is raised."""
        self._main_shell_completion({}, "oracle")  # answers and ends where a shell asks what could come next
        try:
            with self.make_context("oracle", list(words) or ["--help"]) as context:
                self.invoke(context)
        except typer.Exit as end:
            return end.exit_code
        return 0

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each command with the whole of its first sentence."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(1000)) for name, each in commands if each is not None])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        check_words(args)
        # Wanted after the fact, so it may stand anywhere on the line, before or after the command's own options.
        return super().parse_args(ctx, [arg for arg in args if arg != "--debug"])

    def invoke(self, ctx: Any) -> Any:
        from oracle.shadow import expect_own_analysis

        expect_own_analysis()
        return super().invoke(ctx)


def check_words(words: Sequence[str]) -> None:
    """Raise ValueError for an empty word: as a path it would mean the working directory, as a name nothing."""
    for before, word in zip(["oracle", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if not word.strip() or (option.startswith("--") and equals and not value.strip()):
            place = option if equals else before
            raise ValueError(f"empty text after {place}: give it a value, or leave it out")


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,  # its tables cut the names of options off where a terminal is narrow
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="How many tokens should a draft model propose?  Record a pair of models once, replay any policy exactly.",
    epilog="Start with `oracle demo`.  Any command takes --debug, which shows the whole traceback of an error.",
)


def run(words: Sequence[str]) -> int:
    """Run the command that ``words`` name; its exit status.  Whatever goes wrong is raised."""
    command = get_command(app)
    assert isinstance(command, Commands)
    return command.answer(words)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oracle-lookahead {version('oracle-lookahead')}")
        raise typer.Exit


@app.callback()
def options(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for module in (
    demo,
    diagnose,
    study,
    collect,
    simulate,
    tune,
    compare,
    iterations,
    measure,
    calibrate,
    validate,
    fit,
    stats,
    train,
    plot,
    policies,
    pairs,
    datasets,
    predict,
    report,
    doctor,
    table,
):
    module.register(app)
