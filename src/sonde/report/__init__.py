"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report._comparison.page import build_comparison, read_compared
from sonde.report._comparison.sections import sentences as comparison_sentences
from sonde.report._drawing.render import as_svg, sized_spec
from sonde.report._page.page import Section, build_report, draw
from sonde.report._shared.plot import PLOTS, Chart, Drawing, Embed, Figure, Plot
from sonde.report._shared.run import ModelInfo, RunData
from sonde.results.tables import Column, Table

__all__ = [
    "PLOTS",
    "Chart",
    "Column",
    "Drawing",
    "Embed",
    "Figure",
    "ModelInfo",
    "Plot",
    "RunData",
    "Section",
    "Table",
    "as_svg",
    "build_comparison",
    "build_report",
    "comparison_sentences",
    "draw",
    "read_compared",
    "sized_spec",
]
