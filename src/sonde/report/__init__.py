"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report._drawing.render import as_svg, sized_spec
from sonde.report._page.page import build_report, draw, save_figures
from sonde.report._shared.answers import LensAnswer
from sonde.report._shared.plot import PLOTS, Chart, Drawing, Embed, Figure, Plot, Section
from sonde.report._shared.run import ModelInfo, RunData
from sonde.report._shared.title import first_screen
from sonde.results.tables import Column, Table

__all__ = [
    "PLOTS",
    "Chart",
    "Column",
    "Drawing",
    "Embed",
    "Figure",
    "LensAnswer",
    "ModelInfo",
    "Plot",
    "RunData",
    "Section",
    "Table",
    "as_svg",
    "build_report",
    "draw",
    "first_screen",
    "save_figures",
    "sized_spec",
]
