"""Flags of the command line that are built from the declarations of options, where values are checked."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperOption

from sonde.base.registry import Registry
from sonde.cli.help import OPTION_GROUPS, HelpfulCommand

if TYPE_CHECKING:
    from sonde.base.options import AllowedValues, OptionDescription

RunOption = Annotated[Any, typer.Option(parser=str)]
"""Annotation of a parameter that is an option of a run; its flag, type and help come from its declaration."""


class DeclaredCommand(HelpfulCommand):
    """A command with options that are declared elsewhere.

    The declarations take longer to import than a command line takes to start. They are read when the command
    is called or its help is wanted.
    """

    @property
    def params(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return arguments and flags of the command."""
        flags = [flag for flag in self._params if isinstance(flag, TyperOption) and not flag.help]
        declarations = read_declarations() if flags else {}
        for flag in flags:
            # In place: what calls the command knows its parameters already.
            vars(flag).update(vars(_build_flag(flag.name, declarations[flag.name])))
        return self._params

    @params.setter
    def params(self, params: list[Any]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._params = params


def read_declarations() -> Mapping[str, OptionDescription]:
    """Return the options of a run that have a flag, by the names of their parameters."""
    from sonde.experiments.catalogue import lens_options, run_options

    declarations = {option.name.rpartition(".")[2]: option for option in run_options() if option.flag}
    for flag, (lens, name) in LENS_FLAGS.items():
        option = next(option for option in lens_options(lens) if option.name == name)
        declarations[f"{lens}_{name}"] = dataclasses.replace(option, flag=flag)
    return declarations


def _build_flag(name: str, option: OptionDescription) -> Any:
    """Build the parameter of a command for a declared option."""

    def command() -> None: ...

    flags = [flag for flag in (option.short, option.flag) if flag]
    heading = next((heading for heading, metavars in OPTION_GROUPS.items() if name in metavars), None)
    metavar = OPTION_GROUPS[heading][name] if heading else None
    settings = typer.Option(
        *flags,
        help=option.help,
        metavar=metavar,
        rich_help_panel=heading,
        autocompletion=_build_completion(name) if name in _COMPLETED else None,
    )
    annotation = Annotated[_flag_type(option.values) | None, settings]
    parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    with_parameters(command, command, [parameter])
    application = typer.Typer(add_completion=False)
    application.command()(command)
    return typer.main.get_command(application).params[0]


CORPUS_FLAG: Any = typer.Option(
    "-c",
    "--corpus",
    metavar="CORPUS",
    rich_help_panel="What",
    help="A corpus by name; see `sonde list corpora`.",
)
"""The flag of a corpus that a command reads."""


_COMPLETED = ("models", "lenses", "tasks", "corpora", "languages")
"""Options whose names a shell completes; each is the kind that `sonde list` takes."""


def _build_completion(kind: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        from sonde.experiments.catalogue import REGISTRIES
        from sonde.models import known_checkpoints, locate_checkpoints

        if kind in REGISTRIES:
            names: Iterable[str] = REGISTRIES[kind].names()
        else:
            names = {checkpoint.name for checkpoint in known_checkpoints()} | locate_checkpoints().keys()
        return sorted(name for name in names if name.startswith(incomplete))

    return complete


def _flag_type(values: AllowedValues) -> Any:
    if values.several or values.type == "table":
        return list[str]
    return values.kind if values.kind in (bool, int, Path) else str


def with_parameters(
    wrapper: Callable[..., Any], command: Callable[..., Any], additions: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Give a wrapper of a command its parameters and `additions`, each after those of its kind."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [
        parameter
        for parameter in sorted(
            [*signature.parameters.values(), *additions], key=lambda parameter: parameter.kind
        )
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def with_run_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command take options of a run, before its own flags; it gets those that are given as keywords.

    Args:
        names: The options, by the names of their fields, in the order of the help.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call_command(**arguments: Any) -> Any:
            return command(**{name: value for name, value in arguments.items() if _is_given(value)})

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        additions = [inspect.Parameter(name, kind, default=None, annotation=RunOption) for name in names]
        return with_parameters(call_command, command, additions)

    return decorate


def _is_given(value: object) -> bool:
    # Earlier versions of Typer hand over an empty sequence where a flag that may be repeated is missing.
    return value is not None and value not in ((), [])


def with_lens_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command with an argument ``options`` take the flags that lenses declare in ``FLAGS``, too.

    Each stands for an option of its lens, or adds the lens to those named. Listing them imports no lens.
    """
    options = {f"{lens}_{name}": f"{lens}.{name}" for lens, name in LENS_FLAGS.values()}

    @functools.wraps(command)
    def call_command(**arguments: Any) -> Any:
        values = {name: arguments.pop(parameter) for parameter, name in options.items()}
        flags = [f"{name}={value}" for name, value in values.items() if value is not None]
        added = [lens for lens in _LENS_SWITCHES if arguments.pop(lens)]
        lenses = list(dict.fromkeys([*(arguments["lenses"] or ()), *added])) or None
        options_and_flags = [*(arguments["options"] or ()), *flags] or None
        return command(**arguments | {"options": options_and_flags, "lenses": lenses})

    kind = inspect.Parameter.KEYWORD_ONLY
    additions = [inspect.Parameter(name, kind, default=None, annotation=RunOption) for name in options]
    additions += [
        inspect.Parameter(lens, kind, default=False, annotation=Annotated[bool, _build_switch(lens, flag)])
        for lens, flag in _LENS_SWITCHES.items()
    ]
    return with_parameters(call_command, command, additions)


def _build_switch(lens: str, flag: str) -> Any:
    return typer.Option(flag, help=f"Add the lens {lens}: {_SUMMARIES[lens]}.", rich_help_panel="What")


_HEADERS = Registry[object]("sonde.lenses", "lens", "lens").headers()


_SUMMARIES = {header.name: f"{header.summary[:1].lower()}{header.summary[1:]}" for header in _HEADERS}


LENS_FLAGS = {flag: (header.name, name) for header in _HEADERS for flag, name in header.flags.items() if name}
"""The lens and option that each such flag stands for."""


_LENS_SWITCHES = {header.name: flag for header in _HEADERS for flag, name in header.flags.items() if not name}
"""Flags that add a lens, by its name."""
