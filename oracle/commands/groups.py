"""Options that belong together, written once: a command takes a dataclass, the command line its fields."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import ParameterInfo

from oracle.commands.bounds import Between, Once

Command = Callable[..., None]


def takes(**defaults: Any) -> Callable[[Command], Command]:
    """Let typer see, in place of each parameter that is a dataclass of options, that dataclass's fields.

    ``defaults`` replace the defaults of single fields for this command.  Bounds in the annotations (`Between`,
    `Once`) are checked before the command runs.
    """

    def expand(command: Command) -> Command:
        groups: dict[str, type] = {}
        parameters: list[inspect.Parameter] = []
        hints = get_type_hints(command, include_extras=True)
        for each in inspect.signature(command).parameters.values():
            kind = hints[each.name]
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                groups[each.name] = kind
                parameters += _fields(kind, defaults)
            else:
                parameters.append(_option(each.name, kind, each.default))
        if unknown := set(defaults) - {each.name for each in parameters}:
            raise TypeError(f"{command.__name__} has no option {sorted(unknown)[0]!r} to give a default to")

        @functools.wraps(command)
        def call(**given: Any) -> None:
            for each in parameters:
                _check(each, given[each.name])
            for name, kind in groups.items():
                given[name] = kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
            command(**given)

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        del call.__wrapped__  # typer would look through it at the dataclasses
        return call

    return expand


def _fields(kind: type, defaults: dict[str, Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        _option(field.name, hints[field.name], defaults.get(field.name, field.default))
        for field in dataclasses.fields(kind)
    ]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _check(option: inspect.Parameter, value: Any) -> None:
    if value is None or get_origin(option.annotation) is not Annotated:
        return
    for rule in get_args(option.annotation)[1:]:
        if isinstance(rule, Once):
            rule.check(_flag(option), value)
        elif isinstance(rule, Between):
            for each in value if isinstance(value, list) else [value]:
                rule.check(_flag(option), each)


def _flag(option: inspect.Parameter) -> str:
    """How the option is written: --max-new-tokens; an argument by its name."""
    for info in get_args(option.annotation)[1:]:
        # In an annotation the first of an option's names is kept where a default would be.
        if isinstance(info, ParameterInfo) and str(info.default).startswith("--"):
            return str(info.default).partition("/")[0]
    return f"--{option.name.replace('_', '-')}"
