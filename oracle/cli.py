"""The ``oracle`` command: reads the words, calls the library, prints.  No command computes anything itself."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from oracle.commands import calibrate, collect, demo, fit, iterations, measure, plot, report, simulate, stats, validate


class Commands(TyperGroup):
    """Turns errors into one line and an exit status: 2 for bad usage, 1 for a run that failed."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        # Wanted after the fact, so it may stand anywhere on the line, before or after the command's own options.
        ctx.ensure_object(dict)["debug"] = "--debug" in args
        return super().parse_args(ctx, [arg for arg in args if arg != "--debug"])

    def invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except (TyperException, typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:  # the reader (head, less) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
        except KeyboardInterrupt:
            typer.echo("Interrupted; what was finished is kept.", err=True)
            raise typer.Exit(130) from None
        except Exception as error:
            if ctx.obj["debug"]:
                raise
            bad_usage = isinstance(error, ValueError)
            unexpected = not isinstance(error, (ValueError, RuntimeError, OSError))
            advice = "  (run again with --debug for the details)" if unexpected else ""
            typer.echo(f"Error: {type(error).__name__ + ': ' if unexpected else ''}{error}{advice}", err=True)
            raise typer.Exit(2 if bad_usage else 1) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="How many tokens should a draft model propose?  Record a pair of models once, replay any policy exactly.",
    epilog="Start with `oracle demo`.  Any command takes --debug, which shows the whole traceback of an error.",
)


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


for module in (demo, collect, simulate, iterations, measure, calibrate, validate, fit, stats, plot, report):
    module.register(app)


def main() -> None:
    app(prog_name="oracle")


if __name__ == "__main__":
    sys.exit(main())
