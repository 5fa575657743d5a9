"""Layout of help: commands in order of use, options in groups, examples at the end.

Each option is listed below the heading that its ``rich_help_panel`` names. Help is plain text, so that it can
be searched and piped, in the width of the terminal.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

OPTION_GROUPS: Mapping[str, Mapping[str, str | None]] = {
    "What": {
        "models": "MODEL",
        "lenses": "LENS",
        "tasks": "TASK",
        "corpora": "CORPUS",
        "languages": "LANGUAGE",
        "unit": "UNIT",
        "adapter": "PATH",
        "quantise": "BITS",
        "options": "LENS.NAME=VALUE",
    },
    "How much": {
        "limit": "N",
        "per_cluster": "N",
        "cut_off": "DATE",
        "include_seen": None,
        "lock": "FILE",
        "seed": "N",
        "budget": "TIME",
        "shard": "I/N",
    },
    "Reading": {
        "transform": "CHANGE",
        "context": "N",
        "stride": "N",
        "bos": "WHEN",
    },
    "Machine": {
        "device": "DEVICE",
        "device_map": "MAP",
        "dtype": "TYPE",
        "batch_tokens": "N",
        "workers": "N",
        "executor": "NAME",
        "address": "HOST:PORT",
        "trust_remote_code": None,
    },
    "Output": {"output": "DIR"},
    "Papers": {"mode": "MODE", "quirks": "QUIRK"},
}
"""Options of a run below the headings of the help, with what each takes; a switch takes nothing."""


RUN_OPTIONS = tuple(name for names in OPTION_GROUPS.values() for name in names)
"""The options of a run in the order of the help."""


COMMANDS: Mapping[str, tuple[str, ...]] = {
    "Measure": ("run", "show"),
    "Read results": ("report", "compare", "gate", "table", "card", "figures", "predict"),
    "Find names and settings": ("list", "explain", "doctor"),
    "Prepare code and labels": ("label", "align", "corpus"),
    "Train and convert models": ("pretrain", "convert"),
    "Manage files": ("merge", "verify", "cache"),
}
"""Commands below their headings, in the order of use; any other command comes last."""


_EXAMPLES = Path(__file__).with_name("examples.toml")
"""Examples by command: a comment, and the command line below it. They name lenses, so they are data."""


class Application(typer.Typer):
    """Commands whose help is laid out as this module says."""

    def __init__(self, **settings: Any) -> None:
        # Click would wrap lines at 80 characters in a wider terminal.
        context = {"max_content_width": _UNLIMITED}
        super().__init__(cls=HelpfulGroup, context_settings=context, rich_markup_mode=None, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Any:
        """Register a function as a command, see `typer.Typer.command`."""
        return super().command(name, cls=cls or HelpfulCommand, **settings)


class HelpfulCommand(TyperCommand):
    """A command whose help has groups of options and examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line after the name of the command."""
        return [
            "[OPTIONS]",
            *(
                _format_argument(parameter)
                for parameter in self.get_params(ctx)
                if parameter.param_type_name == "argument"
            ),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options below their headings."""
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _write_examples(ctx, formatter)


class HelpfulGroup(TyperGroup):
    """Commands in order of use, with their whole short help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of `COMMANDS`."""
        order = [name for names in COMMANDS.values() for name in names]
        return sorted(self.commands, key=lambda name: order.index(name) if name in order else len(order))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write each command below its heading, then the options."""
        headings = {name: heading for heading, names in COMMANDS.items() for name in names}
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            short_help = self.commands[name].get_short_help_str(limit=_UNLIMITED)
            sections.setdefault(headings.get(name, "Commands"), []).append((name, short_help))
        _write_sections(sections, formatter)
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _write_examples(ctx, formatter)


_UNLIMITED = 10_000
"""Characters of a line where the terminal alone decides."""


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of a command, each below the heading of its group."""
    parameters = [
        parameter for parameter in command.get_params(ctx) if not getattr(parameter, "hidden", False)
    ]
    panels = [getattr(parameter, "rich_help_panel", None) for parameter in parameters]
    ungrouped = "Output" if any(panels) else "Options"
    sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *OPTION_GROUPS)}
    for parameter, panel in zip(parameters, panels, strict=True):
        if parameter.param_type_name == "argument":
            sections["Arguments"].append((_format_argument(parameter), parameter.help or ""))
        else:
            _, help_text = parameter.get_help_record(ctx)
            text = _format_facts(help_text)
            sections.setdefault(panel or ungrouped, []).append((_format_option(parameter), text))
    _write_sections(sections, formatter)


def _format_facts(text: str) -> str:
    """Format what Typer appends to a help text as declared options have it: ``(at least 1; default 5)``."""
    match = re.fullmatch(r"(.*?)\.?  \[(.+)\]", text)
    if match is None:
        return text
    facts = [
        fact.replace("default: ", "default ").replace("x>=", "at least ") for fact in match[2].split("; ")
    ]
    return f"{match[1]} ({'; '.join(reversed(facts))})."


def read_examples() -> Mapping[str, str]:
    """Read the examples by command, each a comment and a line to type."""
    return tomllib.loads(_EXAMPLES.read_text(encoding="utf-8"))


def _write_examples(ctx: Any, formatter: Any) -> None:
    """Write the examples of a command unwrapped, so that each can be copied."""
    examples = read_examples().get(ctx.command_path.partition(" ")[2])
    if examples:
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(f"  {line}\n")


def _write_sections(sections: Mapping[str, list[tuple[str, str]]], formatter: Any) -> None:
    """Write sections of two columns, the second of which begins at the same place in all."""
    names = [len(name) for rows in sections.values() for name, _ in rows]
    width = max((length for length in names if length <= _WIDEST), default=0)
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                for name, text in rows:
                    formatter.write(f"{_format_row(name, text, width, formatter.width)}\n")


def _format_row(name: str, text: str, name_width: int, line_width: int) -> str:
    """Wrap the second column of a row; names such as ``sonde/mini-decoder`` stay in one piece."""
    return textwrap.fill(
        text,
        width=line_width,
        initial_indent=f"  {name:<{name_width}}  ",
        subsequent_indent=" " * (name_width + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


_WIDEST = 26
"""Characters of a flag with its metavar that the first column takes; a longer one shifts its help."""


def _format_argument(argument: Any) -> str:
    metavar = (argument.metavar or argument.name.upper()).replace("...", "").strip("[]")
    name = f"{metavar}{'...' if argument.nargs != 1 else ''}"
    return name if argument.required else f"[{name}]"


def _format_option(option: Any) -> str:
    flags = sorted([*option.opts, *option.secondary_opts], key=len)
    metavar = "" if option.is_flag else f" {option.metavar or flags[-1].strip('-').upper()}"
    return f"{', '.join(flags)}{metavar}"
