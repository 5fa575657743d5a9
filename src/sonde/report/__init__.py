"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report._card.card import Card, card_schema
from sonde.report._card.entries import card_of
from sonde.report._card.words import entry_line, outcome_line
from sonde.report._card.write import build_card, junit
from sonde.report._drawing.render import as_svg, sized_spec
from sonde.report._page.page import Section, build_report, draw
from sonde.report._shared.plot import PLOTS, Chart, Drawing, Embed, Figure, Plot
from sonde.report._shared.run import ModelInfo, RunData
from sonde.results.tables import Column, Table

__all__ = [
    "PLOTS",
    "Card",
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
    "build_card",
    "build_report",
    "card_of",
    "card_schema",
    "draw",
    "entry_line",
    "junit",
    "outcome_line",
    "sized_spec",
]
