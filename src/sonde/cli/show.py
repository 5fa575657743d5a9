"""``sonde show``: one function of a file as models read it, in the terminal or as JSON."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sonde.base.terminal import escape_text, print_lines
from sonde.cli.options import with_run_options
from sonde.cli.output import CommandOutput, OpenFlag, with_output

if TYPE_CHECKING:
    from rich.text import Text

    from sonde.api.show import FunctionView, ModelView

_WORST = 10
_ARCS = 40
_LONGEST = 30
_STEPS = ((1.0, ""), (4.0, "on grey23"), (8.0, "on dark_goldenrod"), (float("inf"), "on dark_red"))
"""Bits up to which a subword has a background."""


@with_output()
@with_run_options("models", "device")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of code; it is never run.")],
    *,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="NAME",
            rich_help_panel="What",
            help="Which function; default: the first.",
        ),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Print the syntax tree with the bits of each node.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Also write an HTML page, with relations as arcs."
        ),
    ] = None,
    open_page: OpenFlag = False,
    **arguments: Any,
) -> CommandOutput:
    """Show surprisal, attention and syntax of one function."""
    from sonde.api.show import show as read
    from sonde.experiments import Experiment

    models = arguments.pop("models", Experiment().models)
    view = read(file, models, function=function, **arguments)
    page = output
    if page is None and open_page:
        page = Path(tempfile.mkdtemp(prefix="sonde-")) / "function.html"
    if page is not None:
        from sonde.api.show import render_page
        from sonde.base.files import write_atomic

        write_atomic(page, render_page(_data(view)))

    def print_view() -> None:
        from rich.console import Console

        console = Console(
            file=sys.stdout, width=None if sys.stdout.isatty() else 1000, highlight=False, soft_wrap=True
        )
        for model_view in view.reads:
            for line in _lines(view, model_view, tree=tree):
                if isinstance(line, str):
                    print_lines(line)
                else:
                    console.print(line, markup=False, emoji=False)
        for line in _difference_lines(view):
            print_lines(line)
        if page is not None:
            print_lines(f"page: {page}")

    return CommandOutput(_data(view), print_view, opened=page if open_page else None)


def _data(view: FunctionView) -> dict[str, Any]:
    tables = ("tokens", "relations", "arcs", "nodes", "units")
    reads = [
        {
            field.name: getattr(model_view, field.name).to_dicts()
            if field.name in tables
            else getattr(model_view, field.name)
            for field in dataclasses.fields(model_view)
        }
        for model_view in view.reads
    ]
    fields = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
    return {**fields, "reads": reads, "differences": view.differences.to_dicts()}


def _difference_lines(view: FunctionView) -> Iterator[str]:
    """Yield lines with the code tokens at which models differ most from the first one."""
    from sonde.languages.engine.text import count_line_breaks

    for (base, model), rows in view.differences.group_by("base", "model", maintain_order=True):
        yield f"Code tokens at which {model} and {base} differ most, in bits:"
        for row in rows.to_dicts():
            line = view.line + count_line_breaks(view.text, 0, row["start"])
            yield (
                f"  line {line}: {_short(row['text'])} {row['bits']:.1f} and {row['base_bits']:.1f} "
                f"({row['difference']:+.1f})"
            )
        yield ""


def _lines(view: FunctionView, read: ModelView, *, tree: bool) -> Iterator[str | Text]:
    from sonde.languages.engine.text import count_line_breaks, normalise_line_breaks
    from sonde.report.section import WAYS

    location = f"{view.name or Path(view.file).name} ({view.file}, line {view.line})"
    summary = (
        f"no bits per byte: {read.unscored}"
        if read.bits_per_byte is None
        else f"{read.bits_per_byte:.2f} bits per byte, {WAYS[read.objective]}"
    )
    yield f"{read.model} reads {location}: {summary}"
    if read.head:
        yield f"Its head: {read.head}"
    if read.seen:
        source = f" ({read.training_file})" if read.training_file else ""
        yield f"The model was trained on this function{source} and may have memorised it."
    yield ""
    yield _colour_text(view, read)
    yield ""
    if not read.unscored:
        yield "Least expected subwords:"
    for row in (
        read.tokens.filter(read.tokens["rank"] > 0).sort("bits", descending=True).head(_WORST).to_dicts()
    ):
        line = view.line + count_line_breaks(view.text, 0, row["start"])
        alternatives = ", ".join(repr(text) for text in row["expected"][:3])
        yield (
            f"  line {line}: {row['text']!r} {row['bits']:.1f} bits, rank {row['rank']:,} ({row['kind']}); "
            f"expected {alternatives}"
        )
    if not read.unscored:
        yield ""
    if read.without:
        yield f"No heads are shown: {read.without}."
    else:
        yield (
            "Relations, each with the head that finds most of them in this text (chosen on this "
            "text, so not a finding):"
        )
    for row in read.relations.to_dicts():
        head_text = (
            f"head {row['head']} of layer {row['layer']}, {row['side']}" if row["found"] else "by no head"
        )
        yield f"  {row['relation']}: {row['found']} of {row['edges']} found, {head_text}"
    for row in read.arcs.head(_ARCS).to_dicts():
        aim = "found" if row["found"] else f"picks {_short(row['picked_text'])}"
        line = view.line + count_line_breaks(view.text, 0, row["asked"])
        asked_text, expected_text = _short(row["asked_text"]), _short(row["expected_text"])
        yield f"    line {line}: {row['relation']}: {asked_text} -> {expected_text}, {aim}"
    if read.arcs.height > _ARCS:
        yield f"    ... {read.arcs.height - _ARCS:,} more; --json has all"
    if tree:
        yield ""
        yield "Syntax tree:" if read.unscored else "Syntax tree, bits of each node:"
        for row in read.nodes.to_dicts():
            part = normalise_line_breaks(view.text[row["start"] : row["end"]]).split("\n", 1)[0][:40]
            bits = "" if read.unscored else f"  {row['bits']:.1f}"
            yield f"  {'  ' * row['depth']}{row['kind']}{bits}  {part}"
    if view.others:
        yield ""
        names = ", ".join(dict.fromkeys(view.others))
        yield f"Other functions of the file (--function NAME): {names}"
    yield ""


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def _cut_lines(text: str, start: int, stop: int) -> str:
    """Return a part of a text with normalised line breaks."""
    from sonde.languages.engine.text import normalise_line_breaks

    # One that ends between both signs of a line's end leaves it to what follows.
    stop -= text[start:stop].endswith("\r") and text[stop : stop + 1] == "\n"
    return escape_text(normalise_line_breaks(text[start:stop]), safe="\n\t")


def _colour_text(view: FunctionView, read: ModelView) -> Text:
    """Return the text, in which the background of a subword shows its surprisal on a terminal."""
    from rich.text import Text

    text, position = Text(), 0
    for row in read.tokens.to_dicts():
        text.append(_cut_lines(view.text, position, row["start"]))
        style = next(style for bits, style in _STEPS if not row["bits"] > bits)
        text.append(_cut_lines(view.text, max(position, row["start"]), row["end"]), style=style)
        position = max(position, row["end"])
    text.append(_cut_lines(view.text, position, len(view.text)))
    return text
