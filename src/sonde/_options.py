"""Options that several commands take, each said once; what they are stands where they are checked."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption


class Explained(TyperCommand):
    """A command whose flags are explained by the models that check them.

    They are read when somebody asks for help, since they take longer to import than a command to parse.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from sonde.experiments.options import run_options

        lines = {one.flag: one.help for one in run_options() if one.flag}
        for parameter in self.params:
            if isinstance(parameter, TyperOption) and not parameter.help:
                parameter.help = next((lines[flag] for flag in parameter.opts if flag in lines), None)
        super().format_help(ctx, formatter)


Models = Annotated[list[str] | None, typer.Option("-m", "--model")]
Corpora = Annotated[list[str] | None, typer.Option("-c", "--corpus")]
Languages = Annotated[list[str] | None, typer.Option("--language")]
Unit = Annotated[str | None, typer.Option("--unit")]
Limit = Annotated[int | None, typer.Option("--limit")]
PerCluster = Annotated[int | None, typer.Option("--per-cluster")]
Context = Annotated[int | None, typer.Option("--context")]
Stride = Annotated[int | None, typer.Option("--stride")]
Bos = Annotated[str | None, typer.Option("--bos")]
Seed = Annotated[int | None, typer.Option("--seed")]
Mode = Annotated[str | None, typer.Option("--mode")]
Quirks = Annotated[list[str] | None, typer.Option("--quirk")]
