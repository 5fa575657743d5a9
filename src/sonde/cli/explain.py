"""Commands that say what there is: list and explain.

- ``sonde list``: everything there is of a kind, by name.
- ``sonde explain``: what an option, metric, task, column or anything else with a name is, and how it is used.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sonde.base.errors import UsageError
from sonde.base.formatting import align_cells
from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput, with_output

if TYPE_CHECKING:
    from sonde.api.catalogue import Entry
    from sonde.models import LocalCopy

_UNWRAPPED = 10_000
"""Width of output that is no terminal: no text is wrapped, so that it can be searched."""


@with_output()
def list_names(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="models, lenses, tasks, corpora, languages, options, metrics, quirks, plots, "
            "experiments or executors, also in the singular; without a kind, all of them.",
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Argument(metavar="[LENS]", help="With options: only those of this lens, or of a run."),
    ] = None,
    lens: Annotated[
        str | None, typer.Option("--for", metavar="LENS", help="Only the models that this lens can read.")
    ] = None,
) -> CommandOutput:
    """List models, lenses, tasks, corpora and other names of a kind."""
    from sonde.api.catalogue import KINDS, list_entries, resolve_kind
    from sonde.cli.progress import options_data, print_options
    from sonde.experiments.catalogue import all_options

    if lens is not None and (what or "").lower() not in ("models", "model"):
        raise UsageError(f"only models are listed for a lens: `sonde list models --for {lens}`")
    if what is None:
        return CommandOutput({"kinds": KINDS}, lambda: print_lines(*align_cells(list(KINDS.items()))))
    kind = resolve_kind(what)
    if kind == "options":
        options = all_options(of)
        return CommandOutput({kind: options_data(options)}, lambda: print_options(options))
    if of is not None:
        models_text = f"; `sonde list models --for {of}` lists models" if kind == "models" else ""
        raise UsageError(
            f"only options take a second name: use `sonde list {kind}`, without {of!r}{models_text}"
        )
    if kind == "models":
        return _list_models(lens)
    names = _LISTED_DETAILS.get(kind, ())
    entries = list(list_entries(kind))
    data = [
        {"name": entry.name, "summary": entry.summary, **{name: entry.details.get(name) for name in names}}
        for entry in entries
    ]
    return CommandOutput({kind: data}, lambda: print_lines(*_list_lines(entries, names)))


@with_output()
def explain(
    context: typer.Context,
    name: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="An option (--limit, LENS.OPTION), metric, task, lens, column, corpus, language, plot, "
            "quirk, model, experiment, command or term of the glossary.",
        ),
    ],
) -> CommandOutput:
    """Explain a name: its meaning, its values, and how to use it."""
    from sonde.api.catalogue import explain as find_entries

    entries = find_entries(" ".join(name), list(_list_commands(context.find_root().command)))
    data = [
        {"kind": entry.kind, "name": entry.name, "summary": entry.summary, **entry.details}
        for entry in entries
    ]
    return CommandOutput({"entries": data}, lambda: print_lines(*_explain_lines(entries)))


def _list_commands(root: Any) -> Iterator[Entry]:
    """Yield every command, and every flag with the commands that have it."""
    from sonde.api.catalogue import Entry

    waiting: list[tuple[str, Any]] = [("sonde", root)]
    flags: dict[tuple[str, str], list[str]] = {}
    for name, command in waiting:
        waiting += [(f"{name} {part}", member) for part, member in getattr(command, "commands", {}).items()]
        if command is not root:
            yield Entry(
                kind="command",
                name=name.removeprefix("sonde "),
                summary=command.get_short_help_str(1000),
                details={"how": f"{name} --help"},
            )
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.help:
                flags.setdefault((", ".join(parameter.opts), parameter.help), []).append(name)
    for (names, line), commands in flags.items():
        details = {"flag": names, "of": tuple(commands)}
        yield Entry(kind="flag", name=names.rpartition(", ")[2], summary=line, details=details)


_LISTED_DETAILS: Mapping[str, tuple[str, ...]] = {
    "tasks": ("family", "target", "lenses"),
    "metrics": ("lens", "unit"),
    "quirks": ("of",),
}
"""Details of entries that lists show; by the first of them they are grouped."""


def _list_lines(entries: Sequence[Entry], details: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a list, below a heading for each group if it has any."""
    group, *columns = details or ("",)
    grouped = sorted(entries, key=lambda entry: _text(entry.details.get(group, ""))) if group else entries
    rows = [
        (entry.name, *(_text(entry.details.get(name, "")) for name in columns), _text(entry.summary))
        for entry in grouped
    ]
    heading = None
    for entry, line in zip(grouped, align_cells(rows), strict=True):
        if (
            group
            and (text := _text(entry.details.get(group, "")) or "From other packages and files") != heading
        ):
            yield from ([] if heading is None else [""])
            yield text
            heading = text
        yield f"  {line}" if group else line


