"""Options that several commands take, each said once; what they are stands where they are checked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from sonde.base.registry import Registry


class DocumentedCommand(TyperCommand):
    """A command whose flags are explained by the models that check them.

    They are read when somebody asks for help, since they take longer to import than a command to parse.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from sonde.experiments.catalogue import lens_options, run_options

        lines = {one.flag: one.help for one in run_options() if one.flag}
        for flag, (lens, name) in LENS_FLAGS.items():
            lines[flag] = next(one.help for one in lens_options(lens) if one.name == name)
        for parameter in self.params:
            if isinstance(parameter, TyperOption) and not parameter.help:
                parameter.help = next((lines[flag] for flag in parameter.opts if flag in lines), None)
        super().format_help(ctx, formatter)


def with_parameters(
    wrapper: Callable[..., Any], command: Callable[..., Any], more: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """A function around a command that takes further parameters, as its signature then says."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [*signature.parameters.values(), *more]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


def with_lens_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with an ``option`` that also takes the flags that lenses declare in ``FLAGS``.

    Each stands for an option of its lens. Listing them imports no lens.
    """
    added = {f"{lens}_{name}": (flag, f"{lens}.{name}") for flag, (lens, name) in LENS_FLAGS.items()}

    @functools.wraps(command)
    def with_flags(**given: Any) -> Any:
        values = {name: given.pop(parameter) for parameter, (_, name) in added.items()}
        flags = [f"{name}={value}" for name, value in values.items() if value is not None]
        return command(**given | {"option": [*(given["option"] or ()), *flags]})

    more = [
        inspect.Parameter(
            parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_text_option(flag)
        )
        for parameter, (flag, _) in added.items()
    ]
    return with_parameters(with_flags, command, more)


def _text_option(flag: str) -> Any:
    return Annotated[str | None, typer.Option(flag)]


LENS_FLAGS = {
    flag: (header.name, name)
    for header in Registry[object]("sonde.lenses", "lens", "lens").headers()
    for flag, name in header.flags.items()
}
"""The lens and option that each such flag stands for."""


FromFile = Annotated[
    Path | None,
    typer.Option("-f", "--file", help="An experiment file (TOML), or one by name: `sonde list experiments`."),
]


Models = Annotated[list[str] | None, typer.Option("-m", "--model")]


Corpora = Annotated[list[str] | None, typer.Option("-c", "--corpus")]


Languages = Annotated[list[str] | None, typer.Option("--language")]


Unit = Annotated[str | None, typer.Option("--unit")]


Executor = Annotated[str | None, typer.Option("--executor")]


Figures = Annotated[bool, typer.Option("--figures", help="Write every chart as SVG, PDF and PNG too.")]


PlanFlag = Annotated[
    bool, typer.Option("--plan", help="Say what the run costs and can show, and do not run it.")
]


NoTrial = Annotated[
    bool, typer.Option("--no-trial", help="With --plan: load no model, so that time is not known.")
]


Address = Annotated[str | None, typer.Option("--address")]


Limit = Annotated[int | None, typer.Option("--limit")]


PerCluster = Annotated[int | None, typer.Option("--per-cluster")]


CutOff = Annotated[str | None, typer.Option("--cut-off")]


Transform = Annotated[str | None, typer.Option("--transform")]


Context = Annotated[int | None, typer.Option("--context")]


Stride = Annotated[int | None, typer.Option("--stride")]


Bos = Annotated[str | None, typer.Option("--bos")]


Seed = Annotated[int | None, typer.Option("--seed")]


Mode = Annotated[str | None, typer.Option("--mode")]


Quirks = Annotated[list[str] | None, typer.Option("--quirk")]
