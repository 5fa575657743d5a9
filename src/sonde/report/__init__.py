"""Report: one page, without network, from the finished files of a run; and its figures."""

from sonde.report._card.card import Card, card_schema
from sonde.report._card.entries import card_of
from sonde.report._card.words import entry_line, outcome_line
from sonde.report._card.write import build_card, junit
from sonde.report._comparison.page import build_comparison
from sonde.report._comparison.sections import sentences as comparison_sentences
from sonde.report._comparison.within import read_compared
from sonde.report._drawing.render import as_svg, sized_spec
from sonde.report._page.one_function import page_of_function
from sonde.report._page.page import build_report, draw, save_figures
from sonde.report._shared.answers import LensAnswer
from sonde.report._shared.plot import PLOTS, Chart, Drawing, Embed, Figure, Plot, Section
from sonde.report._shared.run import ModelInfo, RunData
from sonde.report._shared.task_answers import task_answers
from sonde.report._shared.title import first_screen
from sonde.results.tables import Column, Table

__all__ = [
    "PLOTS",
    "Card",
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
    "build_card",
    "build_comparison",
    "build_report",
    "card_of",
    "card_schema",
    "comparison_sentences",
    "draw",
    "entry_line",
    "first_screen",
    "junit",
    "outcome_line",
    "page_of_function",
    "read_compared",
    "save_figures",
    "sized_spec",
    "task_answers",
]