def _explain_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield kind, name, meaning and details of each entry, wrapped to the width of a terminal."""
    from sonde.api.catalogue import TARGETS

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNWRAPPED
    for index, entry in enumerate(entries):
        yield from ([""] if index else [])
        yield f"{entry.kind} {entry.name}"
        yield from textwrap.wrap(_text(entry.summary), width, initial_indent="  ", subsequent_indent="  ")
        details = {name: _text(value) for name, value in entry.details.items() if value and name != "more"}
        if "target" in details:
            details["target"] += f": {TARGETS[details['target']]}"
        label_width = max(map(len, details), default=0)
        for name, text in details.items():
            indent = " " * (label_width + 4)
            yield from textwrap.wrap(
                text, width, initial_indent=f"  {name.ljust(label_width)}  ", subsequent_indent=indent
            )
        for paragraph in _text(entry.details.get("more", "")).split("\n\n"):
            lines = textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")
            yield from ["", *lines] if lines else []


def _text(value: str | tuple[str, ...]) -> str:
    """Join several values by commas; literals of docstrings lose half their quotes."""
    return (value if isinstance(value, str) else ", ".join(value)).replace("``", "`")


def _list_models(lens: str | None) -> CommandOutput:
    """List known checkpoints and those in the hub cache, with where each is on this machine."""
    from sonde.experiments.catalogue import list_checkpoints
    from sonde.models import locate_checkpoints

    copies = locate_checkpoints()
    checkpoints = list_checkpoints(lens)
    rows = [_model_row(checkpoint.data(), copies.get(checkpoint.name)) for checkpoint in checkpoints]
    known_names = {checkpoint.name for checkpoint in list_checkpoints()}
    if lens is None:
        unknown = {name: copy for name, copy in copies.items() if name not in known_names}
        rows += [_model_row({"name": name}, copy) for name, copy in unknown.items()]
    return CommandOutput({"models": rows}, lambda: _print_models(rows))


def _model_row(checkpoint: Mapping[str, Any], copy: LocalCopy | None) -> dict[str, Any]:
    return {
        **checkpoint,
        "here": None if copy is None else copy.source,
        "size_on_disk": None if copy is None else copy.size,
        "has_weights": copy is not None and copy.has_weights,
    }


def _print_models(rows: Sequence[Mapping[str, Any]]) -> None:
    from sonde.base.formatting import format_parameters
    from sonde.results.tables import Column, Table

    columns = [
        Column(title="name", value="name"),
        Column(title="family", value=lambda row: row.get("family")),
        Column(
            title="size", value=lambda row: row.get("parameters") and format_parameters(row["parameters"])
        ),
        Column(title="cut-off", value=lambda row: row.get("cut_off")),
        Column(title="licence", value=lambda row: row.get("licence")),
        Column(title="here", value=_format_place),
    ]
    print_lines(*Table(summary="", columns=columns, rows=rows).lines())


def _format_place(row: Mapping[str, Any]) -> str | None:
    return row["here"] if row["has_weights"] or row["here"] is None else f"{row['here']}, without weights"
