"""Export of charts and tables to files: SVG, PDF and PNG; CSV and LaTeX.

Charts are rendered by vl-convert, without network or browser. Tables are exported for papers (LaTeX) and
spreadsheets (CSV). `save_figures` writes both beside the report.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars.selectors as cs
import vl_convert
from markupsafe import Markup

from sonde.base.errors import StoreError
from sonde.base.files import get_cache_folder, write_atomic
from sonde.base.fingerprint import hash_text
from sonde.report.section import Chart, Figure, SvgImage
from sonde.report.text import avoid_reserved_name
from sonde.report.theme import (
    FIGURE_SANS,
    HEAT_STEPS,
    MODES,
    MONO,
    SANS,
    SERIF,
    build_css_variables,
    build_vega_config,
    load_asset,
    load_templates,
    recolour_model,
)
from sonde.results.tables import VISIBLE_BREAKS, Table
from sonde.version import __version__

FOLDER = "page"
"""Folder of the cache for the scripts of every page."""


_CONVERTER = "vl-convert-python"


_WIDTH = {False: 460, True: 760}


_PNG_SCALE = 2.0


_PNG_PIXELS = 24e6


_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


_LOG = logging.getLogger(__name__)


_REMOVED_KEYS = ("$schema", "config", "usermeta")


@cache
def load_vega_runtime() -> str:
    """Load the JavaScript of Vega, Vega-Lite and vega-embed in one text, which sets ``window.vegaEmbed``.

    The text goes between script tags, so it may neither close them nor open a comment. Bundling takes a
    second, so the result is cached.
    """
    path = get_cache_folder(FOLDER) / f"vega-{version(_CONVERTER)}.js"
    with suppress(OSError, UnicodeDecodeError):
        digest, _, cached_script = path.read_text(encoding="utf-8").partition("\n")
        if digest == hash_text(cached_script):
            return cached_script
    bundle = vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]  the snippet has a default
    script = re.sub(r"<(?=/script|!--)", r"\\x3c", bundle, flags=re.IGNORECASE)
    # A cache that cannot be written costs time alone.
    with suppress(StoreError):
        write_atomic(path, f"{hash_text(script)}\n{script}")
    return script


def to_page_spec(chart: Chart) -> dict[str, Any]:
    """Convert a chart for the page, which sets its width and colours; without addresses."""
    spec = {key: value for key, value in chart.spec.items() if key not in _REMOVED_KEYS}
    return {**spec, "width": "container"}


def write_figures(folder: Path, figures: Sequence[Chart | SvgImage]) -> tuple[list[Path], list[str]]:
    """Write every chart and drawing as ``<name>.svg``, ``<name>.pdf`` and ``<name>.png``, in light colours.

    Their texts have to be legible, see `sonde.report.text`: other texts can end the process.

    Returns:
        The files, and a line for each figure that could not be drawn.

    Raises:
        StoreError: A file cannot be written.
    """
    paths: list[Path] = []
    errors: list[str] = []
    for figure in figures:
        try:
            svg = to_svg(figure)
            contents = {
                ".svg": svg,
                ".pdf": vl_convert.svg_to_pdf(svg),
                ".png": vl_convert.svg_to_png(svg, scale=_choose_scale(svg)),
            }
        except (ValueError, RuntimeError) as error:
            _LOG.debug("figure %s", figure.name, exc_info=True)
            errors.append(f"figure {figure.name!r} could not be drawn: {_format_error(error)}")
            continue
        for suffix, content in contents.items():
            path = folder / f"{figure.name}{suffix}"
            write_atomic(path, content)
            paths.append(path)
    return paths, errors


def to_svg(figure: Chart | SvgImage) -> str:
    """Convert a chart or drawing to SVG, in light colours.

    Raises:
        ValueError, RuntimeError: It cannot be drawn.
    """
    if isinstance(figure, SvgImage):
        return _fixed_colours(figure.svg)
    spec, config = to_sized_spec(figure), recolour_model(build_vega_config("light"), figure.model)
    try:
        svg = vl_convert.vegalite_to_svg(spec, config=config)
    except ValueError:
        # A label that is too long is cut, if need be inside a sign of two code units, which ends the drawing.
        plain = _ASTRAL.sub("\ufffd", json.dumps(spec, ensure_ascii=False))
        svg = vl_convert.vegalite_to_svg(plain, config=config)
    # With a font of the reader's system, texts would be wider than the places that were measured for them.
    return svg.replace(SANS, FIGURE_SANS)


def to_sized_spec(chart: Chart) -> dict[str, Any]:
    """Convert a chart to a specification that stands alone: with title and width, without colours."""
    spec = {key: value for key, value in chart.spec.items() if key not in _REMOVED_KEYS}
    title = (
        {"text": avoid_reserved_name(chart.title), "fontSize": 24}
        if chart.large
        else avoid_reserved_name(chart.title)
    )
    return {**spec, "width": _WIDTH[chart.wide], "title": title}


def _format_error(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 else str(error)


def _choose_scale(svg: str) -> float:
    """Choose the scale of an image: 2, or less if a value far outside its axis would make it huge."""
    width, height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)"', svg)[:2])
    return min(_PNG_SCALE, math.sqrt(_PNG_PIXELS / (width * height)))


def _fixed_colours(svg: str) -> str:
    """Replace ``var(--name, #rrggbb)`` by its colour, for readers that know no custom properties."""
    return re.sub(r"var\(--[\w-]+, (#[0-9a-f]{6})\)", r"\1", svg)


def render_template(template: str, charts: Sequence[Chart] = (), **context: Any) -> str:
    """Render a page that needs no network; every text of its context is escaped.

    Args:
        template: Stem of its file.
        charts: Charts of the page.
        context: What the template shows.
    """
    return (
        load_templates()
        .get_template(f"templates/{template}.html.j2")
        .render(
            context,
            specs={chart.name: to_page_spec(chart) for chart in charts},
            themes={mode: build_vega_config(mode) | {"background": "transparent"} for mode in MODES},
            runtime=Markup(load_vega_runtime()) if charts else "",
            colours={mode: build_css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=__version__,
            asset=load_asset,
        )
    )


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "…": r"\ldots{}",
    "→": r"$\rightarrow$",
    "↵": r"$\hookleftarrow$",
    "␣": r"\textvisiblespace{}",
    "“": "``",
    "”": "''",
}


def write_table(stem: Path, table: Table) -> list[Path]:
    """Write a table as ``<stem>.csv`` and ``<stem>.tex``.

    Raises:
        StoreError: A file cannot be written.
    """
    paths = [stem.with_name(stem.name + suffix) for suffix in (".csv", ".tex")]
    write_atomic(paths[0], to_csv(table))
    write_atomic(paths[1], to_latex(table))
    return paths


def to_csv(table: Table) -> str:
    """Convert a table to CSV, a line per row: numbers in the scale shown, an interval as two columns.

    Line breaks in names of code are shown by signs, as on the terminal.
    """
    return table.frame().with_columns(cs.string().str.replace_many(VISIBLE_BREAKS)).write_csv()


def to_latex(table: Table) -> str:
    r"""Convert a table to a LaTeX ``tabular`` with booktabs rules; every text is escaped.

    The first line is a comment that names the package that the table needs. What only a screen can show, such
    as bars, is left out. If there are characters that pdfLaTeX may lack, a second comment says so.
    """
    indices = [index for index, form in enumerate(table.formats()) if form.parts]
    rows = [_latex_row([row[index] for index in indices]) for row in (table.titles, *table.texts())]
    body = [
        rf"\begin{{tabular}}{{{''.join('r' if table.right[index] else 'l' for index in indices)}}}",
        r"\toprule",
        rows[0],
        r"\midrule",
        *rows[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]
    rare_characters = sorted({character for row in rows for character in row if ord(character) > _LATIN})
    comments = ["% Needs \\usepackage{booktabs}."]
    if rare_characters:
        comments.append(
            "% Compile with LuaLaTeX or XeLaTeX and a font that has these characters: "
            + " ".join(rare_characters[:_LISTED_SIGNS])
        )
    return "\n".join([*comments, *body, ""])


_LISTED_SIGNS = 20


_LATIN = 0xFF
"""Last character that pdfLaTeX has without further packages."""


def _latex_row(texts: Sequence[str]) -> str:
    # A line break would end a comment or a row of the source, never one of the table.
    cells = [" ".join(text.split()) for text in texts]
    row = " & ".join("".join(_LATEX.get(sign, sign) for sign in cell) for cell in cells)
    # After the end of a row these two belong to it.
    return rf"{'{}' if row.startswith(('[', '*')) else ''}{row} \\"


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """A part of a report that is exported: its figure, under the stem of its files."""

    name: str
    figure: Figure


def save_figures(folder: Path, figures: Sequence[NamedFigure], note: Callable[[str], None]) -> list[Path]:
    """Write every chart, drawing and table of some figures.

    Args:
        folder: Folder of the files.
        figures: Figures to write.
        note: Receives a line for each figure that could not be drawn.

    Returns:
        The files.

    Raises:
        StoreError: A file cannot be written.
    """
    files: list[Path] = []
    for part in figures:
        if part.figure.table:
            files += write_table(folder / part.name, part.figure.table)
        paths, errors = write_figures(folder, [*part.figure.charts, *part.figure.drawings])
        files += paths
        for line in errors:
            note(line)
    return files
