"""Charts as files: SVG and PNG through vl-convert, without network or browser."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert

from sonde.base.files import write_atomic
from sonde.report._plot import Chart, Drawing
from sonde.report._theme import vega_config

_WIDTH = {False: 460, True: 760}
_PNG_SCALE = 2.0
_PNG_PIXELS = 24e6
_DROPPED = ("$schema", "config", "usermeta")


@cache
def vega_runtime() -> str:
    """The JavaScript of Vega, Vega-Lite and vega-embed in one piece; sets ``window.vegaEmbed``.

    It goes between script tags, so neither may it close them nor open a comment.
    """
    bundle = vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]  the snippet has a default
    return re.sub(r"<(?=/script|!--)", r"\\x3c", bundle, flags=re.IGNORECASE)


def page_spec(chart: Chart) -> dict[str, Any]:
    """A chart for the page: as wide as its place, without addresses, coloured by the page."""
    spec = {key: value for key, value in chart.spec.items() if key not in _DROPPED}
    return {**spec, "width": "container"}


def write_figures(folder: Path, charts: list[Chart], drawings: list[Drawing]) -> list[Path]:
    """Write every chart and drawing as ``<name>.svg`` and ``<name>.png``, in light colours.

    Raises:
        StoreError: A file cannot be written.
    """
    config = vega_config("light")
    written: list[Path] = []
    for chart in charts:
        spec = {key: value for key, value in chart.spec.items() if key not in _DROPPED}
        sized = {**spec, "width": _WIDTH[chart.wide], "title": chart.title}
        written += _write(folder / chart.name, vl_convert.vegalite_to_svg(sized, config=config))
    for drawing in drawings:
        written += _write(folder / drawing.name, _fixed_colours(drawing.svg))
    return written


def _write(stem: Path, svg: str) -> list[Path]:
    paths = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".png")]
    write_atomic(paths[0], svg)
    write_atomic(paths[1], vl_convert.svg_to_png(svg, scale=_scale(svg)))
    return paths


def _scale(svg: str) -> float:
    """Twice the size, less where a value far outside its axis would make the image huge."""
    width, height = (float(size) for size in re.findall(r'(?:width|height)="([\d.]+)"', svg)[:2])
    return min(_PNG_SCALE, math.sqrt(_PNG_PIXELS / (width * height)))


def _fixed_colours(svg: str) -> str:
    """Replace ``var(--name, #rrggbb)`` by its colour, for readers that know no custom properties."""
    return re.sub(r"var\(--[\w-]+, (#[0-9a-f]{6})\)", r"\1", svg)


def themes() -> Mapping[str, Any]:
    """Vega configurations by mode, for the page's script."""
    return {mode: vega_config(mode) | {"background": "transparent"} for mode in ("light", "dark")}
