"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report._page import build_report
from sonde.report._plot import PLOTS, Cell, Chart, Drawing, Embed, Figure, Plot, Table
from sonde.report._run import RunData

__all__ = [
    "PLOTS",
    "Cell",
    "Chart",
    "Drawing",
    "Embed",
    "Figure",
    "Plot",
    "RunData",
    "Table",
    "build_report",
]
