"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report._drawing.render import as_svg, sized_spec
from sonde.report._page.page import Section, build_report, draw
from sonde.report._shared.plot import PLOTS, Cell, Chart, Drawing, Embed, Figure, Plot, Table
from sonde.report._shared.run import ModelInfo, RunData

__all__ = [
    "PLOTS",
    "Cell",
    "Chart",
    "Drawing",
    "Embed",
    "Figure",
    "ModelInfo",
    "Plot",
    "RunData",
    "Section",
    "Table",
    "as_svg",
    "build_report",
    "draw",
    "sized_spec",
]
